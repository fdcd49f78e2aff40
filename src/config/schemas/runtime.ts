/** Settings of a runtime: its engine process and the limits of its requests. */
import { type NodeSchema, TIME } from './node-schema.ts';

export const runtime = {
  type: 'object',
  properties: {
    name: { type: 'string', default: '', description: 'Name of the runtime in metrics, logs and the sidebar' },
    timeoutMs: {
      ...TIME,
      default: 30_000,
      icon: 'clock-o',
      description: 'Time limit for requests from an HTTP client, in ms. 0: none',
    },
    flowTimeoutMs: {
      ...TIME,
      default: 0,
      icon: 'clock-o',
      description: 'Time limit for all other messages, in ms. 0: none',
    },
    capacity: {
      type: 'integer',
      default: 4096,
      minimum: 1,
      maximum: 1_000_000,
      icon: 'inbox',
      unit: 'requests',
      description: 'Most open requests, over all stages. Further requests get `capacity_exceeded`',
    },
    maxPayloadMb: {
      type: 'number',
      default: 64,
      minimum: 0.001,
      maximum: 512,
      icon: 'archive',
      unit: 'MB',
      description: 'Largest payload, in MB',
    },
    maxQueueMb: {
      type: 'number',
      default: 512,
      minimum: 1,
      maximum: 1_048_576,
      icon: 'database',
      unit: 'MB',
      description:
        'Most memory of payloads in the engine, in MB: half for requests in front of first stages, half for results that go on to further stages. Beyond it, requests of HTTP clients get `capacity_exceeded`, and stages wait for those behind them',
    },
    engineCpus: {
      type: 'string',
      default: '',
      format: 'cores',
      icon: 'microchip',
      description: 'Cores for the engine process, such as `0,1`. Blank: all',
    },
    serverCpus: {
      type: 'string',
      default: '',
      format: 'cores',
      icon: 'microchip',
      description: 'Cores for the Node-RED process. Blank: unchanged. The runtime gives them back when it closes',
    },
    strictPins: {
      type: 'boolean',
      default: false,
      icon: 'lock',
      description:
        '`true`: a core that the machine does not have is an error. `false`: it is a warning, and the process runs unpinned',
    },
    holdOnDeploy: {
      type: 'boolean',
      default: true,
      icon: 'pause',
      description:
        '`true`: HTTP requests that arrive while flows restart wait for the new flows. `false`: they get a 404, as without this package',
    },
    logLevel: {
      type: 'string',
      default: 'info',
      enum: ['error', 'warn', 'info', 'debug', 'trace'],
      icon: 'list',
      description: 'Least important level that reaches Node-RED’s log',
    },
    publicPath: {
      type: 'string',
      default: '',
      format: 'path',
      icon: 'heartbeat',
      description:
        'Path beside your HTTP endpoints below which metrics, health and OpenAPI are public, for example `/ops`. Blank: only on the admin side',
    },
    v2Path: {
      type: 'string',
      default: '',
      format: 'path',
      icon: 'cubes',
      description:
        'Path below which compiled endpoints are models of the KServe v2 protocol: `/` for `/v2/models`, `/triton` for `/triton/v2/models`. Blank: nowhere',
    },
    baseUrl: {
      type: 'string',
      default: '',
      format: 'base-url',
      icon: 'globe',
      description:
        'Address at which clients find the endpoints, for the OpenAPI document, if a proxy stands in front: `https://api.example.com/v1`. Blank: the server’s own',
    },
    listen: {
      type: 'string',
      default: '',
      format: 'listen',
      icon: 'plug',
      description:
        'Address at which the engine itself serves the compiled endpoints: `8080`, `127.0.0.1:8080`, `[::1]:8080` or `unix:/path`. Blank: none',
    },
    broker: {
      type: 'string',
      default: '',
      refersTo: 'modelet-broker',
      icon: 'exchange',
      description:
        'Id of a `modelet-broker` node: durable gates of this runtime keep what waits there. Blank: in a file of this Node-RED',
    },
    keys: {
      type: 'string',
      default: '',
      refersTo: 'modelet-keys',
      icon: 'key',
      description:
        'Id of a `modelet-keys` node: HTTP clients of this runtime need one of its keys. Blank: any client may send requests',
    },
    cors: {
      type: 'string',
      default: '',
      format: 'origins',
      icon: 'external-link',
      description:
        'Origins of web pages whose scripts may call the endpoints: `https://app.example.com, http://localhost:5173`, or `*` for all. Blank: none but the endpoints’ own',
    },
    tls: {
      type: 'string',
      default: '',
      refersTo: 'tls-config',
      icon: 'shield',
      description: '`listen`: id of a `tls-config` node. Blank: no TLS',
    },
  },
  credentials: { token: { type: 'password', icon: 'key' } },
} as const satisfies NodeSchema;
