/**
 * The node that tells flows about a runtime: in the forms it promises, over deploys, and only while there is something to tell.
 * Shows: node modelet-metrics.
 */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { RuntimeInterval } from '../../../src/observe/views/interval.ts';
import { batcher, dispatchGate, endpoint, httpIn, node, runtime, sink, stage, TAB } from '../../fixtures/flow.ts';
import { type FlowNode, type Message, useNodeRed } from '../../fixtures/node-red.ts';
import { until } from '../../fixtures/polling.ts';

const OUTPUTS = ['all', 'numbers', 'stages', 'workers'] as const;

function metrics(id: string, properties: object = {}): FlowNode[] {
  const outputs = OUTPUTS.map((output) => `${id} ${output}`);
  return [node(id, 'modelet-metrics', outputs, { intervalMs: '100', ...properties }), ...outputs.map(sink)];
}

const pipeline: readonly FlowNode[] = [
  runtime(),
  ...endpoint('/work', 'gate'),
  dispatchGate('gate', 'batch', [], { maxSys: '8', baseline: 0.25 }),
  batcher('batch', 'work'),
  stage(
    'work',
    `await new Promise((done) => setTimeout(done, 20));
     return input.map(({ n }) => n < 0 ? new Error('negative') : n);`,
    'collector /work',
    { predict: 'batch' },
  ),
];
const second: readonly FlowNode[] = [
  runtime('second'),
  ...endpoint('/other', 'other'),
  stage('other', 'return input;', 'collector /other', { runtime: 'second' }),
];

const nodeRed = useNodeRed();

/** The messages of a node's outputs since this call. */
function outputs(id: string): Record<(typeof OUTPUTS)[number], Message[]> {
  const [all = [], numbers = [], stages = [], workers = []] = OUTPUTS.map((output) =>
    nodeRed.inputs(`${id} ${output}`),
  );
  return { all, numbers, stages, workers };
}

type Told = RuntimeInterval & {
  readonly verdict: { readonly kind: string; readonly text: string };
  readonly gates: Readonly<Record<string, { readonly open: boolean; readonly inFlight: number }>>;
};

const interval = (message: Message | undefined): Told => message?.payload as Told;

const more = (messages: readonly Message[], count = 2): Promise<boolean> => {
  const end = messages.length + count;
  return until('more messages', () => messages.length >= end);
};

describe('pipeline metrics', () => {
  test('sends each interval whole, number by number, and as rows', async () => {
    await nodeRed.deployReady([TAB, ...pipeline, ...metrics('m', { runtime: 'runtime' })]);
    const sent = outputs('m');
    const posted = [1, 2, 3, 4, -1].map((n) => nodeRed.post('/work', { n }));
    await Promise.all(posted);
    const find = (has: (of: RuntimeInterval) => boolean): Promise<Told> =>
      until('the interval of the requests', () => sent.all.map(interval).find(has));
    const of = await find(({ p50 }) => p50 !== null);
    // The engine tells of its stages a few times a second.
    const ran = (await find(({ stages }) => typeof stages['work']?.runMs === 'number')).stages['work'];
    const left = (await find(({ stages }) => typeof stages['work']?.meanBatch === 'number')).stages['work'];
    assert.ok(of.requestsPerSecond > 0 && of.errorsPerSecond <= of.requestsPerSecond);
    assert.ok((ran?.runMs ?? 0) >= 19 && (of.p50 ?? 0) >= 19, `run ${ran?.runMs} ms, p50 ${of.p50} ms`);
    assert.ok((left?.meanBatch ?? 0) >= 1);
    assert.equal(of.stages['work']?.workers, 1);
    assert.ok((of.p50 ?? 0) <= (of.p95 ?? 0) && (of.p95 ?? 0) <= (of.p99 ?? 0));

    const idle = { open: true, budget: 1, quota: 6, inFlight: 0, waiting: 0 };
    await until('nothing is in flight', () => interval(sent.all.at(-1)).gates['gate']?.inFlight === 0);
    assert.deepEqual(interval(sent.all.at(-1)).gates, { gate: idle });

    const { time, stages, gates, verdict, ...numbers } = of;
    assert.ok(verdict.kind && verdict.text);
    const { open: _open, ...ofGate } = gates['gate'] ?? idle;
    const series = sent.numbers.filter(({ timestamp }) => timestamp === time);
    const expected = [
      ...Object.entries(numbers).map(([metric, payload]) => ({ topic: metric, payload, metric })),
      ...Object.entries(stages['work'] ?? {}).map(([metric, payload]) => ({
        topic: `work ${metric}`,
        payload,
        metric,
        stage: 'work',
      })),
      ...Object.entries(ofGate).map(([metric, payload]) => ({
        topic: `gate ${metric}`,
        payload,
        metric,
        gate: 'gate',
      })),
    ].filter(({ payload }) => payload !== null);
    assert.deepEqual(
      series.map(({ _msgid, timestamp, label, ...message }) => message),
      expected,
    );
    const label = (of: string): unknown => series.find(({ topic }) => topic === of)?.label;
    assert.deepEqual([label('p50'), label('work busy')], ['median', 'work: busy workers']);
    const index = sent.all.findIndex((message) => interval(message) === of);
    assert.deepEqual(sent.stages[index]?.payload, [{ stage: 'work', ...stages['work'] }]);
  });

  test('sends a row per worker, with what the snapshot has', async () => {
    const { workers } = outputs('m');
    const rows = await until('the workers have said how large they are', () => {
      const last = workers.at(-1)?.payload as Record<string, unknown>[] | undefined;
      return last?.every(({ rssMb }) => rssMb !== null) && last;
    });
    const stages = (await nodeRed.snapshot()).runtimes[0]?.stages ?? [];
    assert.deepEqual(
      rows.map(({ rssMb, ...row }) => row),
      stages.flatMap(({ name, workers }) =>
        workers.map(({ index, pid }) => ({
          stage: name,
          worker: index,
          pid,
          state: 'ready',
          cpus: 'any',
          restarts: 0,
          error: '',
        })),
      ),
    );
    for (const { rssMb } of rows) assert.ok(Number(rssMb) > 10, `${rssMb} MB`);
  });

  test('counts every request once, over all intervals', async () => {
    const { all } = outputs('m');
    await more(all, 1);
    const start = all.length - 1;
    const { requests, errors } = interval(all[start]);
    for (let n = 0; n < 30; n += 1) await nodeRed.post('/work', { n: n % 3 === 0 ? -1 : n });
    await more(all);
    const ended = all.slice(start + 1).reduce(
      ({ requests, errors, time }, message) => {
        const of = interval(message);
        const seconds = (of.time - time) / 1000;
        return {
          requests: requests + of.requestsPerSecond * seconds,
          errors: errors + of.errorsPerSecond * seconds,
          time: of.time,
        };
      },
      { requests: 0, errors: 0, time: interval(all[start]).time },
    );
    // The told times are those of the counts, rounded to milliseconds.
    assert.ok(Math.abs(ended.requests - 30) < 2, `${ended.requests} requests`);
    assert.ok(Math.abs(ended.errors - 10) < 1, `${ended.errors} errors`);
    const last = interval(all.at(-1));
    assert.deepEqual([last.requests - requests, last.errors - errors], [30, 10]);
  });

  test('goes on over a deploy that changes the stage, and never counts backwards', async () => {
    const sent = outputs('m');
    await more(sent.all);
    const changed = pipeline.map((one) => (one.id === 'work' ? { ...one, workers: '2' } : one));
    await nodeRed.deployReady([TAB, ...changed, ...metrics('m', { runtime: 'runtime' })], 'nodes');
    await nodeRed.post('/work', { n: 1 });
    await until('the second worker is told', () => interval(sent.all.at(-1))?.stages['work']?.workers === 2);
    for (const message of sent.all) {
      const { requestsPerSecond, stages } = interval(message);
      assert.ok(requestsPerSecond >= 0 && (stages['work']?.meanBatch ?? 1) >= 1);
    }
  });

  test('without a named runtime reports the only runtime, and neither of two', async () => {
    await nodeRed.deploy([TAB, ...pipeline, ...metrics('m'), ...metrics('n', { runtime: 'second' })]);
    const [only, none] = [outputs('m'), outputs('n')];
    await more(only.all);
    assert.deepEqual(Object.keys(interval(only.all.at(-1)).stages), ['work']);
    assert.equal(none.all.length, 0);
    assert.equal(nodeRed.badges.get('n')?.text, 'no stage runs');

    await nodeRed.deploy([TAB, ...pipeline, ...second, ...metrics('m'), ...metrics('n', { runtime: 'second' })]);
    const [two, named] = [outputs('m'), outputs('n')];
    await more(named.all);
    assert.deepEqual(Object.keys(interval(named.all.at(-1)).stages), ['other']);
    assert.equal(nodeRed.badges.get('n')?.text, undefined);
    assert.equal(two.all.length, 0);
    assert.equal(nodeRed.badges.get('m')?.text, 'choose one of 2 runtimes');
  });

  test('sends nothing after the removal of its runtime or of itself', async () => {
    const { all } = outputs('n');
    await more(all);
    // The sinks stay, so that whatever still came would be seen.
    const removed = metrics('n').slice(1);
    await nodeRed.deploy(
      [TAB, ...pipeline, ...removed, ...metrics('m', { runtime: 'second' }), ...metrics('k')],
      'nodes',
    );
    const before = all.length;
    const [gone, kept] = [outputs('m'), outputs('k')];
    await more(kept.all, 5);
    assert.deepEqual([all.length, gone.all.length], [before, 0]);
  });

  test('tells what is wrong with the endpoints and gates of its runtime, not with those of others', async () => {
    const wrong = [httpIn('twice', '/other', 'other'), dispatchGate('shut', 'other', [], { runtime: 'second' })];
    const watched = ['runtime', 'second'].flatMap((runtime) => metrics(`of ${runtime}`, { runtime }));
    await nodeRed.deploy([TAB, ...pipeline, ...second, ...wrong, ...watched]);
    nodeRed.send('shut', { gate: 'close' });
    const [first, other] = [outputs('of runtime').all, outputs('of second').all];
    const text = (messages: readonly Message[]): string => interval(messages.at(-1))?.verdict.text ?? '';
    await until('the second one tells', () => /^POST \/other is the address of two HTTP-in nodes/.test(text(other)));
    await more(first);
    assert.doesNotMatch(text(first), /other|shut/);
  });

  test('cannot be used with an invalid interval, and says why', async () => {
    await nodeRed.deploy([TAB, ...pipeline, ...metrics('m', { intervalMs: '10' })]);
    assert.match(nodeRed.badges.get('m')?.text ?? '', /^Interval: must be >= 100/);
  });
});
