/** AIMD in front of a simulated server whose capacity is unknown: how much of it is used, and how much is refused. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { compileGate } from '../../../src/config/compile-gate.ts';
import { Gate } from '../../../src/gate/gate.ts';
import { createSource } from '../../../src/gate/sources/create.ts';
import { FakeClock } from '../../fixtures/fake-clock.ts';
import { SERVICES } from '../../fixtures/sources.ts';

const SERVICE_MS = 100;
const REFUSAL_MS = 2;
const STEP_MS = 2;

/** Serves `capacity` at a time for a while each, and refuses the rest; a crowd waits before its gate all the time. */
class Bench {
  readonly clock: FakeClock = new FakeClock();
  readonly gate: Gate;
  capacity: number;
  #serving = 0;
  #waiting = 0;
  #served = 0;
  #refused = 0;

  constructor(capacity: number) {
    this.capacity = capacity;
    const config = compileGate({ source: 'aimd', baseline: 0, holdMs: 20, maxWindow: 1000, capacity: 10_000 });
    const source = createSource(config, { ...SERVICES, clock: this.clock });
    this.gate = new Gate({ id: 'g', name: 'g', config, source, clock: this.clock, ready: () => 1, onChange: () => {} });
  }

  /** Runs for a while: the share of the capacity that was used, and refusals per request that was served. */
  async run(ms: number): Promise<{ used: number; refusals: number }> {
    [this.#served, this.#refused] = [0, 0];
    for (let left = ms; left > 0; left -= STEP_MS) {
      while (this.#waiting < 100) this.#ask();
      this.clock.advance(STEP_MS);
      // The gate reads its source meanwhile.
      await setImmediate();
    }
    return { used: (this.#served * SERVICE_MS) / (this.capacity * ms), refusals: this.#refused / this.#served };
  }

  #ask(): void {
    this.#waiting += 1;
    this.gate.ask({
      cost: 1,
      priority: 0,
      deadline: Number.POSITIVE_INFINITY,
      admitted: ({ id }) => {
        this.#waiting -= 1;
        this.#serve(id);
      },
      refused: assert.fail,
    });
  }

  #serve(lease: string): void {
    const { clock, gate } = this;
    if (this.#serving >= this.capacity) {
      this.#refused += 1;
      clock.at(clock.now() + REFUSAL_MS, () => gate.end(lease, { kind: 'refused', retryAfterMs: 0 }));
      return;
    }
    this.#serving += 1;
    clock.at(clock.now() + SERVICE_MS, () => {
      this.#serving -= 1;
      this.#served += 1;
      gate.end(lease, { kind: 'done' });
    });
  }
}

test('AIMD settles around the capacity of a server, follows it down, and finds it again', async () => {
  const bench = new Bench(40);
  const results: Record<string, { used: number; refusals: number }> = {};
  await bench.run(3000);
  results['at 40'] = await bench.run(20_000);
  bench.capacity = 10;
  await bench.run(1000);
  results['at 10'] = await bench.run(20_000);
  bench.capacity = 40;
  await bench.run(6000);
  results['at 40 again'] = await bench.run(20_000);
  bench.capacity = 1;
  await bench.run(1000);
  results['at 1'] = await bench.run(5000);
  const said = JSON.stringify(results);
  for (const [when, { used, refusals }] of Object.entries(results)) {
    if (when === 'at 1') continue;
    assert.ok(used > 0.65, `${when} it uses what there is: ${said}`);
    assert.ok(refusals < 0.1, `${when} little is refused: ${said}`);
  }
  // A window never is below 1, and tries 2 again and again.
  assert.ok((results['at 1']?.used ?? 0) > 0.4, said);
});
