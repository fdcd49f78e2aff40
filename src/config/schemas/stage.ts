/** Settings of a stage: one modelet and its workers. */
import { TASK_NAMES } from '../stage-source.ts';
import { type NodeSchema, TIME } from './node-schema.ts';
import { keySettings } from './stage-keys.ts';
import { PLACES, RUNS, WORKERS } from './stage-workers.ts';

export const stage = {
  type: 'object',
  properties: {
    name: {
      type: 'string',
      default: '',
      description:
        'Name of the stage in metrics, errors and badges. Blank: the name of its file or module, else the node’s id',
    },
    runtime: {
      type: 'string',
      default: '',
      needed: true,
      refersTo: 'modelet-runtime',
      icon: 'microchip',
      description: 'Runtime that the stage belongs to',
    },
    source: {
      type: 'string',
      default: 'inline',
      enum: ['inline', 'file', 'module', 'onnx', 'python-code', 'python', 'task'],
      icon: 'code',
      description: 'Where the modelet comes from',
    },
    setup: {
      type: 'string',
      default: '',
      description: 'Inline code in JavaScript or Python, tab *On Start*. Its return value is `state` in the other tabs',
    },
    code: {
      type: 'string',
      default: 'return input;',
      onlyIf: { source: ['inline', 'python-code'] },
      description: 'Inline code, tab *Predict*',
    },
    teardown: { type: 'string', default: '', description: 'Inline code, tab *On Stop*' },
    libs: {
      type: 'array',
      default: [],
      onlyIf: { source: ['inline'] },
      description:
        'Modules that Node-RED installs, `[{var, module}]`. Inline code: each module is the variable `var`. `module`: the module itself, with a blank `var`',
      items: {
        type: 'object',
        required: ['module'],
        properties: { var: { type: 'string', default: '' }, module: { type: 'string' } },
      },
    },
    requirements: {
      type: 'array',
      default: [],
      onlyIf: { source: ['python-code'] },
      description:
        'Python packages that inline code needs, as pip takes them: `numpy`, `pillow>=10`. The button in the dialog and `modelet serve --install` install them',
      items: { type: 'string' },
    },
    path: {
      type: 'string',
      default: '',
      needed: true,
      onlyIf: { source: ['file', 'onnx', 'python'] },
      icon: 'file-code-o',
      description:
        'File of the modelet or model. Relative paths start at `fileWorkingDirectory`, else at the active project, else at the user directory',
    },
    watch: {
      goesTo: 'engine',
      type: 'boolean',
      default: false,
      onlyIf: { source: ['file', 'onnx', 'python'] },
      icon: 'eye',
      description:
        '`true`: saving the file, or another file that it reads while it loads, starts new workers, which take over when they are ready',
    },
    module: {
      type: 'string',
      default: '',
      format: 'module',
      onlyIf: { source: ['module'] },
      icon: 'cube',
      description: 'npm module that exports the modelet, optionally with a version: `name@1.2`',
    },
    task: {
      type: 'string',
      default: 'image-classification',
      enum: TASK_NAMES,
      onlyIf: { source: ['task'] },
      icon: 'magic',
      description: 'What a known model does',
    },
    model: {
      type: 'string',
      default: '',
      needed: true,
      onlyIf: { source: ['task'] },
      icon: 'cube',
      description:
        'Known model: its name on a hub, `OWNER/MODEL` or `OWNER/MODEL@REVISION`, or a folder with its configuration, its processor or tokenizer, and its weights as ONNX. Relative paths start as those of `path`',
    },
    precision: {
      type: 'string',
      default: 'auto',
      enum: ['auto', 'fp32', 'fp16', 'q8', 'int8', 'uint8', 'q4', 'q4f16', 'bnb4'],
      onlyIf: { source: ['task'] },
      icon: 'compress',
      description:
        'Precision of the weights of a known model. `auto`: the first of `fp32`, `q8`, `fp16` and others that the folder has',
    },
    python: {
      type: 'string',
      default: '',
      onlyIf: { source: ['python', 'python-code'] },
      icon: 'terminal',
      description:
        'Python interpreter: a path, or a name in the `PATH` of the workers. Blank: `.venv/bin/python` beside the file, else in the user directory, else `python3`',
    },
    init: {
      type: 'string',
      default: '{}',
      format: 'json',
      icon: 'sliders',
      description: 'JSON for the modelet, available as `init`. Values may name an environment variable',
    },
    predict: {
      goesTo: 'modelet',
      type: 'string',
      default: 'item',
      enum: ['item', 'batch'],
      onlyIf: { source: ['inline', 'file', 'module', 'python', 'python-code'] },
      icon: 'clone',
      description:
        '`item`: `predict` gets one input. `batch`: it gets an array and returns an array of the same length',
    },
    emits: {
      goesTo: 'modelet',
      type: 'string',
      default: 'one',
      enum: ['one', 'list'],
      icon: 'list-ol',
      description:
        '`one`: a result is one value. `list`: a result is an array, and each of its items passes the next stages by itself, up to a node that gathers branches with `mode` `list`. Without such a node, the array goes on whole',
    },
    inputSchema: {
      type: 'string',
      default: '',
      format: 'json-schema',
      icon: 'check-square-o',
      description: 'JSON Schema of an input. Blank: the schema of the modelet, if it has one',
    },
    outputSchema: {
      type: 'string',
      default: '',
      format: 'json-schema',
      icon: 'check-square-o',
      description: 'JSON Schema of a result. Blank: the schema of the modelet, if it has one',
    },
    ...WORKERS,
    outputs: {
      ...{ type: 'integer', default: 1, minimum: 1, maximum: 10 },
      onlyIf: { source: ['inline'] },
      icon: 'random',
      description: 'Number of outputs of inline code, which then returns arrays of messages as a function node does',
    },
    ...PLACES,
    input: {
      type: 'string',
      default: 'payload',
      format: 'property',
      needed: true,
      icon: 'sign-in',
      description: 'Message property that is the input',
    },
    output: {
      type: 'string',
      default: 'payload',
      format: 'result-property',
      needed: true,
      icon: 'sign-out',
      description:
        'Message property that receives the result. `req` and `res` are not allowed: they belong to the HTTP client',
    },
    mediaTypes: {
      type: 'string',
      default: 'application/json, application/msgpack',
      format: 'media-types',
      icon: 'globe',
      description: 'Media types that the body of an HTTP request may have. `image/*` and `*/*` are allowed',
    },
    maxRows: {
      ...{ type: 'integer', default: 0, minimum: 0, maximum: 1_000_000, icon: 'th-list', unit: 'rows' },
      description: 'Most rows of an HTTP body, each an item: array, JSON lines, CSV. 0: a body is one item',
    },
    capacity: {
      ...{ goesTo: 'engine', type: 'integer', default: 1024, minimum: 1, maximum: 1_000_000 },
      icon: 'inbox',
      unit: 'items',
      description: 'Most items in the queue',
    },
    queueMb: {
      ...{ goesTo: 'engine', type: 'number', default: 0, minimum: 0, maximum: 1_048_576 },
      icon: 'database',
      unit: 'MB',
      description:
        'Most bytes of the payloads in the queue, in MB. The queue is full when it has this many, also with fewer items than `capacity`. 0: no limit but that of the runtime, `maxQueueMb`',
    },
    overflow: {
      type: 'string',
      default: 'auto',
      enum: ['auto', 'refuse', 'wait', 'drop-oldest'],
      icon: 'filter',
      description:
        'When the queue is full: `refuse` answers 429; `wait` waits for room; `drop-oldest` drops the oldest item of the lowest priority; `auto` refuses HTTP clients and lets others wait',
    },
    maxAgeMs: {
      ...{ ...TIME, goesTo: 'engine', default: 0 },
      icon: 'hourglass-end',
      description: 'Items that have waited longer are dropped and not run, in ms. 0: no limit',
    },
    dropKey: {
      type: 'string',
      default: '',
      format: 'property',
      onlyIf: { overflow: ['drop-oldest'] },
      icon: 'key',
      description: 'For `drop-oldest`: a message property. A new item evicts an item with the same value first',
    },
    ...keySettings,
    cache: {
      ...{ type: 'integer', default: 0, minimum: 0, maximum: 1_000_000 },
      icon: 'bolt',
      unit: 'results',
      description: 'Most results to keep. 0: no cache',
    },
    cacheMb: {
      ...{ type: 'integer', default: 64, minimum: 1, maximum: 1_048_576 },
      icon: 'hdd-o',
      unit: 'MB',
      description: 'Most memory for kept results, in MB',
    },
    cacheTtlMs: {
      ...TIME,
      default: 60_000,
      icon: 'history',
      description: 'How long to keep a result, in ms. 0: no limit',
    },
    versions: {
      type: 'array',
      default: [],
      refersTo: 'modelet-stage[]',
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
      format: 'property',
      icon: 'user',
      description:
        'Message property whose value stays on one version: `user`, or `req.headers.NAME` for a header. Blank: each request by itself',
    },
    rollback: {
      type: 'string',
      default: '',
      numeric: { minimum: 0, maximum: 100 },
      icon: 'undo',
      unit: 'rollback',
      description:
        'Percent of the requests of a version. It gets no more of them if of its last 100, at least 20, so many more fail than of the requests of its base in the same time. Blank: never',
    },
    ...RUNS,
  },
} as const satisfies NodeSchema;
