/**
 * A dispatch gate in a flow: who is let through, who waits, who is turned away, and by what its leases end.
 * Shows: node modelet-gate.
 */
import assert from 'node:assert/strict';
import { type ClientRequest, request } from 'node:http';
import { afterEach, describe, test } from 'node:test';
import {
  catchNode,
  collector,
  dispatchGate,
  endpoint,
  func,
  httpIn,
  httpOut,
  runtime,
  sink,
  stage,
  TAB,
} from '../../fixtures/flow.ts';
import { useGatedRed } from '../../fixtures/gated-red.ts';
import { until } from '../../fixtures/polling.ts';

const bed = useGatedRed({
  flows: () => [
    TAB,
    runtime(),
    // One at a time; errors of the gate and of what is behind it go to the collector.
    ...endpoint('/one', 'one'),
    dispatchGate('one', 'work'),
    stage('work', held.code(), 'collector /one'),
    // Turns away what it cannot let in at once, by a separate output.
    httpIn('in /strict', '/strict', 'strict'),
    dispatchGate('strict', 'strict work', 'strict out', { whenClosed: 'refuse', intervalMs: 2500 }),
    stage('strict work', held.code(), 'strict out'),
    httpOut('strict out'),
    // Room for one waiting message; no node handles its errors.
    httpIn('in /small', '/small', 'small'),
    dispatchGate('small', 'small work', [], { capacity: 1 }),
    stage('small work', held.code(), 'small out'),
    httpOut('small out'),
    // Its errors go to a Catch node.
    dispatchGate('caught', 'caught sink', [], { source: 'constant', budget: 0 }),
    sink('caught sink'),
    catchNode('catch', 'catch sink', { scope: ['caught'] }),
    sink('catch sink'),
    // A loop back to the gate.
    dispatchGate('looped', 'again'),
    func('again', 'msg.payload += 1; return msg.payload < 5 ? [msg, null] : [null, msg];', 'looped', 'looped end'),
    collector('looped end', 'loop sink'),
    sink('loop sink'),
  ],
});
const { red, held } = bed;
afterEach(() => bed.settle());

/** Posts and does not wait for the answer; `destroy()` hangs up. */
function open(path: string, body: object): ClientRequest {
  const client = request(`${red.url}${path}`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    agent: false,
  });
  client.on('error', () => {});
  client.end(JSON.stringify(body));
  return client;
}

interface ErrorBody {
  readonly error: { readonly code: string; readonly message: string; readonly requestId: string };
}

async function assertError(response: Response, status: number, code: string): Promise<void> {
  const { error } = (await response.json()) as ErrorBody;
  assert.deepEqual([response.status, error.code], [status, code], error.message);
  assert.equal(error.requestId, response.headers.get('X-Request-Id'));
}

describe('a gate in front of a stage', () => {
  test('admits N messages, and the next when a result has reached the collector', async () => {
    const [first, second] = await bed.beginTwo('/one', 'one');
    const { inFlight, open, decisions } = await red.gate('one');
    assert.deepEqual([inFlight, open, decisions.admitted_late], [1, true, 0]);
    assert.equal((await held.entered()).length, 1);
    const results = red.inputs('collector /one');
    await held.open();
    assert.deepEqual(await Promise.all([first, second].map(async (answer) => (await answer).json())), [
      { number: 1 },
      { number: 2 },
    ]);
    assert.equal((await red.gate('one')).decisions.admitted_late, 1);
    const traces = results.map(({ modelet }) => modelet);
    assert.deepEqual(
      traces.map((trace) => trace?.leases),
      [undefined, undefined],
    );
    assert.ok((traces[1]?.gateMs ?? 0) > 0);
    assert.ok((traces[1]?.totalMs ?? 0) >= (traces[1]?.gateMs ?? 0));
  });

  test('admits waiting messages by priority', async () => {
    const order: unknown[] = [];
    const results = red.inputs('collector /one');
    red.send('one', { payload: 'first' });
    await bed.entered(1);
    for (const [payload, priority] of [
      ['low', -1],
      ['middle', 0],
      ['high', 5],
    ] as const)
      red.send('one', { payload, priority });
    await bed.waiting('one', 3);
    await held.open();
    await until('all are through', () => results.length === 4);
    for (const { payload } of results) order.push(payload);
    assert.deepEqual(order, ['first', 'high', 'middle', 'low']);
  });

  test('starts the time limit of a request: a message that waits too long gets 408', async () => {
    const { answer: first } = await bed.begin('/one');
    const errors = red.inputs('error /one');
    red.send('one', { payload: 'late', timeout: 50 });
    const error = await until('it has run out of time', () => errors[0]);
    assert.deepEqual(
      [error.error?.code, error['statusCode'], error.error?.source.id],
      ['deadline_exceeded', 408, 'one'],
    );
    assert.equal((error.modelet as { input?: unknown } | undefined)?.input, 'late');
    assert.equal((await red.gate('one')).decisions.expired, 1);
    await held.open();
    assert.equal((await first).status, 200);
  });

  test('a client that goes away leaves the gate, and is counted', async () => {
    const { answer: first } = await bed.begin('/one');
    const client = open('/one', { number: 2 });
    await bed.waiting('one', 1);
    const before = (await red.snapshot()).runtimes[0]?.requests['cancelled'] ?? 0;
    client.destroy();
    await bed.waiting('one', 0);
    assert.equal((await red.gate('one')).decisions.cancelled, 1);
    assert.equal((await red.snapshot()).runtimes[0]?.requests['cancelled'], before + 1);
    await held.open();
    assert.equal((await first).status, 200);
    assert.deepEqual(await held.entered(), [{ number: 1 }]);
  });
});

describe('a gate that refuses a message', () => {
  test('answers 429 with Retry-After by its own output', async () => {
    const { answer: first } = await bed.begin('/strict');
    const second = await red.post('/strict', { number: 2 });
    assert.equal(second.headers.get('Retry-After'), '3');
    await assertError(second, 429, 'gate_refused');
    await held.open();
    assert.equal((await first).status, 200);
    const { decisions } = await red.gate('strict');
    assert.deepEqual([decisions.admitted, decisions.refused_closed], [1, 1]);
  });

  test('answers a client directly if nothing handles the error', async () => {
    const [first, second] = await bed.beginTwo('/small', 'small');
    await assertError(await red.post('/small', { number: 3 }), 429, 'gate_refused');
    await held.open();
    assert.deepEqual([(await first).status, (await second).status], [200, 200]);
    assert.equal((await red.gate('small')).decisions.refused_full, 1);
  });

  test('sends the error to Catch nodes if it has no wired output and no collector is behind it', async () => {
    const caught = red.inputs('catch sink');
    red.send('caught', { payload: 1, timeout: 20 });
    const { error } = await until('it is caught', () => caught[0]);
    assert.deepEqual([error?.code, error?.source.id], ['deadline_exceeded', 'caught']);
  });
});

describe('orders to a gate', () => {
  test('close keeps it closed, open admits everything, and auto follows the budget again', async () => {
    const results = red.inputs('loop sink');
    red.send('looped', { gate: 'close' });
    assert.match((await red.gate('looped')).why, /^closed: by a message/);
    red.send('looped', { payload: 4 });
    await bed.waiting('looped', 1);
    red.send('looped', { gate: 'auto' });
    await until('it is through', () => results.length === 1);
    red.send('looped', { gate: 'open' });
    assert.equal((await red.gate('looped')).control, 'open');
    red.send('looped', { gate: 'auto' });
    assert.equal((await red.gate('looped')).control, 'auto');
  });

  test('drop answers waiting messages with 503, and flush admits them', async () => {
    const [first, dropped] = await bed.beginTwo('/one', 'one');
    red.send('one', { gate: 'drop' });
    await assertError(await dropped, 503, 'dropped');
    const flushed = red.post('/one', { number: 3 });
    await bed.waiting('one', 1);
    red.send('one', { gate: 'flush' });
    await bed.waiting('one', 0);
    assert.equal((await red.gate('one')).inFlight, 2);
    await held.open();
    assert.deepEqual([(await first).status, (await flushed).status], [200, 200]);
  });

  test('a message with an unknown order gets an error', async () => {
    const errors = red.inputs('error /one');
    red.send('one', { gate: 'ajar', payload: 1 });
    const { error } = await until('it is an error', () => errors[0]);
    assert.equal(error?.code, 'invalid_input');
    assert.match(error?.message ?? '', /open, close, auto, flush, drop/);
  });
});
