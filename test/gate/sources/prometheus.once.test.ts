/** PromQL, with a real Prometheus that scrapes the mock gateway. */
import assert from 'node:assert/strict';
import { after, before, describe, type TestContext, test } from 'node:test';
import { compileGate } from '../../../src/config/compile-gate.ts';
import type { BudgetSource } from '../../../src/gate/source.ts';
import { createSource } from '../../../src/gate/sources/create.ts';
import { freePort } from '../../fixtures/free-port.ts';
import { MockGateway } from '../../fixtures/mock-gateway.ts';
import { Prometheus, WITHOUT_PROMETHEUS } from '../../fixtures/prometheus.ts';
import { reasonFrom, reasonWhen, SERVICES, sampleFrom, sampleWhen } from '../../fixtures/sources.ts';

/** So many tokens that a request runs until its client goes away. */
const FOR_EVER = 100_000;
const RUNNING = 'sum(gateway_requests_running) / (4 * count(gateway_requests_running))';

describe('PromQL at a real Prometheus', { skip: WITHOUT_PROMETHEUS }, () => {
  let gateway: MockGateway;
  let prometheus: Prometheus;
  let port: number;

  const startGateway = (): Promise<MockGateway> => MockGateway.start({ port, servers: 2, 'max-concurrency': 2 });

  before(async () => {
    port = await freePort();
    gateway = await startGateway();
    prometheus = await Prometheus.start({ gateway: `${gateway.url}/metrics` });
  });

  after(async () => {
    await gateway?.stop();
    await prometheus?.stop();
  });

  function source(t: TestContext, query: string, raw: object = {}): BudgetSource {
    const gate = compileGate({ source: 'prometheus', url: prometheus.url, query, timeoutMs: 30_000, ...raw });
    const made = createSource(gate, SERVICES);
    t.after(() => made.close());
    return made;
  }

  test('reads the saturation of the gateway', async (t) => {
    const [plain, reckoned] = [source(t, 'gateway_saturation'), source(t, RUNNING)];
    assert.equal((await sampleWhen(plain, 'the gateway has been scraped', () => true)).budget, 1);
    const stop = new AbortController();
    const requests = [1, 2, 3].map(() => gateway.complete(FOR_EVER, {}, stop.signal));
    const threeOfFour = ({ budget }: { readonly budget: number }): boolean => budget === 0.25;
    assert.equal((await sampleWhen(plain, 'three requests are seen', threeOfFour)).raw, 'saturation 0.75');
    await sampleWhen(reckoned, 'three requests are reckoned', threeOfFour);
    stop.abort();
    await Promise.allSettled(requests);
    await sampleWhen(plain, 'they are seen to be gone', ({ budget }) => budget === 1);
  });

  for (const query of [
    '# why\ngateway_saturation # so',
    RUNNING,
    'scalar(gateway_saturation)',
    'sum by (job) (gateway_requests_running{job="gateway"}) / on (job) group_left () (gateway_servers_ready * 2)',
    'avg_over_time(gateway_saturation[10s])',
  ]) {
    test(`${query} is as old as the oldest sample that it uses`, async (t) => {
      const made = source(t, query);
      const { at: first } = await sampleWhen(made, 'the gateway is scraped', () => true);
      // Scraped once a second: in between, a reading is as old as the last scrape.
      let askedAt = SERVICES.clock.now();
      await sampleWhen(made, 'it is read again before it is scraped again', ({ at }) => {
        const older = at < askedAt - 10;
        askedAt = SERVICES.clock.now();
        return older;
      });
      await sampleWhen(made, 'it is scraped again', ({ at }) => at > first + 500);
    });
  }

  test('max_SYS follows servers that come and go', async (t) => {
    const made = source(t, 'gateway_saturation', { maxSysQuery: '2 * gateway_servers_ready' });
    const first = await sampleWhen(made, 'both are read', () => true);
    assert.deepEqual([first.maxSys, first.raw], [4, 'saturation 0, max_SYS 4']);
    t.after(() => gateway.control({ servers: 2 }));
    await gateway.control({ servers: 3 });
    await sampleWhen(made, 'a server has come', ({ maxSys }) => maxSys === 6);
    await gateway.control({ servers: 1 });
    await sampleWhen(made, 'two have gone', ({ maxSys }) => maxSys === 2);
  });

  for (const [maxSysQuery, reason] of [
    ['no_such_metric', /^max_SYS: the metric is missing: the query returned no series$/],
    ['vector(0)', /^max_SYS: a capacity must be a positive number, not 0$/],
    ['1 / 0', /^max_SYS: a capacity must be a positive number, not Infinity$/],
    ['sum(', /^max_SYS: HTTP 400: .*parse error/],
  ] as const) {
    test(`a max_SYS of ${maxSysQuery} gives no sample`, async (t) => {
      assert.match(await reasonFrom(source(t, 'gateway_saturation', { maxSysQuery })), reason);
    });
  }

  test('the source learns the scrape interval', async (t) => {
    const { everyMs = 0 } = await sampleWhen(source(t, 'gateway_saturation'), 'it is scraped twice', (sample) =>
      Number.isFinite(sample.everyMs),
    );
    assert.ok(everyMs > 500 && everyMs < 2500, `every ${everyMs} ms`);
  });

  test('an expression without samples is as old as its evaluation', async (t) => {
    const askedAt = SERVICES.clock.now();
    assert.ok((await sampleFrom(source(t, 'vector(0.5)'))).at >= askedAt);
    assert.ok((await sampleFrom(source(t, 'gateway_saturatoin or vector(0.5)'))).at >= askedAt);
  });

  for (const [query, reason] of [
    ['gateway_saturatoin', /^the metric is missing: the query returned no series$/],
    ['gateway_saturation > 5', /^the metric is missing: the query returned no series$/],
    ['gateway_requests_total', /^the query returned \d+ series, not one$/],
    ['gateway_saturation[1m]', /^the query returned a matrix, not one number$/],
    ['"text"', /^the query returned a string, not one number$/],
    ['gateway_saturation / 0 * 0', /^the number read is NaN$/],
    ['1 / 0', /^the number read is Infinity$/],
    ['scalar(gateway_saturatoin)', /^the number read is NaN$/],
    ['vector(-1)', /^saturation -1: a saturation is not negative$/],
    ['sum(', /^HTTP 400: .*parse error/],
  ] as const) {
    test(`${query} gives no sample`, async (t) => {
      assert.match(await reasonFrom(source(t, query)), reason);
    });
  }

  test('the metric is missing while the gateway is down, and returns with it', async (t) => {
    const plain = source(t, 'gateway_saturation');
    await gateway.stop('SIGKILL');
    await reasonWhen(plain, /^the metric is missing/);
    assert.match(await reasonFrom(source(t, RUNNING)), /^the metric is missing/);
    gateway = await startGateway();
    await sampleWhen(plain, 'it is scraped again', () => true);
  });

  test('there is no sample while Prometheus is down, and one without help when it is back', async (t) => {
    const plain = source(t, 'gateway_saturation');
    await sampleFrom(plain);
    await prometheus.kill();
    await reasonWhen(plain, /ECONNREFUSED/);
    prometheus.restart();
    await sampleWhen(plain, 'it is back', () => true);
  });
});
