/** Settings of a paced split, which splits a message and limits how many parts are in progress. */
import type { NodeSchema } from './node-schema.ts';

export const feed = {
  type: 'object',
  properties: {
    name: { type: 'string', default: '', description: 'Label of the node' },
    from: {
      type: 'string',
      default: 'array',
      enum: ['array', 'lines', 'jsonl', 'csv'],
      icon: 'scissors',
      description:
        'What to split: `array` is the array in `msg.payload`; `lines` is the text in `msg.payload` or the file `msg.filename`; `jsonl` is the same with JSON on each line; `csv` is the same with rows, of which the first names the columns',
    },
    window: {
      type: 'integer',
      default: 256,
      minimum: 1,
      maximum: 1_000_000,
      icon: 'arrows-h',
      unit: 'messages',
      description: 'Most messages in progress. The next message leaves when one of them has settled',
    },
  },
} as const satisfies NodeSchema;
