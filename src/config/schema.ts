/**
 * Every property of every node: type, bounds, default, meaning. The one source for validation, for the defaults
 * of flows saved by older versions, and for the tables in the docs (a test compares them).
 */

interface Property {
  readonly type: 'string' | 'integer' | 'number' | 'boolean';
  readonly default: string | number | boolean;
  readonly description: string;
  readonly enum?: readonly string[];
  readonly minimum?: number;
  readonly maximum?: number;
}

export interface NodeSchema {
  readonly type: 'object';
  readonly properties: Readonly<Record<string, Property>>;
}

const MAX_TIMEOUT_MS = 24 * 60 * 60 * 1000;

const runtime: NodeSchema = {
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
      description: 'Path beside the HTTP-in endpoints below which metrics and health are served; blank: nowhere',
    },
  },
};

const batcher: NodeSchema = {
  type: 'object',
  properties: {
    name: { type: 'string', default: '', description: 'Name of the node' },
    maxBatchSize: { type: 'integer', default: 32, minimum: 1, maximum: 10_000, description: 'Most items in a batch' },
    policy: {
      type: 'string',
      default: 'greedy',
      enum: ['greedy', 'oldest', 'gap'],
      description: 'When a batch that is not full leaves',
    },
    maxWaitMs: {
      type: 'number',
      default: 10,
      minimum: 0,
      maximum: 60_000,
      description: 'How long to wait for more items, in ms; not used by greedy',
    },
  },
};

const stage: NodeSchema = {
  type: 'object',
  properties: {
    name: { type: 'string', default: '', description: 'Name of the stage' },
    runtime: { type: 'string', default: '', description: 'Id of the runtime node' },
    source: { type: 'string', default: 'inline', enum: ['inline', 'file'], description: 'Where the code comes from' },
    setup: { type: 'string', default: '', description: 'Inline code: On Start; what it returns is `state`' },
    code: { type: 'string', default: 'return input;', description: 'Inline code: Predict' },
    teardown: { type: 'string', default: '', description: 'Inline code: On Stop' },
    path: { type: 'string', default: '', description: 'File of the modelet' },
    init: { type: 'string', default: '{}', description: 'JSON given to the modelet as `init`' },
    predict: {
      type: 'string',
      default: 'item',
      enum: ['item', 'batch'],
      description: 'Whether predict gets one input or an array of inputs',
    },
    workers: { type: 'string', default: '', description: 'Number of workers; blank: one per entry of `cpus`, or one' },
    cpus: { type: 'string', default: '', description: 'Cores of the workers, one entry each: 0,1,2-3,[4,5]' },
    isolation: {
      type: 'string',
      default: 'process',
      enum: ['process', 'thread'],
      description: 'What a worker is: a process of its own, or a thread of the engine for code that is all JavaScript',
    },
    env: {
      type: 'string',
      default: '',
      description: 'JSON: environment of the workers, or an array with one per worker',
    },
    input: { type: 'string', default: 'payload', description: 'Message property that is the input' },
    output: { type: 'string', default: 'payload', description: 'Message property that takes the result' },
    capacity: { type: 'integer', default: 1024, minimum: 1, maximum: 1_000_000, description: 'Most waiting items' },
    overflow: {
      type: 'string',
      default: 'auto',
      enum: ['auto', 'refuse', 'wait', 'drop-oldest'],
      description: 'What a full queue does; auto: refuse where an HTTP client waits, else wait',
    },
    maxAgeMs: {
      type: 'integer',
      default: 0,
      minimum: 0,
      maximum: MAX_TIMEOUT_MS,
      description: 'Items that have waited longer are dropped instead of run, in ms; 0: none',
    },
    dropKey: {
      type: 'string',
      default: '',
      description: 'drop-oldest: message property; only items with the same value evict each other',
    },
    startTimeoutMs: {
      type: 'integer',
      default: 60_000,
      minimum: 0,
      maximum: MAX_TIMEOUT_MS,
      description: 'Longest time for a worker to become ready, in ms; 0: none',
    },
    runTimeoutMs: {
      type: 'integer',
      default: 0,
      minimum: 0,
      maximum: MAX_TIMEOUT_MS,
      description: 'Longest run of a batch, in ms; past it the worker is killed; 0: none',
    },
    retryLost: {
      type: 'boolean',
      default: false,
      description: 'Run the items of a worker that died once more, one by one',
    },
    heapMb: {
      type: 'integer',
      default: 0,
      minimum: 0,
      maximum: 1_048_576,
      description: 'Largest JavaScript heap of a worker, in MB; 0: as Node.js sets it',
    },
    maxRssMb: {
      type: 'integer',
      default: 0,
      minimum: 0,
      maximum: 1_048_576,
      description: 'Memory of a worker above which it is replaced, in MB; 0: none',
    },
    recycleAfter: {
      type: 'integer',
      default: 0,
      minimum: 0,
      maximum: 1_000_000_000,
      description: 'Batches after which a worker is replaced; 0: none',
    },
  },
};

const collector: NodeSchema = {
  type: 'object',
  properties: {
    name: { type: 'string', default: '', description: 'Name of the node' },
    order: {
      type: 'string',
      default: 'completion',
      enum: ['completion', 'arrival'],
      description: 'Order of the results',
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
};

const feed: NodeSchema = {
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
};

const metrics: NodeSchema = {
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
};

export const NODE_SCHEMAS: Readonly<Record<NodeType, NodeSchema>> = {
  'modelet-runtime': runtime,
  'modelet-batcher': batcher,
  'modelet-stage': stage,
  'modelet-collector': collector,
  'modelet-feed': feed,
  'modelet-metrics': metrics,
};

export type NodeType =
  | 'modelet-runtime'
  | 'modelet-batcher'
  | 'modelet-stage'
  | 'modelet-collector'
  | 'modelet-feed'
  | 'modelet-metrics';
