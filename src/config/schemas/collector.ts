/** Settings of a collector, which matches outcomes to their requests. */
import type { NodeSchema } from './node-schema.ts';

export const collector = {
  type: 'object',
  properties: {
    name: { type: 'string', default: '', description: 'Label of the node' },
    order: {
      type: 'string',
      default: 'completion',
      enum: ['completion', 'arrival'],
      icon: 'sort-amount-asc',
      description:
        '`completion`: a result leaves as soon as it is there. `arrival`: results leave in the order in which their requests entered; failed, dropped and expired requests free their place',
    },
    results: {
      type: 'string',
      default: 'whole',
      enum: ['whole', 'parts'],
      icon: 'ellipsis-h',
      description:
        '`parts`: each part of a streamed result leaves as a separate message. Not allowed with `order` `arrival`',
    },
    catch: {
      type: 'string',
      default: 'upstream',
      enum: ['upstream', 'off'],
      icon: 'exclamation-triangle',
      description:
        '`upstream`: the second output, if it is wired, gets the errors of the stages before this collector. `off`: this collector handles no errors',
    },
    errorPayload: {
      type: 'string',
      default: 'body',
      enum: ['body', 'keep'],
      onlyIf: { catch: ['upstream'] },
      icon: 'envelope-o',
      description:
        'Payload of an error on the second output. `body`: `{error: {code, message, stage, requestId}}`, safe for clients. `keep`: the value that the failing stage was given',
    },
  },
} as const satisfies NodeSchema;
