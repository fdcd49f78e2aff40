/** Settings of a paced split, which splits a message and limits how many parts are in progress. */
import type { NodeSchema } from './node-schema.ts';

export const feed = {
  type: 'object',
  properties: {
    name: { type: 'string', default: '', description: 'Name of the node' },
    from: {
      type: 'string',
      default: 'array',
      enum: ['array', 'lines', 'jsonl'],
      description: 'What is split: an array, the lines of a text, or lines of JSON',
    },
    window: { type: 'integer', default: 256, minimum: 1, maximum: 1_000_000, description: 'Most unsettled messages' },
  },
} as const satisfies NodeSchema;
