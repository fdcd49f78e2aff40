/** Answers that only the next stage keeps from going on: how many wait makes no difference to what is asked. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CoalescedRun, type Item, type LiveRoute, type RouteStage } from '../../src/engine/stage/item.ts';
import { KnownAnswers } from '../../src/engine/stage/known-answers.ts';
import { StageQueue } from '../../src/engine/stage/stage-queue.ts';
import { ids, queued } from './queued.ts';

/** Two routes from one stage to two others. */
const [toOne, toOther] = [1, 2].map((ref): LiveRoute => {
  const stages = [{ ref: 0 }, { ref }] as unknown as RouteStage[];
  return { ref, stages, tapped: [false, false], open: 0 };
}) as [LiveRoute, LiveRoute];

function run(id: number, route: LiveRoute, priority = 0): CoalescedRun {
  return new CoalescedRun(`${id}`, { ...queued(id, 0, { priority }), route });
}

function knownOf(...runs: readonly CoalescedRun[]): KnownAnswers {
  const known = new KnownAnswers();
  for (const one of runs) known.add(one, one.item.payload, 'joined');
  return known;
}

/** Who leaves, each removed as it does. */
function leaving(known: KnownAnswers, mayLeave: (item: Item) => boolean): number[] {
  const left: number[] = [];
  for (const one of known.leaving(mayLeave)) {
    known.remove(one);
    left.push(one.item.id);
  }
  return left;
}

test('those for a stage with room leave by priority and in order, past those for one that is full', () => {
  const known = knownOf(run(1, toOther), run(2, toOne), run(3, toOne), run(4, toOne, 1));
  let room = 2;
  const mayLeave = ({ route }: Item): boolean => {
    room -= route === toOne ? 1 : 0;
    return route === toOne && room >= 0;
  };
  assert.deepEqual(leaving(known, mayLeave), [4, 2]);
  assert.deepEqual(
    leaving(known, () => true),
    [1, 3],
  );
  assert.deepEqual(
    leaving(known, () => true),
    [],
  );
});

test('one that goes for another reason does not leave', () => {
  const [gone, stays] = [run(1, toOne), run(2, toOne)];
  const known = knownOf(gone, stays);
  known.remove(gone);
  assert.deepEqual(known.drain(), [stays]);
  assert.deepEqual(known.drain(), []);
});

test('however many wait, each full stage is asked for once, and a batch that leaves asks for none', () => {
  const queue = new StageQueue();
  const runs = Array.from({ length: 100 }, (_, id) => run(id, id % 2 === 0 ? toOne : toOther));
  const known = knownOf(...runs);
  for (const { item } of runs) queue.push(item);
  queue.push(queued(100, 0));
  let asked = 0;
  const mayLeave = (item: Item): boolean => {
    asked += 1;
    return item.run === null;
  };
  assert.deepEqual(leaving(known, mayLeave), []);
  assert.equal(asked, 2);
  assert.deepEqual([queue.length, queue.batchable], [101, 1]);
  assert.deepEqual(ids(queue.take(9, mayLeave)), [100]);
  assert.deepEqual([asked, queue.length, queue.batchable], [3, 100, 0]);
});

test('one whose answer is known no more is to run', () => {
  const queue = new StageQueue();
  const [first, second] = [run(1, toOne), run(2, toOne)];
  const known = knownOf(first, second);
  for (const { item } of [first, second]) queue.push(item);
  known.remove(first);
  first.known = null;
  queue.unknown(first.item);
  queue.remove(second.item);
  assert.deepEqual([queue.length, queue.batchable], [1, 1]);
  assert.deepEqual(ids(queue.take(9, () => true)), [1]);
});
