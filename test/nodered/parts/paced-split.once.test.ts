/** The paced split: order, parts, window, memory, and when it is done. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createWriteStream } from 'node:fs';
import { join as joinPath } from 'node:path';
import { describe, test } from 'node:test';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import {
  arrived,
  feed,
  join,
  linkIn,
  linkOut,
  numbers,
  payloads,
  sorted,
  split,
  whenIdle,
} from '../../fixtures/drawn.ts';
import {
  batcher,
  collector,
  completeNode,
  func,
  httpIn,
  httpOut,
  runtime,
  sink,
  stage,
  TAB,
} from '../../fixtures/flow.ts';
import { useGate } from '../../fixtures/gate.ts';
import { type FlowNode, useNodeRed } from '../../fixtures/node-red.ts';
import { until } from '../../fixtures/polling.ts';

const red = useNodeRed({
  prepare: () => {
    process.on('warning', ({ message }) => warnings.push(message));
  },
});
const gate = useGate();
const warnings: string[] = [];

/** Takes a random time, so that results come in another order than requests. */
const SOME_TIME = `await new Promise((resolve) => setTimeout(resolve, Math.random() * 10)); return input;`;

async function deploy(...flows: FlowNode[]): Promise<void> {
  await red.deployReady([
    TAB,
    runtime(),
    ...flows,
    completeNode('complete', ['feed'], 'done'),
    sink('done'),
    sink('out'),
  ]);
}

/** Counts messages that have come to `from` and not yet to one of `to`; without keeping them. */
function countBetween(from: string, to: string): { most: number; through: number } {
  const counts = { most: 0, through: 0 };
  let inside = 0;
  red.node(from).on('input', () => {
    inside += 1;
    counts.most = Math.max(counts.most, inside);
  });
  red.node(to).on('input', () => {
    inside -= 1;
    counts.through += 1;
  });
  return counts;
}

async function backlogIs(count: number): Promise<void> {
  await until(`${count} requests are open`, async () => (await red.snapshot()).runtimes[0]?.backlog === count);
}

/** Bytes that are really in use, in and outside the heap. */
function liveBytes(): number {
  setFlagsFromString('--expose-gc');
  (runInNewContext('gc') as () => void)();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

describe('window', () => {
  test('a file of 100,000 lines passes in bounded memory, never more than the window unsettled', async () => {
    const LINES = 100_000;
    const WINDOW = 200;
    const LINE = 'x'.repeat(500);
    const file = createWriteStream(joinPath(red.userDir, 'lines.txt'));
    for (let first = 0; first < LINES; first += 1000) {
      const lines = numbers(1000).map((number) => `${first + number} ${LINE}\n`);
      if (!file.write(lines.join(''))) await once(file, 'drain');
    }
    file.end();
    await once(file, 'close');
    await deploy(
      feed('feed', 'batch', { from: 'lines', window: String(WINDOW) }),
      batcher('batch', 'score', { maxBatchSize: '64' }),
      stage('score', 'return input.map((line) => line.length);', 'out', { predict: 'batch' }),
    );
    const counts = countBetween('batch', 'out');
    const done = red.inputs('done');
    let sum = 0;
    let highest = 0;
    red.node('out').on('input', ({ payload }) => {
      sum += payload as number;
      if (counts.through % 20_000 === 0) highest = Math.max(highest, liveBytes());
    });
    const before = liveBytes();
    red.send('feed', { filename: 'lines.txt' });
    for (let part = 1; part <= 10; part += 1) {
      await until(`${part} tenths are through`, () => counts.through >= (LINES / 10) * part);
    }
    await arrived(done, 1);
    assert.equal(counts.through, LINES);
    const digits = numbers(LINES).reduce((total, number) => total + String(number).length, 0);
    assert.equal(sum, digits + LINES * (1 + LINE.length));
    assert.ok(counts.most <= WINDOW, `${counts.most} unsettled`);
    assert.ok(counts.most > WINDOW / 2, `only ${counts.most} unsettled`);
    // The file has 50 MB.
    const grown = Math.round((highest - before) / 1024 / 1024);
    assert.ok(grown < 15, `grew by ${grown} MB`);
  });

  test('the window holds over other nodes between two stages', async () => {
    await deploy(
      feed('feed', 'first', { window: '4' }),
      stage('first', 'return input;', 'f'),
      func('f', 'return msg;', 'lo'),
      linkOut('lo', 'li'),
      linkIn('li', 'lo', 'g'),
      func('g', 'return msg;', 'second'),
      stage('second', gate.code(), 'out'),
    );
    const counts = countBetween('first', 'out');
    const out = red.inputs('out');
    red.send('feed', { payload: numbers(40) });
    await until('the second stage works', async () => (await gate.entered()).length > 0);
    await backlogIs(4);
    await gate.open();
    assert.deepEqual(payloads(await arrived(out, 40)), numbers(40));
    assert.equal(counts.most, 4);
  });

  test('an item that goes to two stages is settled when both are through', async () => {
    await deploy(
      feed('feed', ['quick', 'slow'], { window: '4' }),
      stage('quick', 'return input;', 'out'),
      stage('slow', gate.code(), 'held'),
      sink('held'),
    );
    const counts = countBetween('slow', 'held');
    const [out, held, done] = [red.inputs('out'), red.inputs('held'), red.inputs('done')];
    red.send('feed', { payload: numbers(20) });
    await arrived(out, 4);
    await backlogIs(4);
    await gate.open();
    await arrived(done, 1);
    assert.deepEqual([out.length, held.length, counts.most], [20, 20, 4]);
  });

  test('several inputs share the window, and each is done when its last item has settled', async () => {
    await deploy(feed('feed', 'slow', { window: '5' }), stage('slow', gate.code(), 'out'));
    const counts = countBetween('slow', 'out');
    const [out, done] = [red.inputs('out'), red.inputs('done')];
    for (let input = 0; input < 15; input += 1) red.send('feed', { payload: numbers(3), topic: String(input) });
    await backlogIs(5);
    assert.equal(done.length, 0);
    await gate.open();
    await arrived(done, 15);
    assert.deepEqual([out.length, counts.most], [45, 5]);
    assert.deepEqual(sorted(done.map(({ topic }) => topic)), sorted(numbers(15).map(String)));
    assert.deepEqual(warnings, []);
  });

  test('reset stops the running split, and the next input has the whole window and no more', async () => {
    await deploy(feed('feed', 'slow', { window: '4' }), stage('slow', gate.code(), 'out'));
    const [out, done] = [red.inputs('out'), red.inputs('done')];
    red.send('feed', { payload: numbers(1000) });
    await backlogIs(4);
    red.send('feed', { reset: true });
    // The message that was split, and the message that stopped it.
    await arrived(done, 2);
    await gate.open();
    await whenIdle(red);
    assert.deepEqual(payloads(out), [0, 1, 2, 3]);
    const counts = countBetween('slow', 'out');
    red.send('feed', { payload: numbers(20) });
    await arrived(done, 3);
    assert.deepEqual([out.length, counts.most], [24, 4]);
  });
});

describe('sequence', () => {
  test('parts are those of a core split, and core join puts the array together in order', async () => {
    await deploy(
      feed('feed', 'stage', { window: '8' }),
      stage('stage', SOME_TIME, ['join', 'parts'], { workers: '2' }),
      sink('parts'),
      join('join', 'out'),
    );
    const [out, parts] = [red.inputs('out'), red.inputs('parts')];
    const payload = numbers(50).map((number) => ({ number }));
    red.send('feed', { payload, mine: 1 });
    const [joined] = await arrived(out, 1);
    assert.deepEqual(joined?.payload, payload);
    assert.equal(joined?.['mine'], 1);
    const places = parts.map((msg) => msg['parts'] as { id: string; index: number; count?: number });
    assert.equal(new Set(places.map(({ id }) => id)).size, 1);
    assert.deepEqual(
      places.map(({ index }) => index).sort((a, b) => a - b),
      numbers(50),
    );
    for (const { index, count } of places) assert.equal(count, index === 49 ? 50 : undefined);
    assert.equal(new Set(parts.map(({ _msgid }) => _msgid)).size, 50);
  });

  test('an array in an HTTP body comes back as an array, failed items in their places', async () => {
    await deploy(
      httpIn('in', '/batch', 'feed'),
      feed('feed', 'batch', { window: '16' }),
      batcher('batch', 'root'),
      stage(
        'root',
        `if (input < 0) throw Object.assign(new Error('negative'), { code: 'invalid_input' }); return Math.sqrt(input);`,
        'collect',
      ),
      collector('collect', 'join', 'ok'),
      func('ok', `msg.payload = msg.error.code; return msg;`, 'join'),
      join('join', 'answer'),
      func('answer', 'msg.statusCode = 200; return msg;', 'reply'),
      httpOut('reply'),
    );
    const response = await red.post('/batch', [16, 9, -4, 25]);
    assert.equal(response.status, 200);
    assert.deepEqual(await response.json(), [4, 3, 'invalid_input', 5]);
  });

  test('inside a core split and inside itself: outer sequences are kept, and the outer window holds', async () => {
    await deploy(
      split('split', 'feed'),
      feed('feed', 'inner', { window: '1' }),
      feed('inner', 'stage', { window: '3' }),
      stage('stage', SOME_TIME, 'join', { workers: '2' }),
      join('join', 'join2'),
      join('join2', 'join3'),
      join('join3', 'out'),
    );
    const counts = countBetween('inner', 'join2');
    const out = red.inputs('out');
    const payload = [[[1, 2, 3], [4]], [[5, 6]], [[7], [8, 9], [10, 11, 12, 13]]];
    red.send('split', { payload });
    assert.deepEqual((await arrived(out, 1))[0]?.payload, payload);
    assert.equal(counts.most, 1);
  });

  test('an item that core split takes apart further is settled when all of its pieces are', async () => {
    await deploy(
      feed('feed', 'split', { window: '2' }),
      split('split', 'stage'),
      stage('stage', SOME_TIME, 'join', { workers: '2' }),
      join('join', 'join2'),
      join('join2', 'out'),
    );
    const counts = countBetween('split', 'join2');
    const out = red.inputs('out');
    const payload = numbers(10).map((number) => numbers(number + 1));
    red.send('feed', { payload });
    assert.deepEqual((await arrived(out, 1))[0]?.payload, payload);
    assert.ok(counts.most <= 2, `${counts.most} items at a time`);
  });
});
