/** Settings of the clients that may use endpoints. The hashes of their keys are in the credentials. */
import type { NodeSchema } from './node-schema.ts';

export const keys = {
  type: 'object',
  properties: {
    name: { type: 'string', default: '', description: 'Label of the node' },
    clients: {
      type: 'array',
      default: [],
      description:
        'The clients, `[{name, rate, concurrent, paths}]`: requests per second and requests at a time, blank for no limit, and the paths that the client may use, separated by commas, blank for all',
      items: {
        type: 'object',
        required: ['name'],
        properties: {
          name: { type: 'string' },
          rate: { type: 'string', default: '' },
          concurrent: { type: 'string', default: '' },
          paths: { type: 'string', default: '' },
        },
      },
    },
  },
} as const satisfies NodeSchema;
