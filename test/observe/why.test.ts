import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { type EngineView, type StageFacts, whyRouteEnds, whyWaiting } from '../../src/observe/views/why.ts';

const ENGINE: EngineView = { state: 'ready', error: null };

function workers(...states: (string | Error)[]): StageFacts['workers'] {
  return states.map((state, index) =>
    state instanceof Error ? { index, state: 'error', error: state.message } : { index, state, error: null },
  );
}

const WAITS = { oldestMs: null, leavesInMs: null, retryInMs: null, circuit: 'closed', doesNotStart: false } as const;

/** Two workers that are ready; nothing waits. */
function stage(view: Partial<StageFacts> = {}): StageFacts {
  const idle = {
    queue: 0,
    queueBytes: 0,
    queueMb: 0,
    capacity: 100,
    busy: 0,
    concurrency: 1,
    ready: 2,
    workers: workers('ready', 'ready'),
  };
  return { name: 'stage', ...idle, ...WAITS, batching: { maxBatchSize: 32 }, ...view };
}

const one = { ready: 1, workers: workers('ready') };
const behind = { queue: 1, oldestMs: 5 };
const none = { ready: 0, queue: 3, oldestMs: 5 };
const full = stage({ name: 'slow', queue: 7, capacity: 7 });

const CASES: readonly [why: string | null, stage: StageFacts, engine?: EngineView, next?: readonly StageFacts[]][] = [
  [null, stage()],
  [null, stage({ busy: 2 })],
  [null, stage({ queue: 3, oldestMs: 0.2 })],
  ['2 of 2 workers busy: 12 wait, the first for 340 ms', stage({ busy: 2, queue: 12, oldestMs: 340.4 })],
  ['the worker is busy: 1 waits, for 1.2 s', stage({ ...one, busy: 1, queue: 1, oldestMs: 1234 })],
  [
    '1 of 2 workers ready, and busy: 2 wait, the first for 3 ms',
    stage({ ...one, workers: workers('ready', 'startup'), busy: 1, queue: 2, oldestMs: 3 }),
  ],
  [
    '2 of 3 workers ready, and busy: 2 wait, the first for 1 s',
    stage({ workers: workers('ready', 'ready', new Error('x')), busy: 2, queue: 2, oldestMs: 999.7 }),
  ],
  [
    '2 of 2 workers busy, 1 with a batch that no caller waits for any more: 1 waits, for 5 ms',
    stage({
      workers: [{ index: 0, state: 'ready', error: null, overdue: 1 }, ...workers('ready')],
      busy: 2,
      ...behind,
    }),
  ],
  ['waiting for a batch: 12 of 32, 3 ms left', stage({ busy: 1, queue: 12, oldestMs: 7, leavesInMs: 3.2 })],
  ['waiting for a batch: 1 of 32, 0 ms left', stage({ queue: 1, oldestMs: 7, leavesInMs: 0 })],
  ['held back: the queue of stage slow is full (7)', stage({ queue: 3, oldestMs: 1 }), ENGINE, [stage(), full]],
  [
    'held back: the queue of stage slow is full (2 MB)',
    stage({ queue: 3, oldestMs: 1 }),
    ENGINE,
    [stage({ ...full, queue: 1, queueBytes: 2 * 1024 * 1024, queueMb: 2 })],
  ],
  ['the worker is busy: 4 wait', stage({ ...one, busy: 1, queue: 4 }), ENGINE, [full]],
  ['starting: worker 0 loads', stage({ ...none, workers: workers('startup') })],
  ['starting: worker 0 loads', stage({ ...none, queue: 0, workers: workers('startup') })],
  ['starting: worker 1 loads', stage({ ...none, workers: workers(new Error('x'), 'startup') })],
  [
    'starting: worker 0 loads: 42 %, for 75 s',
    stage({
      ...none,
      workers: [{ index: 0, state: 'startup', error: null, starting: { ms: 75_000, progress: '42 %' } }],
    }),
  ],
  ['starting: workers 0 and 1 load', stage({ ...none, workers: workers('startup', 'startup') })],
  ['starting: workers 0, 1, 2 and 5 more load', stage({ ...none, workers: workers(...Array(8).fill('startup')) })],
  ['does not start: no such file', stage({ ...none, workers: workers(new Error('no such file\n  at x')) })],
  ['no worker is ready', stage({ ...none, workers: workers('shutdown') })],
  [
    'workers die again and again: killed by SIGKILL; next try in 2 s',
    stage({ ...none, circuit: 'open', retryInMs: 1999, workers: workers(new Error('killed by SIGKILL'), 'ready') }),
  ],
  [
    'workers die again and again; one worker is being tried',
    stage({ ...none, circuit: 'half-open', workers: workers('startup') }),
  ],
  ['starting: the engine loads', stage({ ...none, workers: [] }), { state: 'startup', error: null }],
  ['the engine does not run: killed', stage({ ...none, workers: [] }), { state: 'error', error: 'killed' }],
  ['the engine does not run', stage({ ...none, workers: [] }), { state: 'dead', error: null }],
];

describe('why requests wait', () => {
  for (const [why, view, engine = ENGINE, next = []] of CASES) {
    test(why ?? `nothing is said of ${view.queue} waiting and ${view.busy} busy`, () => {
      assert.equal(whyWaiting(view, engine, next), why);
    });
  }
});

test('the text says "not fused" for a route that could have gone on, and "ends there" for another', () => {
  assert.equal(
    whyRouteEnds({ end: 'a Complete node watches it', unfused: true }),
    'not fused: a Complete node watches it',
  );
  assert.equal(whyRouteEnds({ end: 'nothing is wired', unfused: false }), 'ends there: nothing is wired');
});
