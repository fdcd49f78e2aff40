/** Settings of a runtime: its engine process and the limits of its requests. */
import { MAX_TIMEOUT_MS, type NodeSchema } from './node-schema.ts';

export const runtime = {
  type: 'object',
  properties: {
    name: { type: 'string', default: '', description: 'Name of the runtime' },
    timeoutMs: {
      type: 'integer',
      default: 30_000,
      minimum: 0,
      maximum: MAX_TIMEOUT_MS,
      description: 'Longest time for a request that has an HTTP response to give, in ms; 0: none',
    },
    flowTimeoutMs: {
      type: 'integer',
      default: 0,
      minimum: 0,
      maximum: MAX_TIMEOUT_MS,
      description: 'The same for all other messages, in ms; 0: none',
    },
    capacity: { type: 'integer', default: 4096, minimum: 1, maximum: 1_000_000, description: 'Most open requests' },
    maxPayloadMb: { type: 'number', default: 64, minimum: 0.001, maximum: 512, description: 'Largest payload, in MB' },
    engineCpus: { type: 'string', default: '', description: 'Cores for the engine process; blank: all' },
    serverCpus: { type: 'string', default: '', description: 'Cores for the Node-RED process; blank: as it is' },
    strictPins: { type: 'boolean', default: false, description: 'A core that is not available is an error' },
    holdOnDeploy: {
      type: 'boolean',
      default: true,
      description: 'HTTP requests that arrive while flows restart wait for the new flows',
    },
    logLevel: {
      type: 'string',
      default: 'info',
      enum: ['trace', 'debug', 'info', 'warn', 'error'],
      description: 'Least important level that is logged',
    },
    publicPath: {
      type: 'string',
      default: '',
      description:
        'Path beside the HTTP-in endpoints below which metrics, health and OpenAPI are served; blank: nowhere',
    },
  },
} as const satisfies NodeSchema;
