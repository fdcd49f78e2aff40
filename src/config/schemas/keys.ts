/** Settings of the clients that may use endpoints. */
import type { NodeSchema } from './node-schema.ts';

export const keys = {
  type: 'object',
  properties: {
    name: { type: 'string', default: '', description: 'Label of the node' },
    clients: {
      type: 'array',
      default: [],
      format: 'clients',
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
  // JSON with the hash of each key. As text, so that the dialog can add a key to the others.
  credentials: { hashes: { type: 'text' } },
} as const satisfies NodeSchema;
