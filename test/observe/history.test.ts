/** The history of a runtime for its dashboard, from readings of a runtime that really ran. */
import assert from 'node:assert/strict';
import { describe, type TestContext, test } from 'node:test';
import { countOf } from '../../src/observe/meters/histogram.ts';
import type { GateSnapshot } from '../../src/observe/views/gate-snapshot.ts';
import { COVERED_MS, MOST_MARKS, MOST_POINTS, RuntimeHistory, STEP_MS } from '../../src/observe/views/history.ts';
import type { Measurement } from '../../src/observe/views/interval.ts';
import type { RuntimeSnapshot, StageSnapshot } from '../../src/observe/views/snapshot.ts';
import { until } from '../fixtures/polling.ts';
import { serve } from '../fixtures/service.ts';

interface Looks {
  readonly idle: Measurement;
  /** After three results and two errors. */
  readonly busy: Measurement;
  /** After the death of the worker. */
  readonly died: Measurement;
}

async function look(t: TestContext): Promise<Looks> {
  const service = await serve(t, { stages: [{ id: 'faults', file: 'faults', predict: 'batch' }] });
  await service.ready();
  const idle = service.service.measure();
  const inputs = [{ n: 1 }, { n: 2 }, { n: 3 }, { n: 4, fault: 'error' }, { n: 5, fault: 'error' }];
  await Promise.all(inputs.map((input) => service.answer(input)));
  await until('all are reported', () => countOf(service.stage('faults').reading.run) === inputs.length);
  const busy = service.service.measure();
  process.kill(service.stage('faults').workers[0]?.pid as number, 'SIGKILL');
  await until('the death is counted', () => service.stage('faults').reading.restarts.died === 1);
  return { idle, busy, died: service.service.measure() };
}

function at(look: Measurement, ms: number, changed: Partial<RuntimeSnapshot> = {}): Measurement {
  return { ...look, at: ms, snapshot: { ...look.snapshot, ...changed } };
}

/** The stage of a look, under other ids. */
function stagesOf(
  { snapshot }: Measurement,
  ids: readonly string[],
  changed: Partial<StageSnapshot> = {},
): StageSnapshot[] {
  return ids.map((id) => ({ ...(snapshot.stages[0] as StageSnapshot), ...changed, id, name: `stage ${id}` }));
}

const GATE = { id: 'gate', budget: 0.25, inFlight: 3, waiting: 1 } as GateSnapshot;

describe('the history of a runtime', () => {
  let looks: Looks;
  test('has a point for each look after the first, with what happened since', async (t) => {
    looks = await look(t);
    const { idle, busy } = looks;
    const history = new RuntimeHistory();
    assert.deepEqual(history.note(at(idle, 0), [GATE], 1000), { points: [], marks: [] });
    const { points, marks } = history.note(at(busy, STEP_MS), [GATE], 3000);
    const [{ p50, p95, p99, stages, ...point } = assert.fail()] = points;
    assert.deepEqual(point, {
      time: 3000,
      requestsPerSecond: 2.5,
      errorsPerSecond: 1,
      backlog: 0,
      gates: { gate: { budget: 0.25, inFlight: 3, waiting: 1 } },
      failed: [{ stage: 'faults', code: 'modelet_failed', message: point.failed[0]?.message, count: 2 }],
    });
    assert.ok(p50 && p95 && p99 && p50 <= p95 && p95 <= p99, `${p50}, ${p95}, ${p99}`);
    assert.ok(stages['faults']?.used && stages['faults'].used < 1);
    assert.deepEqual([marks, history.points], [[], points]);
    const next = history.note(at(busy, 2 * STEP_MS), [GATE], 5000).points[0];
    assert.deepEqual([next?.failed, next?.requestsPerSecond], [[], 1.25], 'a failure counts once, a rate covers more');
    const last = history.note(at(busy, 2 * STEP_MS + COVERED_MS), [GATE], 15_000).points[0];
    assert.deepEqual([last?.requestsPerSecond, last?.p50], [0, null]);
  });

  test('marks deaths and deploys', () => {
    const { busy, died } = looks;
    const history = new RuntimeHistory();
    const { deploys, engine } = busy.snapshot;
    history.note(busy, [], 0);
    const [death, ...others] = history.note({ ...died, at: busy.at + STEP_MS }, [], 2000).marks;
    assert.deepEqual(others, []);
    assert.deepEqual({ ...death, error: null }, { time: 2000, kind: 'death', stage: 'faults', count: 1, error: null });
    assert.match(death?.error ?? '', /SIGKILL/);
    const engines = { ...engine, deaths: { ...engine.deaths, serving: 2 }, error: 'killed' };
    const changed = { deploys: { ...deploys, count: deploys.count + 1 }, engine: engines };
    const { marks } = history.note(at(died, busy.at + 2 * STEP_MS, changed), [], 4000);
    assert.deepEqual(
      marks.map(({ kind, count, error }) => [kind, count, error]),
      [
        ['deploy', 1, null],
        ['engine', 2, 'killed'],
      ],
    );
    assert.equal(history.replaced(6000).kind, 'deploy');
    assert.deepEqual(
      history.marks.map(({ time }) => time),
      [2000, 4000, 4000, 6000],
    );
    assert.deepEqual(history.note(at(looks.idle, 0), [], 8000), { points: [], marks: [] }, 'counts begin anew');
  });

  test('tells the cause of a death once, also if the report of it came after the next look', () => {
    const { busy, died } = looks;
    const { restarts } = died.snapshot.stages[0]?.reading ?? assert.fail();
    /** A look with so many deaths, the last of them before some time. */
    const after = (looksLater: number, deaths: number, agoMs: number): Measurement => {
      const stages = died.snapshot.stages.map((one) => ({
        ...one,
        reading: { ...one.reading, restarts: { ...restarts, died: deaths } },
        lastDeath: one.lastDeath && { ...one.lastDeath, agoMs },
      }));
      return at(died, busy.at + looksLater * STEP_MS, { stages });
    };
    const history = new RuntimeHistory();
    history.note(busy, [], 0);
    const errorsOf = (look: Measurement): (string | null)[] =>
      history.note(look, [], 1).marks.map(({ error }) => error);
    const [late] = errorsOf(after(1, 1, STEP_MS + 300));
    assert.match(late ?? '', /SIGKILL/);
    assert.deepEqual(errorsOf(after(2, 2, 2 * STEP_MS + 305)), [null], 'a worker of older code has died');
    assert.match(errorsOf(after(3, 3, 10))[0] ?? '', /SIGKILL/);
  });

  test('drops the series of stages that a deploy removes, and gives their colours to later ones', () => {
    const { busy } = looks;
    const history = new RuntimeHistory();
    const note = (ids: readonly string[], gates: readonly GateSnapshot[] = []): void => {
      const before = history.points.length;
      history.note(at(busy, before * STEP_MS, { stages: stagesOf(busy, ids) }), gates, before);
    };
    note(['a', 'b'], [GATE]);
    note(['a', 'b'], [GATE]);
    note(['b', 'c', 'd']);
    assert.deepEqual(
      history.points.map(({ stages, gates }) => [Object.keys(stages), Object.keys(gates)]),
      [
        [['b'], []],
        [['b', 'c', 'd'], []],
      ],
    );
    assert.deepEqual(history.stages, [
      { id: 'b', name: 'stage b', colour: 1 },
      { id: 'c', name: 'stage c', colour: 0 },
      { id: 'd', name: 'stage d', colour: 2 },
    ]);
  });

  test('shows a worker that runs one batch all the time as used, and no share without a worker', () => {
    const { busy } = looks;
    const history = new RuntimeHistory();
    history.note(at(busy, 0), [], 0);
    const running = stagesOf(busy, ['faults'], { ready: 2, concurrency: 1, busy: 1, runsMs: 60_000 });
    const gone = stagesOf(busy, ['faults'], { ready: 0 });
    const used = [running, gone].map(
      (stages, step) =>
        history.note(at(busy, (step + 1) * STEP_MS, { stages }), [], 0).points[0]?.stages['faults']?.used,
    );
    assert.deepEqual(used, [0.5, null]);
  });

  test('keeps ten minutes, however much happens', () => {
    const { busy } = looks;
    const history = new RuntimeHistory();
    for (let step = 0; step <= MOST_POINTS + 100; step += 1) {
      const deploys = { count: step, handedOver: 0 };
      history.note(at(busy, step * STEP_MS, { deploys }), [], step * STEP_MS);
    }
    const last = (MOST_POINTS + 100) * STEP_MS;
    assert.deepEqual([history.points.length, history.points.at(-1)?.time], [MOST_POINTS, last]);
    assert.deepEqual([history.marks.length, history.marks.at(-1)?.time], [MOST_MARKS, last]);
  });
});
