/** Sources that cannot be told to come again: what a full stage does with their messages. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { arrived, numbers, payloads, queueOf, sendAll, sorted, whenIdle } from '../../fixtures/drawn.ts';
import {
  catchNode,
  collector,
  completeNode,
  endpoint,
  freshRuntime,
  func,
  httpIn,
  httpOut,
  sink,
  stage,
  TAB,
} from '../../fixtures/flow.ts';
import { useGate } from '../../fixtures/gate.ts';
import { type FlowNode, type Message, useNodeRed } from '../../fixtures/node-red.ts';
import { until } from '../../fixtures/polling.ts';

/** Most messages that may wait for room, over all. */
const BUFFER = 2500;

const red = useNodeRed({ settings: { nodeMessageBufferMaxLength: BUFFER } });
const gate = useGate();

/** `slow -> out`, where every item waits for the gate. Returns what comes out. */
async function deploySlow(properties: object, ...more: FlowNode[]): Promise<Message[]> {
  const slow = stage('slow', gate.code(), more.some(({ id }) => id === 'collect') ? 'collect' : 'out', {
    ...properties,
  });
  await red.deployReady([TAB, freshRuntime(), slow, sink('out'), ...more]);
  return red.inputs('out');
}

async function countOf(code: string): Promise<number> {
  const { runtimes } = await red.snapshot();
  return runtimes.reduce((sum, { requests }) => sum + (requests[code] ?? 0), 0);
}

/** Sends one message and resolves when the worker has it and waits for the gate. */
async function occupy(id: string, message: object): Promise<void> {
  red.send(id, message);
  await until('the worker has it', async () => (await gate.entered()).length === 1);
}

describe('wait', () => {
  for (const overflow of ['wait', 'auto']) {
    test(`${overflow}: 2,000 messages wait outside the engine for a queue of 2, and all are answered in order`, async () => {
      const out = await deploySlow({ capacity: '2', overflow });
      sendAll(red, 'slow', numbers(2000));
      await until('the queue is full', async () => (await queueOf(red, 'slow')) >= 2);
      const [only] = (await red.snapshot()).runtimes;
      assert.equal(only?.backlog, 2000);
      // One at the worker, one possibly sent ahead, two in the queue.
      assert.ok((only?.frames.sent['submit']?.items ?? 0) <= 4, JSON.stringify(only?.frames));
      await gate.open();
      let longest = 0;
      await until('all are answered', async () => {
        longest = Math.max(longest, await queueOf(red, 'slow'));
        return out.length >= 2000;
      });
      assert.ok(longest <= 4, `${longest} in the queue`);
      assert.deepEqual(payloads(out), numbers(2000));
    });
  }

  test('a deploy that raises the capacity lets waiting messages in at once', async () => {
    const named = freshRuntime();
    const flows = (capacity: string): FlowNode[] => [
      ...[TAB, named, stage('slow', gate.code(), 'out', { capacity, overflow: 'wait' }), sink('out')],
    ];
    await red.deployReady(flows('1'));
    const out = red.inputs('out');
    sendAll(red, 'slow', numbers(20));
    await until('one is at work', async () => (await gate.entered()).length === 1);
    await red.deploy(flows('9'), 'nodes');
    await until('they are in the queue', async () => (await queueOf(red, 'slow')) >= 9);
    await gate.open();
    assert.deepEqual(payloads(await arrived(out, 20)), numbers(20));
  });

  test('beyond nodeMessageBufferMaxLength the excess gets capacity_exceeded', async () => {
    const out = await deploySlow({ capacity: '2', overflow: 'wait' }, catchNode('catch', 'failed'), sink('failed'));
    const failed = red.inputs('failed');
    sendAll(red, 'slow', numbers(BUFFER + 100));
    const refused = await arrived(failed, 96);
    await gate.open();
    await arrived(out, BUFFER + 4);
    await whenIdle(red);
    assert.deepEqual(payloads(out), numbers(BUFFER + 4));
    assert.deepEqual(payloads(refused), numbers(BUFFER + 100).slice(BUFFER + 4));
    for (const msg of failed) {
      assert.equal((msg['_error'] as Message['error'])?.code, 'capacity_exceeded');
      assert.equal(msg['statusCode'], 429);
    }
    assert.equal(failed.length, 96);
  });

  test('refuse also refuses messages without an HTTP client', async () => {
    const out = await deploySlow({ capacity: '2', overflow: 'refuse' }, catchNode('catch', 'failed'), sink('failed'));
    const failed = red.inputs('failed');
    await occupy('slow', { payload: 0 });
    sendAll(red, 'slow', [1, 2, 3, 4]);
    assert.deepEqual(payloads(await arrived(failed, 2)), [3, 4]);
    await gate.open();
    assert.deepEqual(payloads(await arrived(out, 3)), [0, 1, 2]);
  });
});

describe('HTTP at a full queue', () => {
  const deployEndpoint = async (overflow: string): Promise<void> => {
    await red.deployReady([
      TAB,
      freshRuntime(),
      ...endpoint('/slow', 'slow'),
      stage('slow', gate.code(), 'collector /slow', { capacity: '1', overflow }),
    ]);
  };

  test('auto answers 429 with Retry-After', async () => {
    await deployEndpoint('auto');
    const first = red.post('/slow', { number: 1 });
    await until('the worker has it', async () => (await gate.entered()).length === 1);
    const second = red.post('/slow', { number: 2 });
    await until('the queue is full', async () => (await queueOf(red, 'slow')) === 1);
    const third = await red.post('/slow', { number: 3 });
    assert.equal(third.status, 429);
    assert.match(third.headers.get('Retry-After') ?? '', /^[1-9]\d*$/);
    await gate.open();
    assert.deepEqual([(await first).status, (await second).status], [200, 200]);
  });

  test('wait answers all requests with 200', async () => {
    await deployEndpoint('wait');
    const all = numbers(20).map((number) => red.post('/slow', { number }));
    await until('all have come', async () => (await red.snapshot()).runtimes[0]?.backlog === 20);
    await gate.open();
    for (const [index, response] of (await Promise.all(all)).entries()) {
      assert.equal(response.status, 200);
      assert.deepEqual(await response.json(), { number: index });
    }
  });

  test('drop-oldest: the client of a dropped request gets 503 by the catch output', async () => {
    await deployEndpoint('drop-oldest');
    const first = red.post('/slow', { number: 1 });
    await until('the worker has it', async () => (await gate.entered()).length === 1);
    const second = red.post('/slow', { number: 2 });
    await until('the queue is full', async () => (await queueOf(red, 'slow')) === 1);
    const third = red.post('/slow', { number: 3 });
    const dropped = await second;
    assert.equal(dropped.status, 503);
    assert.equal(((await dropped.json()) as { error: { code: string } }).error.code, 'dropped');
    await gate.open();
    assert.deepEqual([(await first).status, (await third).status], [200, 200]);
  });
});

describe('drop-oldest', () => {
  const CAMERAS = ['north', 'east', 'south', 'west'];
  const FRAMES = 50;
  const CAMERA = { capacity: '4', overflow: 'drop-oldest', dropKey: 'camera' };

  /** While the stage is busy with the first frame all others come; one camera is much faster than the rest. */
  async function film(): Promise<void> {
    await occupy('slow', { payload: 'north 1', camera: 'north' });
    for (let frame = 2; frame <= 5; frame += 1) {
      for (const camera of CAMERAS) red.send('slow', { payload: `${camera} ${frame}`, camera });
    }
    for (let frame = 6; frame <= FRAMES; frame += 1) red.send('slow', { payload: `north ${frame}`, camera: 'north' });
    await until('all but the newest are dropped', async () => (await countOf('dropped')) === DROPPED);
  }
  /** Number of dropped frames: four of each camera and further ones of one camera, less one of each. */
  const DROPPED = 4 * 4 + (FRAMES - 5) - 4;
  const SURVIVORS = sorted(['north 1', `north ${FRAMES}`, 'east 5', 'south 5', 'west 5']);

  test('drop-oldest keeps the newest frame of every camera, and sends the others to a wired catch output', async () => {
    const collect = collector('collect', 'out', 'dropped');
    const out = await deploySlow(CAMERA, collect, sink('dropped'), catchNode('catch', 'caught'), sink('caught'));
    const [dropped, caught] = [red.inputs('dropped'), red.inputs('caught')];
    await film();
    await gate.open();
    assert.deepEqual(sorted(payloads(await arrived(out, 5))), SURVIVORS);
    await whenIdle(red);
    assert.deepEqual([out.length, dropped.length, caught.length], [5, DROPPED, 0]);
    for (const msg of dropped) {
      assert.equal(msg.error?.code, 'dropped');
      assert.equal(msg['statusCode'], 503);
    }
  });

  test('drop-oldest without a catch output counts dropped messages as done and tells no Catch node', async () => {
    const watching = [catchNode('catch', 'caught'), completeNode('complete', ['slow'], 'done')];
    const out = await deploySlow(CAMERA, ...watching, sink('caught'), sink('done'));
    const [caught, done] = [red.inputs('caught'), red.inputs('done')];
    await film();
    await arrived(done, DROPPED);
    await gate.open();
    assert.deepEqual(sorted(payloads(await arrived(out, 5))), SURVIVORS);
    await whenIdle(red);
    assert.deepEqual([out.length, done.length, caught.length], [5, DROPPED + 5, 0]);
    assert.equal(await countOf('ok'), 5);
  });

  test('drop-oldest in a route of two stages: behind a quick stage the slow one keeps the newest frames, too', async () => {
    const front = stage('front', 'return input;', 'slow', { capacity: '2', overflow: 'drop-oldest' });
    const out = await deploySlow({}, front);
    red.send('front', { payload: 0 });
    await until('the worker has it', async () => (await gate.entered()).length === 1);
    for (const hundred of numbers(5)) {
      sendAll(
        red,
        'front',
        numbers(100).map((number) => hundred * 100 + number + 1),
      );
      await until('they are through the first', async () => (await queueOf(red, 'front')) === 0);
    }
    await until('all but the newest are dropped', async () => (await countOf('dropped')) === 498);
    await gate.open();
    assert.deepEqual(payloads(await arrived(out, 3)), [0, 499, 500]);
  });

  test('drop-oldest takes messages that lack what should hold the dropKey as alike', async () => {
    const out = await deploySlow({ ...CAMERA, dropKey: 'source.camera' });
    await gate.open();
    red.send('slow', { payload: 'without' });
    red.send('slow', { payload: 'with null', source: null });
    assert.deepEqual(sorted(payloads(await arrived(out, 2))), ['"with null"', '"without"']);
  });

  test('drop-oldest without a dropKey keeps the newest of all, and never drops a higher priority for a lower one', async () => {
    const out = await deploySlow({ capacity: '2', overflow: 'drop-oldest' });
    await occupy('slow', { payload: 'first' });
    red.send('slow', { payload: 'important', priority: 5 });
    sendAll(red, 'slow', numbers(10));
    await until('all but one are dropped', async () => (await countOf('dropped')) === 9);
    red.send('slow', { payload: 'important too', priority: 5 });
    sendAll(red, 'slow', ['late']);
    await until('there is no room for those either', async () => (await countOf('dropped')) === 11);
    await gate.open();
    assert.deepEqual(payloads(await arrived(out, 3)), ['first', 'important', 'important too']);
  });
});

describe('maxAgeMs', () => {
  test('maxAgeMs drops an older request instead of running it, and keeps a fresh one', async () => {
    const out = await deploySlow({ maxAgeMs: '2000' }, catchNode('catch', 'caught'), sink('caught'));
    const caught = red.inputs('caught');
    await occupy('slow', { payload: 'first' });
    sendAll(red, 'slow', numbers(5));
    await until('all have come', async () => (await queueOf(red, 'slow')) === 5);
    const then = performance.now();
    await until('they are old', () => performance.now() - then > 2200);
    sendAll(red, 'slow', ['fresh']);
    await until('a fresh one has come', async () => (await queueOf(red, 'slow')) === 6);
    await gate.open();
    assert.deepEqual(payloads(await arrived(out, 2)), ['first', 'fresh']);
    await whenIdle(red);
    assert.deepEqual([out.length, caught.length, await countOf('dropped')], [2, 0, 5]);
    assert.deepEqual(await gate.entered(), ['first', 'fresh']);
  });

  test('a dropped request that an HTTP client waits for goes to Catch nodes like any error', async () => {
    await red.deployReady([
      TAB,
      freshRuntime(),
      httpIn('in', '/aged', 'slow'),
      stage('slow', gate.code(), 'answer', { maxAgeMs: '1000' }),
      httpOut('answer'),
      catchNode('catch', 'note'),
      func('note', 'msg.payload = msg._error.code; return msg;', 'answer'),
    ]);
    const first = red.post('/aged', { number: 1 });
    await until('the worker has it', async () => (await gate.entered()).length === 1);
    const second = red.post('/aged', { number: 2 });
    await until('it waits', async () => (await queueOf(red, 'slow')) === 1);
    const then = performance.now();
    await until('it is old', () => performance.now() - then > 1100);
    await gate.open();
    assert.equal((await first).status, 200);
    const dropped = await second;
    assert.deepEqual([dropped.status, await dropped.text()], [503, 'dropped']);
  });
});
