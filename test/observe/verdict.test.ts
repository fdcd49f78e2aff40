/** The sentence that begins the sidebar: the first thing that is wrong, else what is slow, else that all is well. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Judged, JudgedStage } from '../../src/observe/views/findings.ts';
import { type Verdict, verdictOn } from '../../src/observe/views/verdict.ts';

const QUICK = { queueMs: 0.1, batchMs: 0, runMs: 20 };

const HEALTHY = {
  overdue: 0,
  longRun: null,
  retired: [],
  death: null,
  successorError: null,
  times: QUICK,
  batchChoice: null,
};

function stage(name: string, changes: Partial<JudgedStage> = {}): JudgedStage {
  const serves = { health: 'ready', words: 'idle, 1 worker', whole: 'idle, 1 worker' } as const;
  return { id: `id of ${name}`, name, ...serves, ...HEALTHY, ...changes };
}

const GATE: Judged['gates'][number] = {
  id: 'g',
  name: 'batch work',
  open: true,
  control: 'auto',
  why: 'open: room for 3 requests; N 3',
  waiting: 0,
  inFlight: 3,
  store: null,
  source: { description: '', available: true, error: null, raw: null, rare: null, ageMs: 1 },
};
const CLOSED = {
  ...GATE,
  open: false,
  why: 'closed: 4 % free, 5 % kept; opens when more than 5 % is free',
  waiting: 7,
};
const BROKEN_STORE = { error: 'disk full' } as NonNullable<Judged['gates'][number]['store']>;
const ENDPOINT = { id: 'in', method: 'POST', path: '/work', isDeadEnd: false, isSecond: false };
const BLIND = { ...CLOSED, why: 'closed: HTTP 503; opens', source: { ...GATE.source, error: 'HTTP 503' } };
const USUAL: Omit<Judged, 'stages'> = {
  ...{ unusable: [], notListening: [], opening: [], endpoints: [], gates: [], memory: null },
  ...{ failures: [], lasting: [], requestsPerSecond: 100, loop: null },
};
const LOOP = { p99Ms: 80, maxMs: 90, utilization: 0.97, intervalMs: 5000 };

const broken = stage('broken', { health: 'error', whole: 'does not start: no model', times: null });
const starts = stage('slow start', { health: 'startup', words: 'starting', times: null });
const partly = stage('half', { health: 'partly', words: '1 of 2 ready' });
const stuck = stage('stuck', { health: 'partly', words: '1 of 1 busy, 1 overdue', overdue: 1 });
const renewed = stage('renewed', { successorError: 'line 3: Unexpected token' });
const lost = { id: 'lost', name: 'lost', reason: 'no runtime', lacksRuntime: true };
const astray = { ...lost, id: 'astray', name: 'astray' };
const unset = { id: 'u', name: 'unset', reason: 'File: no file model.onnx', lacksRuntime: false };
const died = stage('died', { death: { worker: 1, agoMs: 40_000, error: 'killed by SIGKILL' } });
const FAULT = { stage: 'work', code: 'modelet_failed', message: 'x is not a function', count: 2 };
const REFUSED = { stage: 'work', code: 'invalid_input', message: 'image must be array', count: 3 };
const LATE = { stage: null, code: 'deadline_exceeded', message: 'not answered before its deadline', count: 1 };
const looping = stage('loops', { longRun: { ms: 40_000, usualMs: null } });
const slower = stage('slower', { longRun: { ms: 40_000, usualMs: 2.04 } });
const leftAlone = stage('alone', { longRun: { ms: 130_000, usualMs: 2 }, overdue: 1 });
const ends = stage('renewed', { retired: [{ runsMs: 3000, overdue: 1 }] });
const goesOn = stage('renewed', { retired: [{ runsMs: 30_000, overdue: 0 }] });
const queued = stage('classify', { times: { queueMs: 230, batchMs: 3, runMs: 20 } });
const filling = stage('classify', { times: { queueMs: 1, batchMs: 60.4, runMs: 20 } });

const CASES: readonly [judged: Partial<Judged>, text: string, kind: Verdict['kind'], node: string | null][] = [
  [{}, 'All is well.', 'good', null],
  [{ requestsPerSecond: 0, stages: [] }, 'All is well. Nothing runs now.', 'good', null],
  [{ failures: [] }, 'All is well.', 'good', null],
  [{ memory: 'large: its memory is full', failures: [FAULT] }, 'large: its memory is full.', 'slow', null],
  [{ failures: [FAULT] }, 'work: 2 x modelet_failed: x is not a function', 'error', 'id of work'],
  [{ failures: [REFUSED] }, 'work: 3 x invalid_input: image must be array', 'note', 'id of work'],
  [{ failures: [REFUSED, LATE] }, '1 x deadline_exceeded: not answered before its deadline', 'slow', null],
  [{ failures: [REFUSED, LATE, FAULT] }, 'work: 2 x modelet_failed: x is not a function', 'error', 'id of work'],
  [{ stages: [died] }, 'died: worker 1 died 40 s ago: killed by SIGKILL', 'slow', died.id],
  [{ stages: [queued, broken], gates: [BLIND] }, 'broken: does not start: no model.', 'error', broken.id],
  [{ stages: [broken, broken, broken] }, 'broken: does not start: no model. 2 more cannot serve.', 'error', broken.id],
  [{ stages: [broken, broken] }, 'broken: does not start: no model. 1 more cannot serve.', 'error', broken.id],
  [{ stages: [queued, starts] }, 'slow start is starting. Requests to it wait.', 'startup', starts.id],
  [
    { stages: [queued, stuck], failures: [FAULT] },
    'stuck runs a batch that no caller waits for any more: restart it, or set a run timeout.',
    'slow',
    stuck.id,
  ],
  [{ stages: [looping] }, 'loops has run one call for 40 s: restart it, or set a run timeout.', 'slow', looping.id],
  [
    { stages: [slower] },
    'slower has run one call for 40 s, where 2 ms is usual: restart it, or set a run timeout.',
    'slow',
    slower.id,
  ],
  [
    { stages: [leftAlone] },
    'alone has run one call for 2 min, and no caller waits for it any more: restart it, or set a run timeout.',
    'slow',
    leftAlone.id,
  ],
  [
    { stages: [ends] },
    'renewed: an old worker has run one call for 3 s, and no caller waits for it. The stage kills it soon.',
    'slow',
    ends.id,
  ],
  [{ stages: [goesOn] }, 'renewed: an old worker has run one call for 30 s, and then ends.', 'slow', goesOn.id],
  [
    { stages: [renewed] },
    'renewed: the new code does not start, so the old code answers: line 3: Unexpected token.',
    'error',
    renewed.id,
  ],
  [{ stages: [], unusable: [lost] }, 'lost does not run: it has no runtime.', 'error', 'lost'],
  [
    { stages: [broken], unusable: [unset, lost, astray] },
    '2 stages do not run, because they have no runtime: lost, astray.',
    'error',
    'lost',
  ],
  [
    { unusable: [unset, unset] },
    'unset cannot be used: File: no file model.onnx. 1 more cannot be used.',
    'error',
    'u',
  ],
  [{ notListening: ['default: port 80 is taken'] }, 'default: port 80 is taken.', 'error', null],
  [{ gates: [GATE, BLIND] }, 'Gate batch work is closed: HTTP 503.', 'error', 'g'],
  [{ gates: [CLOSED], stages: [queued] }, 'Gate batch work keeps 7 waiting: closed: 4 % free, 5 % kept.', 'slow', 'g'],
  [{ gates: [{ ...CLOSED, waiting: 1 }] }, 'Gate batch work keeps 1 waiting: closed: 4 % free, 5 % kept.', 'slow', 'g'],
  [{ gates: [GATE, { ...CLOSED, waiting: 0 }] }, 'All is well.', 'good', null],
  [{ gates: [{ ...CLOSED, waiting: 0, inFlight: 0 }] }, 'Gate batch work is closed: 4 % free, 5 % kept.', 'slow', 'g'],
  [
    { gates: [{ ...GATE, open: false, control: 'close', why: 'closed: a message asked for it' }] },
    'Gate batch work is closed: a message asked for it.',
    'slow',
    'g',
  ],
  [{ gates: [{ ...GATE, store: BROKEN_STORE }] }, 'Gate batch work cannot use its store: disk full.', 'error', 'g'],
  [
    { endpoints: [{ ...ENDPOINT, isDeadEnd: true }] },
    'POST /work gets no answer: no HTTP response node follows. Wire one behind the last stage.',
    'error',
    'in',
  ],
  [
    { endpoints: [ENDPOINT, { ...ENDPOINT, isSecond: true }] },
    'POST /work is the address of two HTTP-in nodes, and one of them gets no requests.',
    'error',
    'in',
  ],
  [
    { opening: ['main: the address 8000 is about to open.'] },
    'main: the address 8000 is about to open.',
    'startup',
    null,
  ],
  [
    { lasting: [FAULT] },
    'work: the last request ended with modelet_failed, and no request was answered since: x is not a function',
    'note',
    'id of work',
  ],
  [
    { stages: [stage('quick'), queued] },
    'classify is the bottleneck: items wait 230 ms for a worker. Add workers, or make batches larger.',
    'slow',
    queued.id,
  ],
  [
    { stages: [filling] },
    'classify is the bottleneck: items wait 60 ms for their batch to fill. Lower the wait of the batcher.',
    'slow',
    filling.id,
  ],
  [{ stages: [{ ...filling, batchChoice: 'waits up to 60 ms' }] }, 'All is well.', 'good', null],
  [{ stages: [stage('tiny', { times: { queueMs: 2, batchMs: 0, runMs: 0.1 } })] }, 'All is well.', 'good', null],
  [{ loop: LOOP }, 'Node-RED itself is 97 % busy. Requests wait for their turn in its event loop.', 'slow', null],
  [{ stages: [partly] }, 'half serves with fewer workers: 1 of 2 ready.', 'startup', partly.id],
];

for (const [judged, text, kind, node] of CASES) {
  test(`${text} (${Object.keys(judged).join(', ') || 'requests run'})`, () => {
    const verdict = verdictOn({ ...USUAL, stages: [stage('work')], ...judged });
    assert.deepEqual({ kind: verdict.kind, text: verdict.text, node: verdict.node }, { kind, text, node });
  });
}

test('the verdict says what else is wrong behind the first finding, and offers what helps', () => {
  const verdict = verdictOn({ ...USUAL, stages: [renewed, stuck], unusable: [lost], gates: [BLIND] });
  assert.deepEqual(verdict.actions, [{ kind: 'createRuntime' }]);
  const others = verdict.others.map(({ node, kind }) => [node, kind]);
  assert.deepEqual(others.slice(0, 3), [
    [renewed.id, 'error'],
    ['g', 'error'],
    [stuck.id, 'slow'],
  ]);
});

test('failures of many kinds are not all told', () => {
  const { others } = verdictOn({ ...USUAL, stages: [stage('work')], failures: new Array(7).fill(FAULT) });
  assert.deepEqual([others.length, others.at(-1)?.text], [6, 'Failures of other kinds: 1.']);
});
