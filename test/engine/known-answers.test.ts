/** Answers that only the next stage keeps from going on: how many wait makes no difference to what is asked. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Flight } from '../../src/engine/stage/flight.ts';
import type { Item, LiveRoute } from '../../src/engine/stage/item.ts';
import { KnownAnswers } from '../../src/engine/stage/known-answers.ts';
import type { Stage } from '../../src/engine/stage/stage.ts';
import { StageQueue } from '../../src/engine/stage/stage-queue.ts';
import { ids, queued } from './queued.ts';

/** Two routes from one stage to two others. */
const [toOne, toOther] = [1, 2].map((ref): LiveRoute => {
  const stages = [{ ref: 0 }, { ref }] as unknown as Stage[];
  return { ref, stages, tapped: [false, false], open: 0 };
}) as [LiveRoute, LiveRoute];

function flight(id: number, route: LiveRoute, priority = 0): Flight {
  return new Flight(`${id}`, { ...queued(id, 0, { priority }), route });
}

function knownOf(...flights: readonly Flight[]): KnownAnswers {
  const known = new KnownAnswers();
  for (const one of flights) known.add(one, one.item.payload, 'joined');
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
  const known = knownOf(flight(1, toOther), flight(2, toOne), flight(3, toOne), flight(4, toOne, 1));
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
  const [gone, stays] = [flight(1, toOne), flight(2, toOne)];
  const known = knownOf(gone, stays);
  known.remove(gone);
  assert.deepEqual(known.drain(), [stays]);
  assert.deepEqual(known.drain(), []);
});

test('however many wait, each full stage is asked for once, and a batch that leaves asks for none', () => {
  const queue = new StageQueue();
  const flights = Array.from({ length: 100 }, (_, id) => flight(id, id % 2 === 0 ? toOne : toOther));
  const known = knownOf(...flights);
  for (const { item } of flights) queue.push(item);
  queue.push(queued(100, 0));
  let asked = 0;
  const mayLeave = (item: Item): boolean => {
    asked += 1;
    return item.flight === null;
  };
  assert.deepEqual(leaving(known, mayLeave), []);
  assert.equal(asked, 2);
  assert.deepEqual([queue.length, queue.batchable], [101, 1]);
  assert.deepEqual(ids(queue.take(9, mayLeave)), [100]);
  assert.deepEqual([asked, queue.length, queue.batchable], [3, 100, 0]);
});

test('one whose answer is known no more is to run', () => {
  const queue = new StageQueue();
  const [first, second] = [flight(1, toOne), flight(2, toOne)];
  const known = knownOf(first, second);
  for (const { item } of [first, second]) queue.push(item);
  known.remove(first);
  first.known = null;
  queue.unknown(first.item);
  queue.remove(second.item);
  assert.deepEqual([queue.length, queue.batchable], [1, 1]);
  assert.deepEqual(ids(queue.take(9, () => true)), [1]);
});
