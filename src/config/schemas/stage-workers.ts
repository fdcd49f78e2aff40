/** Settings of a stage that say how many workers it has, where they run, and when they end. */
import { type NodeSchema, TIME } from './node-schema.ts';

/** Their number. */
export const WORKERS = {
  workers: {
    type: 'string',
    default: '',
    format: 'workers',
    icon: 'cogs',
    unit: 'workers',
    description:
      'Number of workers: `2`; a range from the least to the most, `0-4`, within which the stage has as many as its load needs; or `auto`, from 1 to one per core. At most 256. Blank: one per entry of `cpus`, else one',
  },
  idleMs: {
    ...{ ...TIME, default: 0 },
    icon: 'moon-o',
    description:
      'For a range of `workers`: how long the load must need fewer workers before a worker ends, in ms. A range from 0 ends the last worker after this time without a request; the next request then waits for a start. 0: 10 minutes',
  },
} as const satisfies NodeSchema['properties'];

/** Their places, and what each of them runs at a time. */
export const PLACES = {
  concurrency: {
    ...{ goesTo: 'modelet', type: 'integer', default: 1, minimum: 1, maximum: 1000 },
    icon: 'align-left',
    unit: 'calls',
    description:
      'Most calls of `predict` at a time in one worker, for code that is async because it waits: for an HTTP service or a database, for example',
  },
  cpus: {
    type: 'string',
    default: '',
    format: 'pins',
    icon: 'thumb-tack',
    description: 'Cores of the workers, one entry per worker: `0,1,2-3,[4,5]`',
  },
  placement: {
    type: 'string',
    default: 'local',
    enum: ['local', 'remote'],
    icon: 'map-marker',
    description:
      '`local`: the workers run on this machine. `remote`: worker hosts (`modelet worker`) run them, over the broker of the runtime',
  },
  isolation: {
    goesTo: 'modelet',
    type: 'string',
    default: 'process',
    enum: ['process', 'thread'],
    icon: 'shield',
    description:
      '`process`: each worker is a process. `thread`: each worker is a thread of the engine; only for code that is all JavaScript',
  },
  preload: {
    goesTo: 'modelet',
    type: 'boolean',
    default: false,
    onlyIf: { source: ['python'] },
    icon: 'share-alt',
    description:
      '`true`: one process loads the file and calls its `preload`, and the workers, forked from it, share the memory of what it has loaded. On other systems than Linux each worker loads its own',
  },
  env: {
    type: 'string',
    default: '',
    format: 'json',
    icon: 'list',
    description:
      'JSON: environment variables of the workers, or an array with one object per worker. Values may name an environment variable',
  },
} as const satisfies NodeSchema['properties'];

/** The limits of their starts, runs and lives. */
export const RUNS = {
  startTimeoutMs: {
    ...{ ...TIME, goesTo: 'modelet', default: 60_000 },
    icon: 'clock-o',
    description:
      'Time limit for a worker to become ready, in ms, from its last sign of progress: output, `ctx.progress`, bytes or memory that grow. A slower worker is killed, and the next one has twice the time. 0: none',
  },
  runTimeoutMs: {
    ...{ ...TIME, goesTo: 'engine', default: 0 },
    icon: 'hourglass-half',
    description:
      'Time limit for one batch, in ms. A slower worker is killed and replaced, and its items fail with `deadline_exceeded`. 0: none while a caller waits. Once its last caller has gone, a batch may run on for the `timeoutMs` of the runtime (at least 10 s, and as long as the worker took to start)',
  },
  retryLost: {
    goesTo: 'engine',
    type: 'boolean',
    default: false,
    icon: 'repeat',
    description:
      '`true`: if a worker dies, its items run once more, one by one, so that only the item that killed it fails. Off by default because `predict` may have side effects',
  },
  rerun: {
    goesTo: 'engine',
    type: 'string',
    default: 'auto',
    enum: ['auto', 'on', 'off'],
    icon: 'code-fork',
    description:
      'When a call for a whole batch fails: `on` runs its items once more, one by one, so that only the item at fault fails; `off` fails them all; `auto` is `on` for ONNX and known models, and `off` for code, which may have side effects',
  },
  heapMb: {
    ...{ goesTo: 'modelet', type: 'integer', default: 0, minimum: 0, maximum: 1_048_576 },
    icon: 'database',
    unit: 'MB',
    description: 'Largest JavaScript heap of a worker, in MB. 0: the default of Node.js. Python ignores it',
  },
  maxRssMb: {
    ...{ goesTo: 'engine', type: 'integer', default: 0, minimum: 0, maximum: 1_048_576 },
    icon: 'tachometer',
    unit: 'MB',
    description: 'Memory of a worker above which a new worker replaces it, in MB. 0: no limit',
  },
  recycleAfter: {
    ...{ goesTo: 'engine', type: 'integer', default: 0, minimum: 0, maximum: 1_000_000_000 },
    icon: 'recycle',
    unit: 'batches',
    description: 'Number of batches after which a new worker replaces the old one. 0: never',
  },
} as const satisfies NodeSchema['properties'];
