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
      enum: ['greedy', 'oldest', 'gap'],
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
      description: 'How long to wait for more items, in ms. `greedy` ignores it',
    },
  },
} as const satisfies NodeSchema;
