/** Settings of a collector, which matches outcomes to their requests. */
import type { NodeSchema } from './node-schema.ts';

export const collector = {
  type: 'object',
  properties: {
    name: { type: 'string', default: '', description: 'Name of the node' },
    order: {
      type: 'string',
      default: 'completion',
      enum: ['completion', 'arrival'],
      description: 'Order of the results',
    },
    results: {
      type: 'string',
      default: 'whole',
      enum: ['whole', 'parts'],
      description: 'Whether a result that comes in parts leaves whole, or each part as a message of its own',
    },
    catch: {
      type: 'string',
      default: 'upstream',
      enum: ['upstream', 'off'],
      description: 'Whether the second output gets the errors of the stages before it',
    },
    errorPayload: {
      type: 'string',
      default: 'body',
      enum: ['body', 'keep'],
      description: 'Whether an error replaces msg.payload with a body that may be sent to a client',
    },
  },
} as const satisfies NodeSchema;
