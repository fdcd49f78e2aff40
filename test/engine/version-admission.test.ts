/** Patient requests for a version: its queue never gets more than fit, and no request is lost in front of it. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { Rig, route, stage, upTo } from './rig.ts';

const BASE = 1;
const VERSION = 2;
/** A queue of 2, and a worker that holds one item and may get one ahead. */
const MOST = 2 + 2;

/** Stage 1, whose version, stage 2, answers a share of its requests. */
async function rigWith(share = 100): Promise<Rig> {
  const rig = new Rig();
  const versions = { list: [{ stage: 'node-2', share, mode: 'answer' }], rollbackAbove: null } as const;
  await rig.apply({
    stages: [stage(BASE, { versions }), stage(VERSION, { capacity: 2 })],
    routes: [route(1, [BASE])],
  });
  return rig;
}

/** Items that the version has, in its queue and at its worker. */
function at(rig: Rig, ref: number): number {
  return (rig.queueOf(ref) ?? 0) + rig.pool(ref).held(0).length;
}

describe('patient requests for a version', () => {
  test('wait in front of it, and go in by priority', async () => {
    const rig = await rigWith();
    await rig.submit(upTo(8), { patient: true });
    await rig.submit([9, 10], { patient: true, priority: 5 });
    const order: string[] = [];
    for (let times = 0; times < 10; times += 1) {
      assert.ok(at(rig, VERSION) <= MOST, `it has ${at(rig, VERSION)}`);
      rig.pool(VERSION).answer(0);
      await rig.turn();
      order.push(...rig.answers());
    }
    assert.deepEqual(order, ['1', '9', '10', '2', '3', '4', '5', '6', '7', '8']);
  });

  test('leave the others alone: those of the base pass', async () => {
    const rig = await rigWith(50);
    await rig.submit(upTo(40), { patient: true });
    assert.equal(at(rig, VERSION), MOST);
    for (let times = 0; times < 20; times += 1) {
      rig.pool(BASE).answer(0);
      await rig.turn();
    }
    assert.equal(rig.answers().length, 20);
    await rig.finish();
    assert.equal(rig.answers().length, 20);
  });

  test('go to the base if the version is rolled back or dies meanwhile, also thousands', async () => {
    for (const end of ['roll back', 'die'] as const) {
      const rig = await rigWith();
      await rig.submit(upTo(5000), { patient: true });
      if (end === 'die') rig.pool(VERSION).fail('workers die');
      else rig.engine.act(VERSION, 'rollback');
      while (rig.pool(VERSION).held(0).length > 0) {
        rig.pool(VERSION).answer(0);
        await rig.turn();
      }
      const before = rig.answers().length;
      assert.ok(before <= MOST);
      assert.equal(rig.queueOf(VERSION), 0);
      assert.equal(at(rig, BASE), 5000 - before);
    }
  });

  test('can be cancelled there, and are dropped with its queue', async () => {
    const rig = await rigWith();
    await rig.submit(upTo(10), { patient: true });
    rig.engine.cancel([7, 8]);
    rig.engine.act(VERSION, 'reset');
    await rig.turn();
    const dropped = rig.answers();
    assert.deepEqual(
      dropped.filter((answer) => !/^\d+ dropped$/.test(answer)),
      [],
    );
    await rig.submit([11], { patient: true });
    await rig.finish();
    const rest = rig.answers();
    assert.equal(dropped.length + rest.length, 9);
    assert.ok(rest.includes('11'));
    assert.ok(!rest.includes('7'));
  });

  test('go in as soon as a deploy gives it more room', async () => {
    const rig = await rigWith();
    await rig.submit(upTo(20), { patient: true });
    assert.equal(at(rig, VERSION), MOST);
    const versions = { list: [{ stage: 'node-2', share: 100, mode: 'answer' }], rollbackAbove: null } as const;
    const stages = [stage(BASE, { versions }), stage(VERSION, { capacity: 10 })];
    await rig.apply({ stages, routes: [route(1, [BASE])] });
    assert.equal(at(rig, VERSION), MOST + 8);
    await rig.finish();
    assert.equal(rig.answers().length, 20);
  });

  test('go to the base after a deploy without the version', async () => {
    const rig = await rigWith();
    await rig.submit(upTo(10), { patient: true });
    await rig.apply({ stages: [stage(BASE)], routes: [route(1, [BASE])] });
    await rig.finish();
    assert.equal(rig.answers().length, 10);
  });
});

test('a check asks versions, too, and says which of them answer no request', async () => {
  const rig = new Rig();
  const list = [
    { stage: 'node-2', share: 50, mode: 'answer' },
    { stage: 'node-3', share: 100, mode: 'shadow' },
    { stage: 'node-4', share: 0, mode: 'answer' },
  ] as const;
  const stages = [stage(1, { versions: { list, rollbackAbove: null } }), stage(2), stage(3), stage(4), stage(5)];
  await rig.apply({ stages, routes: [route(1, [1])] });
  const asked = async (): Promise<unknown[]> =>
    (await rig.engine.check(rig.clock.now() + 1000)).map(({ stage: ref, answers }) => [ref, answers]);
  const idle = [
    [3, false],
    [4, false],
  ];
  assert.deepEqual(await asked(), [[1, undefined], [2, undefined], ...idle]);
  rig.pool(2).fail('does not start');
  assert.deepEqual(await asked(), [[1, undefined], [2, false], ...idle]);
});
