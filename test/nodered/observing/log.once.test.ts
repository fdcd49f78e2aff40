/** The lines about a pipeline in Node-RED's log, and the records that custom log handlers get. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { catchNode, endpoint, func, httpIn, httpOut, runtime, sink, stage, TAB } from '../../fixtures/flow.ts';
import { useGate } from '../../fixtures/gate.ts';
import { engineUrl, type FlowNode, useNodeRed } from '../../fixtures/node-red.ts';
import { until } from '../../fixtures/polling.ts';

/** As a log handler in Node-RED's settings gets it. */
interface Entry {
  readonly level: number;
  readonly msg: unknown;
  readonly type?: string;
  readonly id?: string;
  readonly name?: string;
  readonly [field: string]: unknown;
}

const [ERROR, WARN, INFO, DEBUG] = [20, 30, 40, 50] as const;
const REQUESTS = 10_000;

let entries: Entry[] = [];
const nodeRed = useNodeRed({
  settings: {
    logging: { custom: { level: 'trace', handler: () => keep } },
  },
});
const gate = useGate();

/** Keeps a copy with the message that the console writes: the debug sidebar encodes that of the entry itself. */
function keep(entry: Entry): void {
  entries.push({ ...entry, msg: String(entry.msg) });
}

/** Those that the pipeline has written, so far and from now on. */
function ours(): Entry[] {
  return entries.filter(({ type }) => type === 'modelet');
}

/** As Node-RED's console shows it. */
function shown({ type, name, id, msg }: Entry): string {
  return `[${type}:${name || id}] ${msg}`;
}

async function logged(message: RegExp): Promise<Entry> {
  return until(`the log has ${message}`, () => ours().find((entry) => message.test(shown(entry))));
}

async function deploy(nodes: readonly FlowNode[], properties: Record<string, unknown> = {}): Promise<void> {
  entries = [];
  await nodeRed.deployReady([TAB, runtime('runtime', { name: 'main', ...properties }), ...nodes]);
}

describe('log: events', () => {
  test('a start logs a line per process and a line for the deploy, with fields for programs', async () => {
    await deploy([...endpoint('/log', 'one'), stage('one', 'return input;', 'collector /log')]);
    const engine = await logged(/^\[modelet:main\] engine ready, pid \d+$/);
    const worker = await logged(/^\[modelet:main\/one\/worker 0\] ready, pid \d+/);
    const deployed = await logged(/^\[modelet:main\] deployed: stages 1, routes 1$/);
    const { engine: running, stages } = (await nodeRed.snapshot()).runtimes[0] ?? {};
    assert.deepEqual(
      [engine.level, engine['pid'], engine['runtime'], engine.id],
      [INFO, running?.pid, 'main', 'runtime'],
    );
    assert.deepEqual([worker.level, worker['stage'], worker['worker']], [INFO, 'one', 0]);
    assert.match(String(worker.msg), new RegExp(`pid ${stages?.[0]?.workers[0]?.pid}\\b`));
    assert.deepEqual([deployed.level, deployed['stages'], deployed['routes'], deployed['kept']], [INFO, 1, 1, 0]);
    assert.equal(ours().filter(({ level }) => level <= INFO).length, 3);
  });

  test('a deploy that changes nothing logs one line, which says that the workers were kept', async () => {
    await deploy([...endpoint('/log', 'one'), stage('one', 'return input;', 'collector /log')]);
    const deployed = await logged(/deployed: stages 1, routes 1; 1 of the stages kept their workers$/);
    assert.equal(deployed['kept'], 1);
    assert.equal(ours().filter(({ level }) => level <= INFO).length, 1);
  });

  test('the log has the deaths of a worker and of the engine as errors with their cause, and then their successors', async () => {
    const { engine, stages } = (await nodeRed.snapshot()).runtimes[0] ?? {};
    entries = [];
    process.kill(stages?.[0]?.workers[0]?.pid as number, 'SIGKILL');
    assert.equal((await logged(/^\[modelet:main\/one\/worker 0\] died: .*SIGKILL/)).level, ERROR);
    await logged(/worker 0\] ready, pid \d+/);
    process.kill(engine?.pid as number, 'SIGKILL');
    const death = await logged(/^\[modelet:main\] engine died: .*SIGKILL/);
    assert.equal(death.level, ERROR);
    assert.match(String(death['cause']), /SIGKILL/);
    const again = await logged(/engine ready, pid \d+, restart 1$/);
    assert.equal(again['restarts'], 1);
    const since = (entry: Entry): Entry[] => ours().slice(ours().indexOf(entry));
    await until('its worker is told', () =>
      since(again).find((entry) => /worker 0\] ready, pid \d+/.test(shown(entry))),
    );
  });
});

describe('log: requests', () => {
  test(`${REQUESTS} answered requests add no line at info`, async () => {
    await deploy([stage('counted', 'return input + 1;', 'sink'), sink('sink')]);
    await logged(/counted\/worker 0\] ready, pid \d+/);
    const results = nodeRed.inputs('sink');
    entries = [];
    for (let number = 0; number < REQUESTS; number += 1) nodeRed.send('counted', { payload: number });
    await until('all are answered', () => results.length === REQUESTS);
    assert.deepEqual(
      entries.filter(({ level }) => level <= INFO),
      [],
    );
  });

  test('the log has an error of a stage at level debug, with the code, the stage and the request', async () => {
    const code = `throw Object.assign(new Error('no such digit'), { code: 'invalid_input' });`;
    const flow = [...endpoint('/log', 'one'), stage('one', code, 'collector /log')];
    await deploy(flow);
    await nodeRed.post('/log', {});
    assert.deepEqual(
      ours().filter(({ msg }) => /no such digit/.test(String(msg))),
      [],
    );

    await deploy(flow, { logLevel: 'debug' });
    const { error } = (await (await nodeRed.post('/log', {})).json()) as { error: { requestId: string } };
    const entry = await logged(/^\[modelet:main\/one\] invalid_input: no such digit$/);
    assert.equal(entry.level, DEBUG);
    assert.deepEqual([entry['code'], entry['stage'], entry['requestId']], ['invalid_input', 'one', error.requestId]);
  });

  test('the same at the engine\u2019s own listener, with the refused requests, and as an error if nothing handles it', async () => {
    const code = `if (input.fail) throw new Error('broken'); return input;`;
    const flow = [httpIn('in', '/log', 'one'), stage('one', code, 'out'), httpOut('out')];
    const ask = async (id: string, body: string): Promise<number> => {
      const headers = { 'Content-Type': 'application/json', 'X-Request-Id': id };
      return (await fetch(`${await engineUrl(nodeRed)}/log`, { method: 'POST', headers, body })).status;
    };
    const of = (id: string): unknown[] =>
      ours()
        .filter(({ requestId }) => requestId === id)
        .map(({ level, msg, code, stage }) => [level, msg, code, stage]);
    const broken = ['modelet_failed: broken (Predict:1:23)', 'modelet_failed', 'one'];

    await deploy(flow, { listen: '127.0.0.1:0' });
    assert.equal(await ask('at-info', '{"fail": true}'), 500);
    await until('the failure is logged', () => of('at-info').length > 0);
    assert.deepEqual(of('at-info'), [[ERROR, ...broken]]);

    await deploy(flow, { listen: '127.0.0.1:0', logLevel: 'debug' });
    assert.equal(await ask('at-debug', '{"fail": true}'), 500);
    await until('the failure is logged', () => of('at-debug').length > 1);
    assert.deepEqual(of('at-debug'), [
      [DEBUG, 'modelet_failed: broken', 'modelet_failed', 'one'],
      [ERROR, ...broken],
    ]);
    const headers = { 'Content-Type': 'image/png', 'X-Request-Id': 'of-a-picture' };
    const url = `${await engineUrl(nodeRed)}/log`;
    assert.equal((await fetch(url, { method: 'POST', headers, body: 'x' })).status, 415);
    await until('the refusal is logged', () => of('of-a-picture').length > 0);
    const [[level, , refusal] = []] = of('of-a-picture') as unknown[][];
    assert.deepEqual([level, refusal], [DEBUG, 'unsupported_media']);
  });

  describe('300 requests that fail', () => {
    const FAILING = 300;
    const code = `throw Object.assign(new Error('bad: ' + 'x'.repeat(16000)), { code: 'invalid_input' });`;

    /** Resolves with the entries of the stage, or of no node: a sum of an earlier stage may come meanwhile. */
    async function post(name: string, ...catchers: readonly FlowNode[]): Promise<Entry[]> {
      const flow = [httpIn('in', '/log', name), stage(name, code, 'out'), httpOut('out'), ...catchers];
      await deploy(flow);
      entries = [];
      for (let round = 0; round < FAILING; round += 50) {
        const answers = await Promise.all(Array.from({ length: 50 }, () => nodeRed.post('/log', {})));
        for (const { status } of answers) assert.equal(status, 422);
      }
      return entries.filter(({ level, id = name }) => level <= INFO && id === name);
    }

    test('are logged in full at first and then as a sum, if no node catches them', async () => {
      const told = await post('one');
      const whole = told.filter(({ msg }) => String(msg).startsWith('invalid_input: bad: xxx'));
      assert.ok(whole.length >= 1 && whole.length <= 10, `${whole.length} lines`);
      assert.deepEqual(
        told.filter((entry) => !whole.includes(entry) && !/more requests? failed/.test(String(entry.msg))),
        [],
      );
      const bytes = told.reduce((sum, { msg }) => sum + String(msg).length, 0);
      assert.ok(bytes < FAILING * 1000, `${bytes} bytes`);
      const summary = await until('the others are summed up', () =>
        entries.find(({ msg }) => /^\d+ more requests failed in 10 s: invalid_input \d+$/.test(String(msg))),
      );
      assert.equal(summary.level, ERROR);
      assert.equal(summary.id, 'one');
    });

    test('reach Catch nodes one by one, and do not reach the log', async () => {
      const told = await post(
        'caught one by one',
        catchNode('catch', 'count'),
        func('count', 'global.set("caught", (global.get("caught") || 0) + 1); return msg;', 'answer'),
        httpOut('answer'),
        httpIn('in caught', '/caught', 'caught'),
        func('caught', 'msg.payload = { caught: global.get("caught") }; return msg;', 'out caught'),
        httpOut('out caught'),
      );
      assert.deepEqual(told, []);
      assert.deepEqual(await (await nodeRed.post('/caught', {})).json(), { caught: FAILING });
    });
  });

  test('many refusals cause one warning and no errors', async () => {
    await deploy(
      [
        ...endpoint('/log', 'one').filter(({ type }) => type !== 'modelet-collector'),
        stage('one', gate.code(), 'out /log', { capacity: 1 }),
      ],
      { capacity: 4 },
    );
    const posts = Array.from({ length: 40 }, () => nodeRed.post('/log', {}));
    await until('all but some are refused', async () => {
      const requests = (await nodeRed.snapshot()).runtimes[0]?.requests;
      return (requests?.['capacity_exceeded'] ?? 0) >= 30;
    });
    await gate.open();
    const statuses = await Promise.all(posts.map(async (post) => (await post).status));
    const refused = statuses.filter((status) => status === 429).length;
    assert.ok(refused >= 30, `${refused} of 40 were refused`);
    // A runtime that closes does not wait for the interval to end.
    await nodeRed.deploy([TAB]);
    const summary = await logged(/refused or dropped \d+ requests in \d+ s: capacity_exceeded \d+$/);
    assert.equal(summary.level, WARN);
    assert.deepEqual(summary['codes'], { capacity_exceeded: refused });
    // The sums of failures in the tests before may come only now.
    assert.deepEqual(
      entries.filter(({ level, msg }) => level <= ERROR && /capacity|refused|dropped/.test(String(msg))),
      [],
    );
  });
});

describe('log: text of users', () => {
  test('can neither begin a new line nor control the terminal', async () => {
    const hostile = 'a\\n21 Nov 12:00:00 - [error] forged\\r\\u001b[2J\\u2028b';
    const name = JSON.parse(`"${hostile}"`) as string;
    const code = `console.log('${hostile}'); node.warn('${hostile}'); throw new Error('${hostile}');`;
    await deploy([stage('one', code, 'sink', { name }), sink('sink')], { name, logLevel: 'debug' });
    nodeRed.send('one', { payload: 1 });
    await until('the error is in the log', () => entries.find(({ msg }) => /modelet_failed: a\\n/.test(String(msg))));
    const warning = await until('the warning is there', () =>
      ours().find(({ level, msg }) => level === WARN && /forged/.test(`${msg}`)),
    );
    // The debug sidebar shows it as a warning of the stage.
    assert.deepEqual([warning.id, warning['z'], warning['path']], ['one', TAB.id, TAB.id]);
    const forged = entries.filter((entry) => /forged/.test(shown(entry)));
    assert.ok(forged.length >= 4, `${forged.length} lines`);
    for (const entry of ours()) assert.doesNotMatch(shown(entry), /[\p{Cc}\u2028\u2029]/u);
  });
});
