/** The server behind a gate's budget dies under load and restarts: the gate is closed meanwhile and loses nothing. */
import assert from 'node:assert/strict';
import { after, before, describe, type TestContext, test } from 'node:test';
import { compileGate } from '../../../src/config/compile-gate.ts';
import { systemClock } from '../../../src/core/clock.ts';
import { Gate } from '../../../src/gate/gate.ts';
import type { BudgetSource } from '../../../src/gate/source.ts';
import { createSource } from '../../../src/gate/sources/create.ts';
import { MockGateway } from '../../fixtures/mock-gateway.ts';
import { until } from '../../fixtures/polling.ts';
import { Prometheus, WITHOUT_PROMETHEUS } from '../../fixtures/prometheus.ts';
import { Redis, WITHOUT_REDIS } from '../../fixtures/redis.ts';
import { SERVICES } from '../../fixtures/sources.ts';

const REQUESTS = 40;

/** Requests through a gate to the mock gateway, each counted where it is. */
class Load {
  readonly gate: Gate;
  readonly #gateway: MockGateway;
  asked = 0;
  admitted = 0;
  answered = 0;
  readonly failures: unknown[] = [];
  /** Readings that gave no sample. */
  misses = 0;

  constructor(gateway: MockGateway, raw: Record<string, unknown>) {
    const shared = { baseline: 0.1, maxSys: '8', intervalMs: 50, lagMs: 1000, staleMs: 10_000, capacity: 1000 };
    const config = compileGate({ ...shared, timeoutMs: 1000, ...raw });
    const source = this.#counting(createSource(config, SERVICES));
    this.#gateway = gateway;
    this.gate = new Gate({
      id: 'g',
      name: 'g',
      config,
      source,
      clock: systemClock,
      ready: () => 1,
      onChange: () => {},
    });
  }

  ask(count: number): void {
    for (let left = count; left > 0; left -= 1) {
      this.asked += 1;
      this.gate.ask({
        cost: 1,
        priority: 0,
        deadline: Number.POSITIVE_INFINITY,
        admitted: ({ id }) => {
          this.admitted += 1;
          this.#send(id).catch((error) => this.failures.push(error));
        },
        refused: (error) => this.failures.push(error),
      });
    }
  }

  async #send(lease: string): Promise<void> {
    const response = await this.#gateway.complete(4);
    await response.arrayBuffer();
    assert.equal(response.status, 200);
    assert.ok(this.gate.end(lease, { kind: 'done' }), 'no lease has ended before');
    this.answered += 1;
  }

  #counting(source: BudgetSource): BudgetSource {
    const read = source.read.bind(source);
    source.read = async (signal) => {
      const reading = await read(signal);
      if (!reading.ok) this.misses += 1;
      return reading;
    };
    return source;
  }
}

describe('an outage under load', () => {
  let gateway: MockGateway;

  before(async () => {
    gateway = await MockGateway.start({ servers: 2, 'max-concurrency': 4, queue: 1000 });
  });

  after(() => gateway?.stop());

  async function holds(
    t: TestContext,
    raw: Record<string, unknown>,
    server: Pick<Redis, 'kill' | 'restart'>,
  ): Promise<void> {
    const load = new Load(gateway, raw);
    const { gate } = load;
    t.after(() => gate.control('drop'));
    load.ask(REQUESTS);
    await until('requests go through', () => load.answered > 10);

    await server.kill();
    await until('the gate knows', () => !gate.snapshot().source.available);
    assert.equal(gate.snapshot().open, false);
    const { admitted, misses } = load;
    load.ask(REQUESTS);
    await until('the source is read again and again', () => load.misses > misses + 3);
    assert.equal(load.admitted, admitted, 'nothing goes through');
    assert.match(gate.snapshot().why, /ECONNREFUSED/);

    server.restart();
    await until('all requests are answered', () => load.answered === load.asked);
    assert.deepEqual(load.failures, []);
    assert.deepEqual([load.admitted, gate.snapshot().inFlight], [2 * REQUESTS, 0]);
  }

  test('of Prometheus closes the gate until Prometheus is back', { skip: WITHOUT_PROMETHEUS }, async (t) => {
    const prometheus = await Prometheus.start({ gateway: `${gateway.url}/metrics` });
    t.after(() => prometheus.stop());
    await holds(t, { source: 'prometheus', url: prometheus.url, query: 'gateway_saturation' }, prometheus);
  });

  test('of Redis closes the gate until Redis is back', { skip: WITHOUT_REDIS }, async (t) => {
    const redis = await Redis.start();
    t.after(() => redis.kill());
    const client = await redis.connect();
    t.after(() => client.destroy());
    const writing = setInterval(() => client.set('load', '0.5', { PX: 2000 }).catch(() => {}), 50);
    t.after(() => clearInterval(writing));
    await holds(t, { source: 'redis', url: redis.url, key: 'load' }, redis);
  });
});
