/** The exposition as Prometheus gets it: complete from the start, well formed, and of what is deployed now. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { ERROR_CODES } from '../../../src/core/errors.ts';
import { METRICS } from '../../../src/observe/export/metrics.ts';
import { GATE_DECISIONS } from '../../../src/observe/views/gate-snapshot.ts';
import { Scrape } from '../../fixtures/exposition.ts';
import { batcher, dispatchGate, endpoint, runtime, sink, stage, TAB } from '../../fixtures/flow.ts';
import { type FlowNode, useNodeRed } from '../../fixtures/node-red.ts';
import { until } from '../../fixtures/polling.ts';
import { Prometheus, promtool, WITHOUT_PROMETHEUS } from '../../fixtures/prometheus.ts';

const ADMIN = '/admin/modelets/metrics';

/** Two runtimes, of which one is shown publicly. */
const flows: readonly FlowNode[] = [
  TAB,
  runtime('runtime', { name: 'first "quoted"', publicPath: '/ops/' }),
  runtime('hidden', { name: 'private' }),
  ...endpoint('/work', 'gate'),
  dispatchGate('gate', 'work', [], { maxSys: '50', baseline: 0.5 }),
  stage('work', 'return input;', 'batch'),
  batcher('batch', 'second'),
  stage('second', 'return input;', 'collector /work', { predict: 'batch' }),
  ...endpoint('/other', 'other'),
  stage('other', 'return input;', 'collector /other', { runtime: 'hidden' }),
  // No runtime belongs to it, and nothing can be read.
  dispatchGate('lonely', 'nowhere', [], { source: 'context', key: 'not set' }),
  sink('nowhere'),
];

const nodeRed = useNodeRed({ flows: flows });

async function text(path = ADMIN): Promise<string> {
  const response = await fetch(`${nodeRed.url}${path}`);
  assert.equal(response.status, 200, path);
  assert.match(response.headers.get('content-type') ?? '', /^text\/plain; (?=.*version=0\.0\.4)(?=.*charset=utf-8)/);
  return await response.text();
}

async function scrape(path = ADMIN): Promise<Scrape> {
  return new Scrape(await text(path));
}

describe('exposition', () => {
  test('has every metric with its type, and every code of the request counter from the start', async () => {
    const found = await scrape();
    assert.deepEqual(
      Object.fromEntries(found.types),
      Object.fromEntries(METRICS.map(({ name, type }) => [name, type])),
    );
    const codes = found.find('modelet_requests_total', { runtime: 'private' });
    assert.deepEqual(
      codes.map(({ labels, value }) => [labels['code'], value]),
      ['ok', ...ERROR_CODES].map((code) => [code, 0]),
    );
  });

  test('has only declared labels', async () => {
    const declared = new Map(METRICS.map(({ name, labels }) => [name, ['runtime', ...labels]]));
    for (const { name, labels } of (await scrape()).series) {
      const metric = declared.get(name) ?? declared.get(name.replace(/_(bucket|sum|count)$/, ''));
      assert.deepEqual(
        Object.keys(labels).filter((label) => label !== 'le'),
        metric,
        name,
      );
    }
  });

  test('has buckets that rise up to the count and end at infinity', async () => {
    for (let n = 0; n < 20; n += 1) await nodeRed.post('/work', { n });
    await until('the engine has reported them', async () => {
      return (await scrape()).value('modelet_items_total', { stage: 'second' }) >= 20;
    });
    const found = await scrape();
    for (const [name, type] of found.types) {
      if (type !== 'histogram') continue;
      for (const { labels, value: count } of found.find(`${name}_count`)) {
        const buckets = found.find(`${name}_bucket`, labels);
        assert.equal(buckets.at(-1)?.labels['le'], '+Inf');
        const values = buckets.map(({ value }) => value);
        assert.deepEqual(
          values,
          values.toSorted((a, b) => a - b),
          name,
        );
        assert.equal(values.at(-1), count, name);
      }
    }
    assert.equal(
      found.value('modelet_request_duration_seconds_count', { code: 'ok', runtime: 'first \\"quoted\\"' }),
      20,
    );
  });

  test('is also at the public path, with only the runtimes that name it', async () => {
    const names = async (path: string): Promise<string[]> => {
      return (await scrape(path)).find('modelet_backlog').map(({ labels }) => labels['runtime'] ?? '');
    };
    assert.deepEqual(await names('/ops/metrics'), ['first \\"quoted\\"']);
    assert.deepEqual(await names(ADMIN), ['first \\"quoted\\"', 'private']);
    assert.equal((await fetch(`${nodeRed.url}/metrics`)).status, 404);
    assert.equal((await nodeRed.post('/ops/metrics', {})).status, 404);
  });

  test('has the memory and the CPU time of each worker', async () => {
    const of = { stage: 'work', worker: '0' };
    const found = await until('the worker has told', async () => {
      const latest = await scrape();
      return latest.find('modelet_worker_rss_bytes', of).length > 0 && latest;
    });
    assert.ok(found.value('modelet_worker_rss_bytes', of) > 10_000_000);
    const seconds = found.value('modelet_worker_cpu_seconds_total', of);
    assert.ok(seconds > 0 && seconds < 60, `${seconds} s`);
  });

  test('has the measurements and decisions of each gate, with every reason from the start', async () => {
    const found = await scrape();
    const lonely = { runtime: '', gate: 'lonely' };
    const decisions = found.find('modelet_gate_decisions_total', lonely);
    assert.deepEqual(
      decisions.map(({ labels, value }) => [labels['reason'], value]),
      GATE_DECISIONS.map((reason) => [reason, 0]),
    );
    assert.equal(found.value('modelet_gate_source_available', lonely), 0);
    assert.deepEqual(found.find('modelet_gate_sample_age_seconds', lonely), []);
    const gate = { runtime: 'first \\"quoted\\"', gate: 'gate' };
    const numbers = ['open', 'budget', 'baseline', 'quota', 'in_flight', 'waiting', 'source_available'].map((name) =>
      found.value(`modelet_gate_${name}`, gate),
    );
    assert.deepEqual(numbers, [1, 1, 0.5, 25, 0, 0, 1]);
    assert.ok(found.value('modelet_gate_sample_age_seconds', gate) < 60);
    const publicly = (await scrape('/ops/metrics')).find('modelet_gate_open');
    assert.deepEqual(
      publicly.map(({ labels }) => labels['gate']),
      ['gate'],
    );
  });

  test('passes the check of promtool', { skip: WITHOUT_PROMETHEUS }, async () => {
    assert.equal(promtool(['check', 'metrics'], await text()), '');
    assert.match(promtool(['check', 'metrics'], 'modelet_thing_total{x="1"} 1\n'), /no help text/);
  });

  test('a real Prometheus scrapes both sides, and has the same numbers', { skip: WITHOUT_PROMETHEUS }, async () => {
    const prometheus = await Prometheus.start({
      admin: `${nodeRed.url}${ADMIN}`,
      public: `${nodeRed.url}/ops/metrics`,
    });
    try {
      for (let n = 0; n < 10; n += 1) await nodeRed.post('/other', { n });
      await until('both targets are up', async () => {
        const up = await prometheus.query('up', 'job');
        return up?.['admin'] === 1 && up['public'] === 1;
      });
      assert.deepEqual(await prometheus.targetErrors(), { admin: '', public: '' });
      const byRuntime = await until('the last scrape has all requests', async () => {
        const found = await prometheus.query('modelet_requests_total{code="ok",job="admin"}', 'runtime');
        return found?.['private'] === 10 && found;
      });
      assert.deepEqual(byRuntime, { 'first "quoted"': 20, private: 10 });
    } finally {
      await prometheus.stop();
    }
  });
});

describe('exposition and deploys', () => {
  test('the public path can change without a restart', async () => {
    const engine = (await nodeRed.snapshot()).runtimes[0]?.engine.pid;
    const moved = flows.map((node) => (node.id === 'runtime' ? { ...node, publicPath: 'moved' } : node));
    await nodeRed.deploy(moved, 'nodes');
    assert.equal((await fetch(`${nodeRed.url}/ops/metrics`)).status, 404);
    await text('/moved/metrics');
    assert.equal((await nodeRed.snapshot()).runtimes[0]?.engine.pid, engine);
  });

  test('the counters go on, and a removed stage loses its series', async () => {
    const before = await scrape();
    assert.ok(before.find('modelet_items_total', { stage: 'second' }).length > 0);
    const shorter = flows
      .filter(({ id }) => id !== 'second' && id !== 'batch')
      .filter(({ id }) => id !== 'lonely')
      .map((node) => (node.id === 'work' ? { ...node, wires: [['collector /work']] } : node));
    await nodeRed.deploy(shorter);
    const found = await scrape();
    assert.deepEqual(
      found.find('modelet_gate_open').map(({ labels }) => labels['gate']),
      ['gate'],
    );
    assert.deepEqual(
      found.series.filter(({ labels }) => labels['stage'] === 'second'),
      [],
    );
    const handled = { runtime: 'first \\"quoted\\"' };
    const [was, is] = [before, found].map((one) => one.value('modelet_requests_total', { ...handled, code: 'ok' }));
    assert.equal(is, was);
    assert.ok(found.value('modelet_deploys_total', handled) > before.value('modelet_deploys_total', handled));
  });
});
