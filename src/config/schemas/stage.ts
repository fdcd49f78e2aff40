/** One modelet and its workers. */
import { MAX_TIMEOUT_MS, type NodeSchema } from './node-schema.ts';

export const stage: NodeSchema = {
  type: 'object',
  properties: {
    name: { type: 'string', default: '', description: 'Name of the stage' },
    runtime: { type: 'string', default: '', description: 'Id of the runtime node' },
    source: {
      type: 'string',
      default: 'inline',
      enum: ['inline', 'file', 'module', 'onnx', 'python'],
      description: 'Where the code comes from',
    },
    setup: { type: 'string', default: '', description: 'Inline code: On Start; what it returns is `state`' },
    code: { type: 'string', default: 'return input;', description: 'Inline code: Predict' },
    teardown: { type: 'string', default: '', description: 'Inline code: On Stop' },
    libs: {
      type: 'array',
      default: [],
      description:
        'Modules that Node-RED installs, [{var, module}]: for inline code with their variables, for an npm module itself',
      items: {
        type: 'object',
        required: ['module'],
        properties: { var: { type: 'string', default: '' }, module: { type: 'string' } },
      },
    },
    path: { type: 'string', default: '', description: 'File of the modelet, or of the ONNX model' },
    watch: {
      type: 'boolean',
      default: false,
      description: 'Whether saving the file gives the stage new workers, which take over when they are ready',
    },
    module: {
      type: 'string',
      default: '',
      description: 'npm module with the modelet, which Node-RED installs; may have a version, as in name@1.2',
    },
    python: {
      type: 'string',
      default: '',
      description: 'Python: the interpreter; blank: .venv beside the file, .venv in the user directory, python3',
    },
    init: { type: 'string', default: '{}', description: 'JSON given to the modelet as `init`' },
    predict: {
      type: 'string',
      default: 'item',
      enum: ['item', 'batch'],
      description: 'Whether predict gets one input or an array of inputs',
    },
    inputSchema: {
      type: 'string',
      default: '',
      description: 'JSON Schema of an input; blank: that of the modelet, if it has one',
    },
    outputSchema: {
      type: 'string',
      default: '',
      description: 'JSON Schema of a result; blank: that of the modelet, if it has one',
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
    mediaTypes: {
      type: 'string',
      default: 'application/json, application/msgpack',
      description: 'Media types that the body of an HTTP request may have; `image/*` and `*/*` stand for many',
    },
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
