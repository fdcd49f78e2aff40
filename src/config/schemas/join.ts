/** Settings of a node that gathers the branches of one message. */
import { type NodeSchema, TIME } from './node-schema.ts';

export const join = {
  type: 'object',
  properties: {
    name: { type: 'string', default: '', description: 'Label of the node' },
    mode: {
      type: 'string',
      default: 'all',
      enum: ['all', 'first', 'quorum', 'list'],
      icon: 'code-fork',
      description:
        '`all`: a result of every branch. `first`: the first result, as it is. `quorum`: results of as many branches as `quorum` says. `list`: a result for each item of the list that a stage emits, in order',
    },
    form: {
      type: 'string',
      default: 'results',
      enum: ['results', 'pairs'],
      onlyIf: { mode: ['list'] },
      icon: 'list-ol',
      description: 'With `mode` `list`: `results` is an array of the results, `pairs` an array of `{item, result}`',
    },
    maxItems: {
      type: 'integer',
      default: 10_000,
      minimum: 1,
      maximum: 1_000_000,
      onlyIf: { mode: ['list'] },
      icon: 'hashtag',
      unit: 'items',
      description: 'With `mode` `list`: most items of one list. A longer list fails with `modelet_failed`',
    },
    quorum: {
      type: 'integer',
      default: 0,
      minimum: 0,
      maximum: 1000,
      icon: 'hashtag',
      description:
        'With `mode` `quorum`: number of results; 0: more than half of the branches. With another `mode` and a `key`: number of branches; 0: as many as are drawn',
    },
    key: {
      type: 'string',
      default: '',
      icon: 'key',
      description: 'Message property that names a branch. Empty: the name of the last stage in the branch',
    },
    timeoutMs: {
      ...TIME,
      default: 30_000,
      minimum: 1,
      icon: 'clock-o',
      description: 'Longest wait after the first branch has come. The wait also ends at the deadline of the request',
    },
    partial: {
      type: 'string',
      default: 'error',
      enum: ['error', 'keep'],
      icon: 'adjust',
      description:
        '`error`: too few results are an error. `keep`: the results that came leave by output 1, and `msg.branches` says which branches failed and why; in a list, failed places are null',
    },
  },
} as const satisfies NodeSchema;
