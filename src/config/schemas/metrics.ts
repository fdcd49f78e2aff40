/** Settings of a metrics node, which sends a message of measurements per interval. */
import type { NodeSchema } from './node-schema.ts';

export const metrics = {
  type: 'object',
  properties: {
    name: { type: 'string', default: '', description: 'Name of the node' },
    runtime: { type: 'string', default: '', description: 'Id of the runtime node; blank: the only one there is' },
    intervalMs: {
      type: 'integer',
      default: 1000,
      minimum: 100,
      maximum: 60 * 60 * 1000,
      description: 'Time from one message to the next, in ms',
    },
  },
} as const satisfies NodeSchema;
