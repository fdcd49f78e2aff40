/** Random drawings with lists, forks, choices and failures, compiled as from a flow file, give the results that they say. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { renamed, stagesOf } from '../../src/core/routes/route.ts';
import type { Item } from '../../src/runtime/engine/stage/item.ts';
import { Chunks, freeablePayload, lentChunksOf } from '../../src/wire/codec/chunks.ts';
import { decodePayload, encodeList, encodePayload } from '../../src/wire/codec/codec.ts';
import { madeBy, outcomeOf, routeOf, WAYS, type Way } from '../fixtures/random-routes.ts';
import { Rig, stage } from './rig.ts';

const ENCODED = { blame: 'invalid_input', maxBytes: 1e6 } as const;

class DrawnRig extends Rig {
  /** The node of each stage: the first has the number 1. */
  readonly #ids: string[] = [];
  /** What a worker refuses. */
  readonly #refused: WeakSet<Item> = new WeakSet();

  /** Takes the route of a drawing. */
  async draw(way: Way): Promise<void> {
    const { leg: drawnLeg } = routeOf(way);
    this.#ids.push(...stagesOf(drawnLeg));
    const numbers = new Map(this.#ids.map((id, at) => [id, at + 1]));
    const leg = renamed(drawnLeg, (id) => numbers.get(id) ?? 0);
    const stages = [...numbers.values()].map((ref) => stage(ref, { capacity: 4 }, 1 + (ref % 2)));
    await this.apply({ stages, routes: [{ ref: 1, stages: [...numbers.values()], taps: [], leg }] });
    for (const [id, ref] of numbers) {
      const encode = id.startsWith('e') ? encodeList : encodePayload;
      this.pool(ref).makes = (item) => {
        const { codec } = item.payload;
        const made = madeBy(id, decodePayload({ codec, bytes: Buffer.concat(lentChunksOf(item.payload)) }));
        if (made === null) this.#refused.add(item);
        const result = encode(made, ENCODED);
        return freeablePayload(result.codec, new Chunks([Buffer.from(result.bytes)]));
      };
    }
  }

  /** Lets workers answer, in an order that the lots choose, until none has anything. */
  async answerAll(lots: readonly number[]): Promise<void> {
    for (let turn = 0; ; turn += 1) {
      await this.turn();
      const busy = this.pools.flatMap((pool) =>
        [...pool.definition.modelet.workers.keys()].flatMap((worker) =>
          pool.held(worker).length > 0 ? [{ pool, worker }] : [],
        ),
      );
      const one = busy[(lots[turn % lots.length] ?? 0) % busy.length];
      if (!one) return;
      one.pool.answer(one.worker, 10, (item) => this.#refused.has(item));
    }
  }

  /** The outcome of each request: a value, or null for an error. */
  get results(): Map<number, unknown> {
    return new Map(this.outcomes.map(({ id, ok, payload }) => [id, ok ? decodePayload(payload) : null]));
  }
}

test('whatever way is drawn, and whichever worker answers first, each request gets what the drawing says', async () => {
  const inputs = fc.uniqueArray(fc.nat({ max: 999 }), { minLength: 1, maxLength: 6 });
  const lots = fc.array(fc.nat({ max: 99 }), { minLength: 1, maxLength: 20 });
  const cases = fc.asyncProperty(WAYS, inputs, lots, async (way, sent, order) => {
    const rig = new DrawnRig();
    await rig.draw(way);
    await rig.submit(sent, { patient: true });
    await rig.answerAll(order);
    assert.equal(rig.outcomes.length, sent.length);
    assert.deepEqual(rig.results, new Map(sent.map((input) => [input, outcomeOf(way, input)])));
    assert.equal(rig.engine.status().heldBytes, 0);
  });
  await fc.assert(cases, { numRuns: 200 });
});
