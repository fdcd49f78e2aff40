/** Settings of a stage: one modelet and its workers. */
import { MAX_TIMEOUT_MS, type NodeSchema } from './node-schema.ts';

export const stage = {
  type: 'object',
  properties: {
    name: {
      type: 'string',
      default: '',
      description:
        'Name of the stage in metrics, errors and badges. Blank: the name of its file or module, else the node’s id',
    },
    runtime: { type: 'string', default: '', description: 'Runtime that the stage belongs to' },
    source: {
      type: 'string',
      default: 'inline',
      enum: ['inline', 'file', 'module', 'onnx', 'python'],
      description: 'Where the modelet comes from',
    },
    setup: {
      type: 'string',
      default: '',
      description: 'Inline code, tab *On Start*. Its return value is `state` in the other tabs',
    },
    code: { type: 'string', default: 'return input;', description: 'Inline code, tab *Predict*' },
    teardown: { type: 'string', default: '', description: 'Inline code, tab *On Stop*' },
    libs: {
      type: 'array',
      default: [],
      description:
        'Modules that Node-RED installs, `[{var, module}]`. Inline code: each module is the variable `var`. `module`: the module itself, with a blank `var`',
      items: {
        type: 'object',
        required: ['module'],
        properties: { var: { type: 'string', default: '' }, module: { type: 'string' } },
      },
    },
    path: {
      type: 'string',
      default: '',
      description:
        'File of the modelet or model. Relative paths start at `fileWorkingDirectory`, else at the active project, else at the user directory',
    },
    watch: {
      goesTo: 'engine',
      type: 'boolean',
      default: false,
      description:
        '`true`: saving the file, or another one that it reads as it loads, starts new workers, which take over when they are ready',
    },
    module: {
      type: 'string',
      default: '',
      description: 'npm module that exports the modelet, optionally with a version: `name@1.2`',
    },
    python: {
      type: 'string',
      default: '',
      description:
        'Python interpreter: a path, or a name in the `PATH` of the workers. Blank: `.venv/bin/python` beside the file, else in the user directory, else `python3`',
    },
    init: {
      type: 'string',
      default: '{}',
      description: 'JSON for the modelet, available as `init`. Values may name an environment variable',
    },
    predict: {
      goesTo: 'modelet',
      type: 'string',
      default: 'item',
      enum: ['item', 'batch'],
      description:
        '`item`: `predict` gets one input. `batch`: it gets an array and returns an array of the same length',
    },
    inputSchema: {
      type: 'string',
      default: '',
      description: 'JSON Schema of an input. Blank: the schema of the modelet, if it has one',
    },
    outputSchema: {
      type: 'string',
      default: '',
      description: 'JSON Schema of a result. Blank: the schema of the modelet, if it has one',
    },
    workers: {
      type: 'string',
      default: '',
      description: 'Number of workers, 1 to 256. Blank: one per entry of `cpus`, else one',
    },
    concurrency: {
      goesTo: 'modelet',
      type: 'integer',
      default: 1,
      minimum: 1,
      maximum: 1000,
      description:
        'Most calls of `predict` at a time in one worker, for code that is async because it waits: for an HTTP service or a database, for example',
    },
    cpus: {
      type: 'string',
      default: '',
      description: 'Cores of the workers, one entry per worker: `0,1,2-3,[4,5]`',
    },
    placement: {
      type: 'string',
      default: 'local',
      enum: ['local', 'remote'],
      description:
        '`local`: the workers run on this machine. `remote`: worker hosts (`modelet worker`) run them, over the broker of the runtime',
    },
    isolation: {
      goesTo: 'modelet',
      type: 'string',
      default: 'process',
      enum: ['process', 'thread'],
      description:
        '`process`: each worker is a process. `thread`: each worker is a thread of the engine; only for code that is all JavaScript',
    },
    env: {
      type: 'string',
      default: '',
      description:
        'JSON: environment variables of the workers, or an array with one object per worker. Values may name an environment variable',
    },
    input: { type: 'string', default: 'payload', description: 'Message property that is the input' },
    output: {
      type: 'string',
      default: 'payload',
      description:
        'Message property that receives the result. `req` and `res` are not allowed: they belong to the HTTP client',
    },
    mediaTypes: {
      type: 'string',
      default: 'application/json, application/msgpack',
      description: 'Media types that the body of an HTTP request may have. `image/*` and `*/*` are allowed',
    },
    capacity: {
      goesTo: 'engine',
      type: 'integer',
      default: 1024,
      minimum: 1,
      maximum: 1_000_000,
      description: 'Most items in the queue',
    },
    overflow: {
      type: 'string',
      default: 'auto',
      enum: ['auto', 'refuse', 'wait', 'drop-oldest'],
      description:
        'When the queue is full: `refuse` answers 429; `wait` waits for room; `drop-oldest` drops the oldest item of the lowest priority; `auto` refuses HTTP clients and lets others wait',
    },
    maxAgeMs: {
      goesTo: 'engine',
      type: 'integer',
      default: 0,
      minimum: 0,
      maximum: MAX_TIMEOUT_MS,
      description: 'Items that have waited longer are dropped and not run, in ms. 0: no limit',
    },
    dropKey: {
      type: 'string',
      default: '',
      description: 'For `drop-oldest`: a message property. A new item evicts an item with the same value first',
    },
    cache: {
      type: 'integer',
      default: 0,
      minimum: 0,
      maximum: 1_000_000,
      description: 'Most results to keep. 0: no cache',
    },
    cacheMb: {
      type: 'integer',
      default: 64,
      minimum: 1,
      maximum: 1_048_576,
      description: 'Most memory for kept results, in MB',
    },
    cacheTtlMs: {
      type: 'integer',
      default: 60_000,
      minimum: 0,
      maximum: MAX_TIMEOUT_MS,
      description: 'How long to keep a result, in ms. 0: no limit',
    },
    versions: {
      type: 'array',
      default: [],
      description: 'Ids of other stages of the same runtime that take a share of the requests',
      items: { type: 'string' },
    },
    // A list beside the ids: where a flow is copied, the editor gives lists of ids those of the copies, and nothing else.
    shares: {
      type: 'array',
      default: [],
      description:
        'For each of `versions`, `{share, mode}`: percent, and `answer` or `shadow` (it gets copies, and its results are dropped)',
      items: {
        type: 'object',
        properties: { share: { type: 'string', default: '0' }, mode: { type: 'string', default: 'answer' } },
      },
    },
    sticky: {
      type: 'string',
      default: '',
      description:
        'Message property whose value stays on one version: `user`, or `req.headers.NAME` for a header. Blank: each request by itself',
    },
    rollback: {
      type: 'string',
      default: '',
      description:
        'Percent of the requests of a version. It gets no more of them if of its last 100, at least 20, so many more fail than of the requests of its base in the same time. Blank: never',
    },
    startTimeoutMs: {
      goesTo: 'modelet',
      type: 'integer',
      default: 60_000,
      minimum: 0,
      maximum: MAX_TIMEOUT_MS,
      description:
        'Time limit for a worker to become ready, in ms, from its last sign of progress: output, `ctx.progress`, bytes or memory that grow. A slower worker is killed, and the next one has twice the time. 0: none',
    },
    runTimeoutMs: {
      goesTo: 'engine',
      type: 'integer',
      default: 0,
      minimum: 0,
      maximum: MAX_TIMEOUT_MS,
      description:
        'Time limit for one batch, in ms. A slower worker is killed and replaced, and its items fail with `deadline_exceeded`. 0: none while a caller waits. Once its last caller has gone, a batch may run on for the `timeoutMs` of the runtime (at least 10 s, and as long as the worker took to start)',
    },
    retryLost: {
      goesTo: 'engine',
      type: 'boolean',
      default: false,
      description:
        '`true`: if a worker dies, its items run once more, one by one, so that only the item that killed it fails. Off by default because `predict` may have side effects',
    },
    rerun: {
      goesTo: 'engine',
      type: 'string',
      default: 'auto',
      enum: ['auto', 'on', 'off'],
      description:
        'When a call for a whole batch fails: `on` runs its items once more, one by one, so that only the item at fault fails; `off` fails them all; `auto` is `on` for ONNX models, and `off` for code, which may have side effects',
    },
    heapMb: {
      goesTo: 'modelet',
      type: 'integer',
      default: 0,
      minimum: 0,
      maximum: 1_048_576,
      description: 'Largest JavaScript heap of a worker, in MB. 0: the default of Node.js. Python ignores it',
    },
    maxRssMb: {
      goesTo: 'engine',
      type: 'integer',
      default: 0,
      minimum: 0,
      maximum: 1_048_576,
      description: 'Memory of a worker above which a new worker replaces it, in MB. 0: no limit',
    },
    recycleAfter: {
      goesTo: 'engine',
      type: 'integer',
      default: 0,
      minimum: 0,
      maximum: 1_000_000_000,
      description: 'Number of batches after which a new worker replaces the old one. 0: never',
    },
  },
} as const satisfies NodeSchema;
