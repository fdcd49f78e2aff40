/** Settings of a metrics node, which sends a message of measurements per interval. */
import type { NodeSchema } from './node-schema.ts';

export const metrics = {
  type: 'object',
  properties: {
    name: { type: 'string', default: '', description: 'Label of the node' },
    runtime: {
      type: 'string',
      default: '',
      refersTo: 'modelet-runtime',
      icon: 'microchip',
      description: 'Runtime to report. Blank: the only one',
    },
    intervalMs: {
      type: 'integer',
      default: 1000,
      minimum: 100,
      maximum: 60 * 60 * 1000,
      icon: 'clock-o',
      unit: 'ms',
      description: 'Time from one message to the next, in ms',
    },
  },
} as const satisfies NodeSchema;
