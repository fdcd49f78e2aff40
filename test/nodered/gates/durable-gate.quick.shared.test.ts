/** A durable gate in a flow: what is stored comes out as its budget allows, ends once, and can be asked for. */
import assert from 'node:assert/strict';
import { existsSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { CALLERS, read, TYPES, write } from '../../fixtures/callers.ts';
import {
  collector,
  dispatchGate,
  func,
  httpIn,
  httpOut,
  node,
  runtime,
  sink,
  stage,
  TAB,
} from '../../fixtures/flow.ts';
import { Gate } from '../../fixtures/gate.ts';
import { type FlowNode, type Message, useNodeRed } from '../../fixtures/node-red.ts';
import { until } from '../../fixtures/polling.ts';
import { NO_SQLITE } from '../../store/bed.ts';

const DURABLE = { store: 'durable', maxAttempts: 2 };

const held = new Gate();

function httpGet(id: string, url: string, method: string, to: string): FlowNode {
  return node(id, 'http in', [to], { url, method, upload: false, swaggerDoc: '' });
}

function flows(): FlowNode[] {
  return [
    TAB,
    runtime(),
    dispatchGate('one', 'work', 'one errors', DURABLE),
    stage('work', held.code(), 'worked'),
    collector('worked', 'results', 'failures'),
    sink('results'),
    sink('failures'),
    sink('one errors'),
    // Fails as it is told.
    dispatchGate('fragile', 'breaks', 'fragile errors', { ...DURABLE, maxSys: '4' }),
    stage(
      'breaks',
      "if (input === 'exit') process.exit(3); if (input === 'throw') throw new Error('told to'); return input;",
      'broken',
    ),
    collector('broken', 'broken results', 'broken failures'),
    sink('broken results'),
    sink('broken failures'),
    sink('fragile errors'),
    // Asked over HTTP.
    httpIn('post', '/jobs', 'jobs'),
    httpGet('get', '/jobs/:id', 'get', 'ask'),
    func('ask', "msg.gate = 'status'; msg.jobId = msg.req.params.id; return msg;", 'jobs'),
    httpGet('delete', '/jobs/:id', 'delete', 'cancel'),
    func('cancel', "msg.gate = 'cancel'; msg.jobId = msg.req.params.id; return msg;", 'jobs'),
    dispatchGate('jobs', 'job', 'answers', { ...DURABLE, capacity: 2 }),
    httpOut('answers'),
    stage('job', held.code('{ doubled: input.n * 2 }'), 'job done'),
    collector('job done', []),
    // What cannot be stored is left out, and cannot be cloned for the second wire of the receipt either.
    httpIn('odd in', '/odd', 'add a handle'),
    func('add a handle', "msg.handle = { get broken() { throw new Error('no'); } }; return msg;", 'odd'),
    dispatchGate('odd', 'job', ['answers', 'one errors'], DURABLE),
  ];
}

describe('a durable gate', { skip: NO_SQLITE }, () => {
  const red = useNodeRed({ flows: flows() });
  after(() => held.remove());

  function badgeText(id: string, pattern: RegExp): string | false {
    const text = red.badges.get(id)?.text ?? '';
    return pattern.test(text) && text;
  }

  test('admits stored messages as its budget allows, with their fields, and forgets them when they have arrived', async () => {
    const results = red.inputs('results');
    for (const n of [1, 2, 3]) red.send('one', { payload: n, topic: 'numbers', when: new Date(n) });
    await until('all are stored', async () => {
      const { waiting, inFlight } = await red.gate('one');
      return waiting === 2 && inFlight === 1;
    });
    await held.open();
    await until('all are through', () => results.length === 3);
    assert.deepEqual(
      results.map(({ payload }) => payload),
      [1, 2, 3],
    );
    const [first] = results as [Message & { when: Date; jobId: string; modelet: { job: object; gateMs: number } }];
    assert.deepEqual([first.topic, first.when], ['numbers', new Date(1)]);
    assert.deepEqual(first.modelet.job, { id: first.jobId, attempt: 1 });
    const gate = await until('nothing is left', async () => {
      const { store, waiting, inFlight } = await red.gate('one');
      return store?.running === 0 && waiting === 0 && inFlight === 0 && (await red.gate('one'));
    });
    assert.equal(gate.decisions.admitted_late, 3);
    const file = join(red.userDir, 'modelets', 'one.sqlite');
    assert.equal(gate.store?.file, file);
    assert.equal(statSync(file).mode & 0o777, 0o600);
  });

  test('retries a failed message, then shows it as a dead letter that can be retried', async () => {
    const failures = red.inputs('broken failures');
    const results = red.inputs('broken results');
    red.send('fragile', { payload: 'throw', jobId: 'bad' });
    red.send('fragile', { payload: 'fine', jobId: 'good' });
    await until('the good one is through', () => results.length === 1);
    const { store } = await until('the bad one is dead', async () => {
      const gate = await red.gate('fragile');
      return gate.store?.dead === 1 && gate;
    });
    assert.deepEqual(
      store?.deadLetters.map(({ id, attempts }) => [id, attempts]),
      [['bad', 2]],
    );
    assert.match(store?.deadLetters[0]?.reason ?? '', /modelet_failed: .*told to/);
    assert.equal(failures.length, 2, 'each failure goes to its handler as any other');
    assert.match((await until('the badge says so', () => badgeText('fragile', /, 1 dead$/))) ?? '', /1 dead/);
    const response = await red.post('/admin/modelets/gates/fragile/redrive', {});
    assert.deepEqual([response.status, await response.json()], [200, { redriven: 1 }]);
    await until('it is dead again', async () => (await red.gate('fragile')).store?.dead === 1 && failures.length === 4);
  });

  test('runs a message that kills its worker alone, and makes it a dead letter', async () => {
    const results = red.inputs('broken results');
    for (let n = 0; n < 12; n += 1) red.send('fragile', { payload: n === 5 ? 'exit' : n, jobId: `n${n}` });
    await until('all others are through', () => results.length === 11);
    const { store } = await until('it is dead', async () => {
      const gate = await red.gate('fragile');
      return gate.store?.dead === 2 && gate;
    });
    assert.deepEqual(store?.deadLetters.map(({ id }) => id).sort(), ['bad', 'n5']);
    assert.equal(new Set(results.map(({ jobId }) => jobId)).size, 11);
  });

  test('answers HTTP clients 202 with an address that says pending, running, the result, or cancelled', async () => {
    await held.close();
    const posted = await red.post('/jobs?now=1', { n: 21 });
    assert.equal(posted.status, 202);
    const { id } = (await posted.json()) as { id: string };
    assert.equal(posted.headers.get('location'), `/jobs/${id}`);
    const ask = async (which: string): Promise<[number, Record<string, unknown>]> => {
      const response = await fetch(`${red.url}/jobs/${which}`);
      return [response.status, (await response.json()) as Record<string, unknown>];
    };
    await until('it runs', async () => (await ask(id))[1]['state'] === 'running');
    const second = ((await (await red.post('/jobs', { n: 2 })).json()) as { id: string }).id;
    assert.deepEqual(await ask(second), [202, { id: second, state: 'pending', attempts: 0 }]);
    const remove = (which: string): Promise<Response> => fetch(`${red.url}/jobs/${which}`, { method: 'DELETE' });
    assert.equal((await remove(id)).status, 409, 'it runs');
    assert.equal((await remove(second)).status, 200);
    assert.deepEqual(await ask(second), [410, { id: second, state: 'cancelled' }]);
    await held.open();
    await until('it is done', async () => (await ask(id))[0] === 200);
    assert.deepEqual(await ask(id), [200, { id, state: 'done', result: { doubled: 42 } }]);
    assert.equal((await ask('nobody'))[0], 404);
    assert.equal((await ask('%20'))[0], 422);
  });

  test('answers 202 also if the receipt cannot be cloned for its second wire', async () => {
    const posted = await red.post('/odd', { n: 1 }, { signal: AbortSignal.timeout(20_000) });
    assert.equal(posted.status, 202);
    const { id } = (await posted.json()) as { id: string };
    assert.equal(posted.headers.get('location'), `/odd/${id}`);
  });

  test('a full store answers 429', async () => {
    await held.close();
    const { id } = (await (await red.post('/jobs', { n: 1 })).json()) as { id: string };
    await until('it runs', async () => (await fetch(`${red.url}/jobs/${id}`).then(textOf)).includes('running'));
    const statuses: number[] = [];
    for (const n of [2, 3, 4]) statuses.push((await red.post('/jobs', { n })).status);
    assert.deepEqual(statuses, [202, 202, 429]);
    await held.open();
    await until('all are done', async () => (await red.gate('jobs')).decisions.admitted_late === 4);
  });

  test('stores a msgpack body as its value, and returns it in the requested form', async () => {
    await held.open();
    const headers = { 'Content-Type': TYPES.msgpack };
    const posted = await CALLERS.fetch(
      `${red.url}/jobs`,
      headers,
      write('msgpack', { n: 4, unused: Buffer.from([0xff]) }),
    );
    assert.equal(posted.status, 202);
    const { id } = read('msgpack', posted.bytes) as { id: string };
    const asking = { Accept: TYPES.msgpack };
    const done = await until('it is done', async () => {
      const answer = await CALLERS.fetch(`${red.url}/jobs/${id}`, asking, Buffer.alloc(0), 'GET');
      return answer.status === 200 && answer;
    });
    assert.deepEqual(read('msgpack', done.bytes), { id, state: 'done', result: { doubled: 8 } });
    const malformed = await CALLERS.fetch(`${red.url}/jobs`, headers, Buffer.from([0xc1]));
    assert.equal(malformed.status, 400);
  });

  test('does not store an item with a known id again', async () => {
    const results = red.inputs('results');
    for (const n of [1, 2]) red.send('one', { payload: n, jobId: 'only one' });
    for (const n of [3, 4]) red.send('one', { payload: n, jobId: 'only-one' });
    red.send('one', { payload: 5 });
    await until('the last is through', () => results.some(({ payload }) => payload === 5));
    assert.deepEqual(
      results.map(({ payload }) => payload),
      [3, 5],
      'and an invalid id is refused',
    );
  });

  test('cannot be used without a result collector behind it, and says so', async () => {
    await red.deploy([...flows(), dispatchGate('lost', 'one errors', [], DURABLE)], 'flows');
    assert.match((await red.snapshot()).invalid['lost'] ?? '', /collector/);
    assert.equal(existsSync(join(red.userDir, 'modelets', 'lost.sqlite')), false);
  });

  test('keeps waiting and running items over deploys, and a restored gate finds its items', async () => {
    await held.close();
    for (const n of [1, 2, 3]) red.send('one', { payload: n, jobId: `kept-${n}` });
    await until('the first runs', async () => (await held.entered()).length === 1);
    await red.deploy(flows());
    await until('two wait and one runs', async () => {
      const { waiting, inFlight, store } = await red.gate('one');
      return waiting === 2 && inFlight === 1 && store?.restarts === 0;
    });
    // Everything but the gate stays.
    await red.deploy(flows().filter(({ id }) => id !== 'one'));
    assert.equal(
      (await red.snapshot()).gates.some(({ id }) => id === 'one'),
      false,
    );
    await red.deploy(flows());
    const results = red.inputs('results');
    await held.open();
    // The first came again: it was given back, and has ended all the same.
    await until('all three are through', () => new Set(results.map(({ payload }) => payload)).size === 3);
  });

  test('answers 503 while its file cannot be used, and the badge, the log and a metric name the file and the reason', async () => {
    const file = join(red.userDir, 'modelets', 'damaged.sqlite');
    writeFileSync(file, 'this is no database '.repeat(100));
    await red.deploy([
      ...flows(),
      httpIn('damaged in', '/damaged', 'damaged'),
      dispatchGate('damaged', 'work', 'damaged out', DURABLE),
      httpOut('damaged out'),
    ]);
    const answer = await until('it is known', async () => {
      const response = await red.post('/damaged', { n: 1 });
      return response.status === 503 && (await response.json());
    });
    const { error } = answer as { error: { code: string; message: string } };
    assert.equal(error.code, 'store_unavailable');
    assert.match(error.message, /store damaged\.sqlite is damaged/, 'clients hear of no folders');
    const gate = await red.gate('damaged');
    assert.ok(gate.store?.error?.includes(file), gate.store?.error ?? '');
    assert.match(red.logs.join('\n'), /2\d store .*damaged\.sqlite: it cannot be opened/);
    await until('the badge says so', () => badgeText('damaged', /^the store/));
    const metrics = await (await fetch(`${red.url}/admin/modelets/metrics`)).text();
    assert.match(metrics, /modelet_gate_store_available\{[^}]*gate="damaged"[^}]*\} 0/);
    assert.match(metrics, /modelet_gate_dead_letters\{[^}]*gate="fragile"[^}]*\} 2/);
  });
});

function textOf(response: Response): Promise<string> {
  return response.text();
}
