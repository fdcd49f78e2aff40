/** Badges as the code makes them, each with its meaning: the table of docs/operations/troubleshooting.md. */
import type { NodeStatus } from 'node-red';
import type { WorkerStatus } from '../../src/core/model.ts';
import { gateBadge } from '../../src/gate/node-red/gate-badge.ts';
import {
  batcherBadge,
  downloadBadge,
  feedBadge,
  invalidBadge,
  metricsBadge,
  stageBadge,
} from '../../src/node-red/status.ts';
import type { GateSnapshot } from '../../src/observe/views/gate-snapshot.ts';
import type { RuntimeSnapshot, StageSnapshot } from '../../src/observe/views/snapshot.ts';

interface Shown {
  readonly node: string;
  readonly badge: NodeStatus | null;
  readonly meaning: string;
}

const RUNTIME = { refuses: null, engine: { state: 'ready', error: null } } as unknown as RuntimeSnapshot;

function workers(error: string | null = null): WorkerStatus[] {
  return [0, 1].map(
    (index) => ({ index, state: error === null ? 'ready' : 'error', error }) as Partial<WorkerStatus> as WorkerStatus,
  );
}

const RANGE = { min: 0, max: 4, wanted: 2, asleep: false, change: null };
const CHANGE = { reason: 'added a worker: 92 % busy for 5 s', agoMs: 1000 };

function stage(changes: Partial<StageSnapshot>): StageSnapshot {
  const quiet = {
    queue: 0,
    busy: 0,
    concurrency: 1,
    ready: 2,
    workers: workers(),
    meanBatchSize: 0,
    batching: { policy: 'greedy', maxBatchSize: 32, maxWaitMs: 0 },
    pinWarnings: [],
    successorError: null,
    circuit: 'closed',
    doesNotStart: false,
    versions: [],
  } as Partial<StageSnapshot> as StageSnapshot;
  return { ...quiet, ...changes };
}

function gate(changes: Partial<GateSnapshot>): GateSnapshot {
  const open = {
    control: 'auto',
    open: true,
    why: '',
    budget: 0.42,
    quota: 12,
    waiting: 0,
    source: { available: true, rare: null, error: null },
    store: null,
  } as Partial<GateSnapshot> as GateSnapshot;
  return { ...open, ...changes };
}

const [worker] = workers() as [WorkerStatus];
const TOO_SLOW = 'was not ready within 60000 ms (Start timeout): 60 s so far; the next try has 120 s';
const NOT_DOWNLOADED = 'not downloaded: N: press Download';
const BROKEN = { ready: 0, workers: workers("classify: Predict:1: Unexpected token '}'") };
const STOPPED = { refuses: null, engine: { state: 'error', error: 'killed by SIGKILL' } } as unknown as RuntimeSnapshot;
const NOT_READY = { ready: 0, workers: workers() };
const NO_SAMPLE = { available: false, rare: null, error: 'HTTP 503' } as GateSnapshot['source'];

const ROLLED_BACK = [{ name: 'new', cause: 'failures' }] as unknown as StageSnapshot['versions'];

export const BADGES: readonly Shown[] = [
  {
    node: 'any',
    badge: invalidBadge('no file /data/models/digits.js'),
    meaning:
      'The node cannot be used as it is configured or wired. Its messages get `config_invalid`; the log has the whole reason',
  },
  {
    node: 'stage',
    badge: stageBadge(stage(NOT_READY), RUNTIME),
    meaning: 'Workers are starting, and requests wait for them. A model that loads slowly is normal here',
  },
  {
    node: 'stage',
    badge: stageBadge(
      stage({ ready: 0, workers: [{ ...worker, starting: { ms: 75_000, progress: '42 %' } }] }),
      RUNTIME,
    ),
    meaning: 'The same, for longer, with what the modelet says of its [progress](../guides/modelets.md#slow-starts)',
  },
  {
    node: 'stage',
    badge: stageBadge(stage({ ready: 0, workers: workers(TOO_SLOW), doesNotStart: true }), RUNTIME),
    meaning:
      'A worker gave no sign of progress for *Start timeout*, and began anew. The next try has twice the time. Raise *Start timeout*, or print progress',
  },
  {
    node: 'stage',
    badge: stageBadge(stage({}), RUNTIME),
    meaning: 'All workers are ready, and none is busy',
  },
  {
    node: 'stage',
    badge: stageBadge(stage({ busy: 1 }), RUNTIME),
    meaning: 'One worker runs a batch, or has run one within the last second',
  },
  {
    node: 'stage',
    badge: stageBadge(stage({ busy: 2, queue: 14 }), RUNTIME),
    meaning: 'Both workers are busy, and 14 items wait. If the queue grows, add workers or larger batches',
  },
  {
    node: 'stage',
    badge: stageBadge(stage({ busy: 2, workers: [{ ...worker, overdue: 1 }, worker] }), RUNTIME),
    meaning:
      'One worker runs a batch that no caller waits for any more: their time limit has passed, or they have left. If that goes on, the stage [replaces the worker](failures.md#runs-without-callers)',
  },
  {
    node: 'stage',
    badge: stageBadge(stage({ busy: 5, concurrency: 8 }), RUNTIME),
    meaning: 'Each of the two workers runs up to 8 calls at a time, and 5 run',
  },
  {
    node: 'stage',
    badge: stageBadge(stage({ versions: ROLLED_BACK }), RUNTIME),
    meaning:
      'Too many requests of a [version](../guides/versions.md) failed, and it gets no more of them. Correct it and deploy, or use the buttons of the sidebar',
  },
  {
    node: 'stage',
    badge: stageBadge(stage({ scaling: { ...RANGE, wanted: 0, asleep: true }, workers: [], ready: 0 }), RUNTIME),
    meaning:
      'No request came for a while, so the stage has [no worker](../guides/sizing.md#a-range-of-workers). The next request starts one',
  },
  {
    node: 'stage',
    badge: stageBadge(stage({ scaling: RANGE }), RUNTIME),
    meaning: 'The number of workers follows the load, and is 2 at present',
  },
  {
    node: 'stage',
    badge: stageBadge(stage({ scaling: { ...RANGE, change: CHANGE }, busy: 1 }), RUNTIME),
    meaning: 'Why the number of workers has just changed',
  },
  {
    node: 'stage',
    badge: stageBadge(stage({ ready: 1, busy: 1 }), RUNTIME),
    meaning: 'One of the workers is not ready: it starts, or it died. The sidebar has its error',
  },
  {
    node: 'stage',
    badge: stageBadge(stage({ ...BROKEN, doesNotStart: true }), RUNTIME),
    meaning:
      'No worker starts. Requests get `stage_unavailable`. Correct the cause; a deploy, a changed file or *Restart workers* tries again',
  },
  {
    node: 'stage',
    badge: stageBadge(stage({ ready: 0, workers: workers(NOT_DOWNLOADED), doesNotStart: true }), RUNTIME),
    meaning:
      'The [known model](../guides/known-models.md#from-a-hub) is not there. Its dialog has the button *Download*',
  },
  {
    node: 'stage',
    badge: downloadBadge({ state: 'running', model: '', bytes: 45, of: 100, file: '' }),
    meaning: 'The known model is on its way. The stage starts when it is there',
  },
  {
    node: 'stage',
    badge: downloadBadge({ state: 'waiting', model: '' }),
    meaning: 'Its download begins when another has ended',
  },
  {
    node: 'stage',
    badge: stageBadge(stage({ ready: 0, workers: workers('killed by SIGKILL'), circuit: 'open' }), RUNTIME),
    meaning:
      'Workers died five times within a minute. Requests get `stage_unavailable`. The stage tries a worker again by itself',
  },
  {
    node: 'stage',
    badge: stageBadge(stage({ ready: 0, workers: [] }), STOPPED),
    meaning: 'The engine process of the runtime does not run. The log has the whole reason',
  },
  {
    node: 'stage',
    badge: stageBadge(stage({ successorError: "Unexpected token '}'" }), RUNTIME),
    meaning: 'The deployed code does not start. The old code still serves',
  },
  {
    node: 'stage',
    badge: stageBadge(stage({ renewing: true }), RUNTIME),
    meaning: 'Code was deployed, and its workers start. The old workers serve until the new ones are ready',
  },
  {
    node: 'stage',
    badge: stageBadge(stage({ pinWarnings: ['core 7 is not available'] }), RUNTIME),
    meaning: 'A CPU pin could not be applied: the machine has no such core, or cannot pin',
  },
  {
    node: 'stage',
    badge: stageBadge(stage({ batchWarning: { items: 'singly', text: '' } }), RUNTIME),
    meaning:
      'A trial did not show that a batch answers as single calls do, so items of a batch run one by one. *Live* says why, see [batches of ONNX models](../guides/onnx.md#batches) and [proven batches](../guides/modelets.md#proven-batches)',
  },
  {
    node: 'stage',
    badge: stageBadge(stage({ batchWarning: { items: 'mixed', text: '' } }), RUNTIME),
    meaning: 'Items run together because the stage says so, although a trial showed that this changes results',
  },
  {
    node: 'stage',
    badge: stageBadge(stage({ instead: '' }), RUNTIME),
    meaning:
      'The native package for models does not load on this machine, so that [WebAssembly](../guides/onnx.md#without-a-native-build) runs them, which is slower',
  },
  {
    node: 'stage',
    badge: stageBadge(stage({}), { ...RUNTIME, refuses: 'engine: core 7 does not exist' }),
    meaning:
      'The runtime has strict pins, and a core of its engine or of Node-RED does not exist. Every request gets `config_invalid`',
  },
  {
    node: 'stage',
    badge: stageBadge(stage({}), {
      ...RUNTIME,
      listener: {
        tag: 'failed',
        code: 'EADDRINUSE',
        message: 'cannot listen at 8080: port 8080 is in use (EADDRINUSE)',
        address: '8080',
      },
    }),
    meaning:
      'The engine cannot take the address of its [own listener](../guides/endpoints.md#the-engines-own-listener), and goes on trying. The stage serves all other requests; the log and the sidebar have the reason',
  },
  {
    node: 'batcher',
    badge: batcherBadge(stage({})),
    meaning: 'No batch has left yet. A batch has at most 32 items',
  },
  {
    node: 'batcher',
    badge: batcherBadge(stage({ meanBatchSize: 7.5 })),
    meaning: 'The mean size of the latest batches',
  },
  {
    node: 'batcher',
    badge: batcherBadge(stage({ queue: 5, meanBatchSize: 7.5 })),
    meaning: 'And 5 items wait in the queue of the stage behind',
  },
  {
    node: 'gate',
    badge: gateBadge(gate({})),
    meaning: 'The gate is open, and this share of the capacity is free',
  },
  {
    node: 'gate',
    badge: gateBadge(gate({ waiting: 5 })),
    meaning: 'The gate is open, and requests wait for room',
  },
  {
    node: 'gate',
    badge: gateBadge(gate({ open: false, why: 'closed: 4 % free, 5 % kept; opens when more than 5 % is free' })),
    meaning: 'The gate is closed because too little capacity is free. It opens by itself',
  },
  {
    node: 'gate',
    badge: gateBadge(
      gate({
        open: false,
        why: 'closed: sample 7.2 s old, older than 5 s; opens when the source answers',
        source: NO_SAMPLE,
      }),
    ),
    meaning: 'The gate is closed because its source gives no usable sample. Check the source with *Test* in the dialog',
  },
  {
    node: 'gate',
    badge: gateBadge(gate({ open: false, source: { available: false, error: null } as GateSnapshot['source'] })),
    meaning: 'The gate has just started and waits for the first sample of its source',
  },
  {
    node: 'gate',
    badge: gateBadge(gate({ source: { available: true, rare: 'scraped every 60 s' } as GateSnapshot['source'] })),
    meaning:
      'The source measures less often than *Maximum sample age*, so the gate closes between samples. Raise *Maximum sample age*',
  },
  {
    node: 'gate',
    badge: gateBadge(gate({ control: 'open' })),
    meaning: "A message or a button has opened the gate. `msg.gate = 'auto'` lets the budget decide again",
  },
  {
    node: 'gate',
    badge: gateBadge(gate({ store: { error: null, dead: 3 } as GateSnapshot['store'] })),
    meaning: 'A durable gate has dead letters. Correct the cause, then *redrive* them',
  },
  {
    node: 'paced split',
    badge: feedBadge(0, 64),
    meaning: 'All messages of its inputs have ended',
  },
  {
    node: 'paced split',
    badge: feedBadge(12, 64),
    meaning: '12 messages are in progress, and 64 may be at a time',
  },
  {
    node: 'metrics',
    badge: metricsBadge(0),
    meaning: 'The runtime has no stages, so there is nothing to report',
  },
  {
    node: 'metrics',
    badge: metricsBadge(2),
    meaning: 'Several runtimes have stages. Choose one in the dialog',
  },
];
