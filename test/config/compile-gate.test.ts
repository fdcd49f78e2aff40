/** The settings of a gate, from what an editor saves. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { compileGate } from '../../src/config/compile-gate.ts';

test('a gate without properties takes the defaults of its schema', () => {
  const gate = compileGate({});
  assert.deepEqual(gate.source, { kind: 'saturation' });
  assert.equal(gate.baseline, 0.05);
  assert.equal(gate.maxSys, null);
  assert.equal(gate.store, 'memory');
  assert.ok(Object.isFrozen(gate));
});

test('numeric properties of a gate may be text', () => {
  const { baseline, maxSys, capacity } = compileGate({ baseline: '0.1', maxSys: '50', capacity: '7' });
  assert.deepEqual({ baseline, maxSys, capacity }, { baseline: 0.1, maxSys: 50, capacity: 7 });
});

test('each source of a gate gets its own settings', () => {
  const url = 'http://127.0.0.1:9090';
  assert.deepEqual(compileGate({ source: 'prometheus', url, query: ' up ' }).source, {
    kind: 'prometheus',
    url: `${url}/`,
    query: 'up',
    maxSysQuery: '',
    value: 'saturation',
    timeoutMs: 2000,
    tls: '',
  });
  const scrape = compileGate({ source: 'scrape', url, metric: 'running', labels: '{"pool":1}' }).source;
  assert.deepEqual(scrape.kind === 'scrape' && scrape.labels, { pool: '1' });
  assert.deepEqual(compileGate({ source: 'composite', members: '["a","b","a"]' }).source, {
    kind: 'composite',
    members: ['a', 'b'],
  });
});

test('a sample of Prometheus may be older than its usual scrape interval, unless the flow says otherwise', () => {
  const asking = { source: 'prometheus', url: 'http://127.0.0.1:9090', query: 'up' };
  assert.equal(compileGate(asking).staleMs, 35_000);
  assert.equal(compileGate({ ...asking, staleMs: 5000 }).staleMs, 5000);
  assert.equal(compileGate({ source: 'scrape', url: asking.url, metric: 'm' }).staleMs, 5000);
});

test('the members of a composite are a list, or JSON as in earlier versions', () => {
  for (const members of [['a', 'b'], '["a","b"]']) {
    const { source } = compileGate({ source: 'composite', members });
    assert.deepEqual(source.kind === 'composite' && source.members, ['a', 'b']);
  }
});

for (const [raw, reason] of [
  [{ source: 'promtheus' }, /source: must be one of saturation, prometheus/],
  [{ baseline: 1.1 }, /baseline/],
  [{ maxSys: 'many' }, /maxSys: must be a number/],
  [{ unit: 'tokens' }, /costProperty/],
  [{ source: 'prometheus', url: 'http://127.0.0.1', query: '' }, /query: is missing/],
  [{ source: 'prometheus', url: 'ftp://127.0.0.1', query: 'up' }, /url: the source "prometheus" needs http/],
  [{ source: 'redis', url: 'redis://me:secret@127.0.0.1', key: 'd' }, /user and password belong/],
  [{ source: 'scrape', url: 'x', metric: 'm' }, /url:/],
  [{ source: 'scrape', url: 'http://127.0.0.1', metric: 'm', labels: '[]' }, /labels/],
  [{ source: 'aimd', minWindow: 8, maxWindow: 4 }, /minWindow/],
  [{ source: 'composite', members: '[]' }, /members/],
] as const) {
  test(`${JSON.stringify(raw)} is refused`, () => {
    assert.throws(() => compileGate(raw), { code: 'config_invalid', message: reason });
  });
}
