/** Settings of a batcher, which sets how the stage behind it forms batches. */
import type { NodeSchema } from './node-schema.ts';

export const batcher = {
  type: 'object',
  properties: {
    name: { type: 'string', default: '', description: 'Label of the node' },
    maxBatchSize: {
      type: 'integer',
      default: 32,
      minimum: 1,
      maximum: 10_000,
      icon: 'clone',
      unit: 'items',
      description: 'Largest batch, in items. A full batch leaves at once under every policy',
    },
    policy: {
      type: 'string',
      default: 'greedy',
      enum: ['greedy', 'oldest', 'gap', 'adaptive'],
      icon: 'hourglass-half',
      description: 'When a batch that is not full leaves',
    },
    maxWaitMs: {
      type: 'number',
      default: 10,
      minimum: 0,
      maximum: 60_000,
      onlyIf: { policy: ['oldest', 'gap'] },
      icon: 'clock-o',
      unit: 'ms',
      description: 'How long to wait for more items, in ms. `greedy` and `adaptive` ignore it',
    },
    targetMs: {
      type: 'number',
      default: 100,
      minimum: 1,
      maximum: 60_000,
      onlyIf: { policy: ['adaptive'] },
      icon: 'bullseye',
      unit: 'ms',
      description:
        'Goal of `adaptive` for the p99 of the time in the stage, in ms, from the arrival to the end of the run. It chooses the wait, and sizes up to `maxBatchSize`',
    },
    batchCost: {
      type: 'string',
      default: 'count',
      enum: ['count', 'sum', 'padded'],
      icon: 'balance-scale',
      description:
        'How the size of its items limits a batch. `count`: not at all. `sum`: their costs add up. `padded`: the model fills up all items to the longest, so a batch costs its number of items times the longest, and items of similar cost go together',
    },
    maxBatchCost: {
      type: 'number',
      default: 0,
      minimum: 0,
      maximum: 1e12,
      onlyIf: { batchCost: ['sum', 'padded'] },
      icon: 'compress',
      description: 'Most that a batch may cost; an item that costs more runs alone. 0: no limit',
    },
    costBy: {
      type: 'string',
      default: 'bytes',
      format: 'property',
      onlyIf: { batchCost: ['sum', 'padded'] },
      icon: 'arrows-h',
      description:
        'The cost of an item: a message property with a number, such as `payload.length`, or `req.headers.NAME` for a header. `bytes`: the size of its encoded payload',
    },
  },
} as const satisfies NodeSchema;
