/** The view for the sidebar, from readings of a runtime that really ran. */
import assert from 'node:assert/strict';
import { describe, type TestContext, test } from 'node:test';
import type { Leg } from '../../src/core/routes/route.ts';
import { countOf } from '../../src/observe/meters/histogram.ts';
import type { Measurement } from '../../src/observe/views/interval.ts';
import type { StageSnapshot } from '../../src/observe/views/snapshot.ts';
import { type Around, type Chain, type View, viewBetween } from '../../src/observe/views/view.ts';
import { writeLeg } from '../../src/observe/views/why.ts';
import { until } from '../fixtures/polling.ts';
import { serve, type TestService } from '../fixtures/service.ts';

const AROUND: Around = {
  chains: [],
  endpoints: [],
  gates: [],
  unusable: [],
  loop: null,
  allowedCpus: [0, 1],
  serverCpus: null,
  engineCpus: () => [1],
};

function look({ service }: TestService): Measurement {
  return service.measure();
}

async function started(t: TestContext): Promise<TestService> {
  const service = await serve(t, {
    stages: [{ id: 'faults', file: 'faults', predict: 'batch', batch: { maxBatchSize: 4 } }],
  });
  await service.ready();
  return service;
}

async function ask(service: TestService, inputs: readonly object[]): Promise<void> {
  const before = countOf(service.stage('faults').reading.run);
  await Promise.all(inputs.map((input) => service.answer(input)));
  await until('all are reported', () => countOf(service.stage('faults').reading.run) === before + inputs.length);
}

function onlyStage({ runtimes }: View): View['runtimes'][0]['stages'][0] {
  const stage = runtimes[0]?.stages[0];
  assert.ok(stage);
  return stage;
}

/** The same look with another state of its stage. */
function withStage({ snapshot, ...rest }: Measurement, changed: Partial<StageSnapshot>): Measurement {
  return { ...rest, snapshot: { ...snapshot, stages: snapshot.stages.map((stage) => ({ ...stage, ...changed })) } };
}

describe('a view', () => {
  test('has the rates between two snapshots, and the present state', async (t) => {
    const service = await started(t);
    await ask(service, [{ n: 1 }]);
    const earlier = look(service);
    await ask(service, [{ n: 1 }, { n: 2 }, { n: 3, fault: 'error' }]);
    const later = { ...look(service), at: earlier.at + 2000 };
    const view = viewBetween([earlier], [later], AROUND);
    const [runtime] = view.runtimes;
    assert.deepEqual([runtime?.requestsPerSecond, runtime?.errorsPerSecond, runtime?.backlog], [1.5, 0.5, 0]);
    assert.ok(runtime?.p50 && runtime.p99 && runtime.p50 <= runtime.p99);
    const stage = onlyStage(view);
    assert.deepEqual([stage.itemsPerSecond, stage.unservedPerSecond, stage.health], [1.5, 0, 'ready']);
    assert.ok(stage.meanBatch && stage.meanBatch >= 1 && stage.meanBatch <= 3);
    assert.equal(stage.runsPerBatch, 1, 'one call takes the whole batch');
    assert.ok(stage.runP50 && stage.runP99 && stage.runP50 <= stage.runP99);
    assert.equal(view.slowest.length, 4);
    assert.ok(view.slowest.every((request, index) => request.totalMs <= (view.slowest[index - 1]?.totalMs ?? 1e9)));
  });

  test('shows quantiles of a slow stage within the run times that its requests reported', async (t) => {
    const service = await serve(t, { stages: [{ id: 'sleep', file: 'sleep' }] });
    await service.ready();
    const earlier = look(service);
    const runs: number[] = [];
    for (let n = 0; n < 3; n += 1) runs.push((await service.answer({ ms: 300 })).timings[0]?.runMs ?? Number.NaN);
    await until('all are reported', () => countOf(service.stage('sleep').reading.run) === 3);
    const { runP50, runP99 } = onlyStage(viewBetween([earlier], [look(service)], AROUND));
    const [least, middle, most] = runs.toSorted((a, b) => a - b) as [number, number, number];
    for (const [shown, exact] of [
      [runP50, middle],
      [runP99, most],
    ] as const) {
      assert.ok(shown !== null && Math.abs(shown - exact) <= 0.1 * exact, `${shown} instead of ${exact}`);
      assert.ok(shown >= least - 0.001 && shown <= most + 0.001, `${shown} of ${least} to ${most}`);
    }
  });

  test('has no rates of a runtime at the first snapshot', async (t) => {
    const service = await started(t);
    await ask(service, [{ n: 1 }]);
    const view = viewBetween([], [look(service)], AROUND);
    const { requestsPerSecond, errorsPerSecond, p50, p99 } = view.runtimes[0] ?? {};
    assert.deepEqual([requestsPerSecond, errorsPerSecond, p50, p99], [null, null, null, null]);
    const { itemsPerSecond, unservedPerSecond, meanBatch, runP50 } = onlyStage(view);
    assert.deepEqual([itemsPerSecond, unservedPerSecond, meanBatch, runP50], [null, null, null, null]);
  });

  test('has no negative rates of a removed and restored runtime', async (t) => {
    const service = await started(t);
    const anew = look(service);
    await ask(service, [{ n: 1 }]);
    const before = look(service);
    const { requestsPerSecond } = viewBetween([before], [{ ...anew, at: before.at + 1000 }], AROUND).runtimes[0] ?? {};
    assert.equal(requestsPerSecond, null);
  });

  test('says that payloads fill the memory of an engine, which waits or refuses', async (t) => {
    const now = look(await started(t));
    const { snapshot } = now;
    for (const [refuses, what] of [
      [false, 'requests wait'],
      [true, 'requests are refused'],
    ] as const) {
      const engine = { ...snapshot.engine, heldBytes: 300 * 2 ** 20, heldBack: { limitBytes: 512 * 2 ** 20, refuses } };
      const full = { ...snapshot, name: 'vision', engine };
      const { verdict, runtimes } = viewBetween([], [{ ...now, snapshot: full }], AROUND);
      const text = `vision: Queue memory is full, payloads have 300 of 512 MB: ${what}`;
      assert.deepEqual(verdict, { kind: 'slow', text: `${text}.`, node: null, actions: [], others: [] });
      assert.deepEqual(runtimes[0]?.warnings, [text]);
    }
  });

  test('says in which health a stage is', async (t) => {
    const now = look(await started(t));
    const [worker] = now.snapshot.stages[0]?.workers ?? [];
    assert.ok(worker);
    const health = (changed: Partial<StageSnapshot>): string =>
      onlyStage(viewBetween([], [withStage(now, changed)], AROUND)).health;
    assert.equal(health({}), 'ready');
    assert.equal(health({ workers: [worker, { ...worker, index: 1, state: 'startup' }] }), 'partly');
    assert.equal(health({ ready: 0, workers: [{ ...worker, state: 'startup' }] }), 'startup');
    assert.equal(health({ ready: 0, workers: [{ ...worker, state: 'error', error: 'no model' }] }), 'error');
    assert.equal(health({ circuit: 'open' }), 'error');
  });

  test('has the share of requests that a cache answered, and counts them among the answered items', async (t) => {
    const service = await started(t);
    await ask(service, [{ n: 1 }]);
    const earlier = look(service);
    const { reading } = service.stage('faults');
    const cache = { hit: 3, miss: 1, joined: 0 };
    const later = { ...withStage(earlier, { reading: { ...reading, cache } }), at: earlier.at + 1000 };
    const { cached, itemsPerSecond } = onlyStage(viewBetween([earlier], [later], AROUND));
    assert.deepEqual([cached, itemsPerSecond], [0.75, 3]);
    assert.equal(onlyStage(viewBetween([later], [later], AROUND)).cached, null);
  });

  test('draws each chain once, and none that ends another one', async (t) => {
    const now = look(await started(t));
    const { id } = now.snapshot;
    const chain = (...stages: string[]): Chain => {
      return { runtime: id, stages, way: null, why: `ends at ${stages}`, unfused: false };
    };
    const chains = [chain('b', 'c'), chain('a', 'b', 'c'), chain('a', 'b', 'c'), chain('x', 'c'), chain('c')];
    const other = { ...chain('d'), runtime: 'another' };
    const [runtime] = viewBetween([], [now], { ...AROUND, chains: [...chains, other] }).runtimes;
    assert.deepEqual(
      runtime?.chains.map(({ stages }) => stages),
      [
        ['a', 'b', 'c'],
        ['x', 'c'],
      ],
    );
  });

  test('draws no branch of a forked chain apart', async (t) => {
    const now = look(await started(t));
    const chain = (stages: string[], way: string | null): Chain => {
      return { runtime: now.snapshot.id, stages, way, why: 'ends', unfused: false };
    };
    const chains = [chain(['b', 'c'], null), chain(['a', 'b', 'c', 'd'], 'a → (b → c | d)'), chain(['d'], null)];
    const [runtime] = viewBetween([], [now], { ...AROUND, chains }).runtimes;
    assert.deepEqual(
      runtime?.chains.map(({ way }) => way),
      ['a → (b → c | d)'],
    );
  });

  test('writes a way that forks in a line', () => {
    const leg = (stages: string[], next: Leg<string>['next'] = null): Leg<string> => ({ stages, next });
    const terms = { mode: 'all', quorum: 0, partial: 'error', total: 2, names: ['b', 'd'] } as const;
    const choice = { kind: 'choice', path: [], rules: [], ways: [leg(['f']), leg([])] } as const;
    const fork = {
      ...({ kind: 'fork', gather: 'join', terms, timeoutMs: 1 } as const),
      ...{ branches: [leg(['b', 'c']), leg(['d'])], after: leg(['e'], choice) },
    };
    assert.equal(
      writeLeg(leg(['a'], fork), (id) => id),
      'a → (b → c | d) → join → e → one of (f | -)',
    );
  });

  test('has Node-RED, engine and workers on the map of cores', async (t) => {
    const { cpus } = viewBetween([], [look(await started(t))], AROUND);
    assert.deepEqual(
      cpus.cores.map(({ holders }) => holders.map(({ kind }) => kind)),
      [[], ['engine']],
    );
    assert.deepEqual(
      cpus.anywhere.map(({ kind }) => kind),
      ['server', 'worker'],
    );
  });
});
