/** Stages on worker hosts: Node-RED, a real server and hosts in separate processes, which are killed. */
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { isAlive } from '../../fixtures/alive.ts';
import { arrived, numbers, payloads, sendAll, streamOut } from '../../fixtures/drawn.ts';
import { Scrape } from '../../fixtures/exposition.ts';
import { endpoint, httpOut, sink, stage } from '../../fixtures/flow.ts';
import { useGate } from '../../fixtures/gate.ts';
import { serveFlows, startHost } from '../../fixtures/headless.ts';
import { type FlowNode, type Message, pidsOf, useNodeRed } from '../../fixtures/node-red.ts';
import { until } from '../../fixtures/polling.ts';
import { WITHOUT_REDIS } from '../../fixtures/redis.ts';
import { REMOTE, SECRET, useRemoteBed } from '../../fixtures/remote.ts';
import { repositoryRoot } from '../../fixtures/repository.ts';

const red = useNodeRed();
const gate = useGate();

/** The process of the host that ran an item, by way of its engine. */
const ECHO = 'return { of: input, engine: process.ppid };';

/** A stage with keys that notes all items of a key, and a result of it. */
const KEYED = { ...REMOTE, keyBy: 'topic', retryLost: true, concurrency: '2' };
const NOTE = `ctx.state.all = [...(ctx.state.all ?? []), input];
  await new Promise((resolve) => setTimeout(resolve, 5));
  return { all: ctx.state.all, worker: process.pid, engine: process.ppid };`;
interface Noted {
  readonly all: readonly number[];
  readonly worker: number;
  readonly engine: number;
}

/** Returns the results of each key, in the order in which they came. */
function byKey(messages: readonly Message[]): Map<string, Noted[]> {
  const found = new Map<string, Noted[]>();
  for (const { topic, payload } of messages) {
    if (typeof topic === 'string') found.set(topic, [...(found.get(topic) ?? []), payload as Noted]);
  }
  return found;
}

/** The items that a key has had, in order; its state may have begun anew in between. */
function itemsOf(noted: readonly Noted[]): unknown[] {
  return noted.map(({ all }) => all.at(-1));
}

interface Line {
  readonly part?: { readonly n: number };
  readonly done?: null;
}

async function* linesOf(response: Response): AsyncGenerator<Line> {
  let text = '';
  for await (const chunk of response.body as ReadableStream<Uint8Array>) {
    // Its letters are one byte each.
    const lines = `${text}${Buffer.from(chunk).toString('latin1')}`.split('\n');
    text = lines.pop() ?? '';
    for (const line of lines) if (line !== '') yield JSON.parse(line) as Line;
  }
}

describe('a stage on worker hosts', { skip: WITHOUT_REDIS }, () => {
  const bed = useRemoteBed(red);

  test('bytes, parts, metrics and cancelled calls cross as on one machine', async (t) => {
    const notes = join(bed.folder, 'notes');
    writeFileSync(notes, '');
    const waits = `const note = (text) => require('node:fs').appendFileSync(${JSON.stringify(notes)}, text + ' ');
      note('began');
      await new Promise((resolve) => ctx.signal.addEventListener('abort', resolve));
      note('aborted');`;
    const counts = "ctx.metrics.counter('seen_total', 'Seen').inc(input); return input;";
    // Many parts of many sizes, but no more after the third until the test has read it.
    const parts = `const { existsSync } = require('node:fs');
      const turn = () => new Promise((resolve) => setTimeout(resolve, 5));
      return (async function* () {
        try {
          for (let n = 0; n < input.count; n += 1) {
            while (n === 3 && !existsSync(input.go)) await turn();
            yield { n, text: 'x'.repeat(n % 50 === 0 ? 300_000 : n) };
          }
        } finally { require('node:fs').appendFileSync(${JSON.stringify(notes)}, 'closed '); }
      })();`;
    const { out, failed } = await bed.deploy(
      stage('bytes', 'return input.map((n) => n + 1);', 'done', REMOTE),
      stage('counts', counts, 'done', REMOTE),
      ...endpoint('/waits', 'waits'),
      stage('waits', waits, 'answer', REMOTE),
      httpOut('answer'),
      ...endpoint('/parts', 'parts'),
      stage('parts', parts, 'streamed', REMOTE),
      streamOut('streamed', { format: 'jsonl' }),
    );
    const host = bed.host(t);
    for (const id of ['bytes', 'counts', 'waits', 'parts']) await bed.ready(id, 1);

    const sent = [new Float32Array(300_000).fill(0.5), Buffer.alloc(100_000, 7), new Float32Array([1, 2])];
    for (const payload of sent) red.send('bytes', { payload });
    const got = payloads(await arrived(out, 3)) as (Float32Array | Buffer)[];
    const wanted = sent.map((bytes) => bytes.map((n) => n + 1));
    assert.deepEqual(
      got.sort((a, b) => b.byteLength - a.byteLength),
      wanted,
    );
    await until('the server has none of them', async () => {
      const keys = (await bed.redis.run('KEYS', 'modelet:stage-bytes-*')) as string[];
      return !keys.some((key) => /:(batch|result):/.test(key));
    });

    const told = (): string[] => readFileSync(notes, 'utf8').split(' ').filter(Boolean);
    const leave = new AbortController();
    const gone = fetch(`${red.url}/waits`, { method: 'POST', signal: leave.signal }).catch(() => 'gone');
    await until('it runs', () => told().length === 1);
    leave.abort();
    assert.equal(await gone, 'gone');
    await until('the client’s call is aborted', () => told().length === 2);
    red.send('waits', { payload: 1, timeout: 300 });
    await until('the late call is aborted', () => told().length === 4);
    assert.deepEqual(told(), ['began', 'aborted', 'began', 'aborted']);

    const go = join(bed.folder, 'go');
    const response = await red.post('/parts', { count: 300, go });
    const lines: Line[] = [];
    for await (const line of linesOf(response)) {
      if (lines.push(line) === 3) writeFileSync(go, '');
    }
    assert.deepEqual(lines.pop(), { done: null });
    assert.deepEqual(
      lines.map(({ part }) => part?.n),
      numbers(300),
    );
    // A client that leaves in the middle of an endless answer.
    for await (const { part } of linesOf(await red.post('/parts', { count: 1e9, go }))) if (part?.n === 100) break;
    await until('the generator is closed', () => told().length === 6);
    assert.deepEqual(told().slice(4), ['closed', 'closed']);
    const [stream = ''] = (await bed.redis.run('KEYS', 'modelet:stage-parts-*:parts:*')) as string[];
    await until('the server has none of the parts', async () => (await bed.redis.run('XLEN', stream)) === 0);

    const seen = async (): Promise<number> => {
      const scrape = new Scrape(await (await fetch(`${red.url}/admin/modelets/metrics`)).text());
      return scrape.find('modelet_model_seen_total', { stage: 'counts' })[0]?.value ?? 0;
    };
    sendAll(red, 'counts', [1, 10]);
    await until('both are counted', async () => (await seen()) === 11);
    red.send('counts', { payload: 100 });
    await arrived(out, 6);
    host.child.kill('SIGTERM');
    await host.ended;
    await until('also what it counted last', async () => (await seen()) === 111);
    assert.deepEqual(
      failed.map(({ error }) => error?.code),
      [],
    );
  });

  test('spreads over hosts, and goes on when one is told to end, without a lost request', async (t) => {
    const { out, failed } = await bed.deploy(
      stage('spread', `await new Promise((done) => setTimeout(done, 20)); ${ECHO}`, 'done', REMOTE),
      stage('keyed', NOTE, 'keyed-out', KEYED),
      sink('keyed-out'),
    );
    const keyed = red.inputs('keyed-out');
    const [one] = [bed.host(t, '--workers', '2'), bed.host(t, '--workers', '2')];
    for (const id of ['spread', 'keyed']) await bed.ready(id, 4);
    const keys = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'];
    const sendKeyed = (items: readonly number[]): void => {
      for (const payload of items) for (const topic of keys) red.send('keyed', { topic, payload });
    };
    sendKeyed(numbers(5));
    await arrived(keyed, 40);
    for (const noted of byKey(keyed).values()) {
      assert.deepEqual(
        noted.map(({ all }) => all),
        numbers(5).map((n) => numbers(n + 1)),
      );
      assert.equal(new Set(noted.map(({ worker }) => worker)).size, 1, 'one worker has the key');
    }
    assert.equal(new Set((payloads(keyed) as Noted[]).map(({ engine }) => engine)).size, 2, 'both hosts have keys');
    assert.equal(new Set((payloads(keyed) as Noted[]).map(({ worker }) => worker)).size, 4, 'and all their workers');
    sendAll(red, 'spread', numbers(60));
    sendKeyed(numbers(10).slice(5));
    await arrived(out, 20);
    one?.child.kill('SIGTERM');
    const results = payloads(await arrived(out, 60)) as { of: number; engine: number }[];
    assert.deepEqual(
      results.map(({ of }) => of).sort((a, b) => a - b),
      numbers(60),
    );
    assert.equal(new Set(results.map(({ engine }) => engine)).size, 2);
    assert.equal(failed.length, 0);
    assert.equal(await one?.ended, 0);
    sendKeyed([10]);
    await arrived(keyed, 88);
    for (const [key, noted] of byKey(keyed)) assert.deepEqual(itemsOf(noted), numbers(11), `the order of ${key}`);
    const last = [...byKey(keyed).values()].map((noted) => noted.at(-1) as Noted);
    assert.equal(new Set(last.map(({ engine }) => engine)).size, 1, 'the other host has all keys');
    assert.equal(last.filter(({ all }) => all.length === 11).length, 4, 'and the states of those that it had');
    await until('the engine has reported the states that are lost', async () => {
      const { runtimes } = await red.snapshot();
      return runtimes.flatMap(({ stages }) => stages).find(({ id }) => id === 'keyed')?.keys?.lost === 4;
    });
  });

  test('a host that is killed costs its items at most, and with retryLost not even them', async (t) => {
    const { out, failed } = await bed.deploy(
      stage('killed', gate.code(), 'done', { ...REMOTE, retryLost: true }),
      stage('keyed-2', NOTE, 'keyed-out', { ...KEYED, keySnapshotMb: '8' }),
      sink('keyed-out'),
    );
    const keyed = red.inputs('keyed-out');
    const one = bed.host(t);
    for (const id of ['killed', 'keyed-2']) await bed.ready(id, 1);
    for (const topic of ['a', 'b', 'c']) red.send('keyed-2', { topic, payload: 0 });
    await arrived(keyed, 3);
    sendAll(red, 'killed', [1, 2, 3]);
    await until('the first runs', async () => (await gate.entered()).length > 0);
    // Before the first is killed: requests wait only some seconds for a host, and a slow machine starts none in that time.
    bed.host(t);
    for (const id of ['killed', 'keyed-2']) await bed.ready(id, 2);
    for (const payload of [1, 2, 3]) for (const topic of ['a', 'b', 'c']) red.send('keyed-2', { topic, payload });
    one.child.kill('SIGKILL');
    await one.ended;
    await gate.open();
    assert.deepEqual((payloads(await arrived(out, 3)) as number[]).sort(), [1, 2, 3]);
    await arrived(keyed, 12);
    for (const noted of byKey(keyed).values()) {
      assert.deepEqual(
        noted.map(({ all }) => all),
        [[0], [0, 1], [0, 1, 2], [0, 1, 2, 3]],
        'in order, and each with the states before',
      );
      assert.equal(new Set(noted.map(({ engine }) => engine)).size, 2);
    }
    assert.equal(failed.length, 0);
  });

  test('a changed stage is served by its old code until a host has the new one, and loses nothing', async (t) => {
    const draw = (version: number): FlowNode[] => [
      ...endpoint('/remote', 'changed'),
      stage('changed', `return { version: ${version}, of: input.n };`, 'answer', REMOTE),
      httpOut('answer'),
    ];
    await bed.deploy(...draw(1));
    bed.host(t);
    await bed.ready('changed', 1);
    const seen: number[] = [];
    let n = 0;
    const ask = async (): Promise<number> => {
      n += 1;
      const response = await red.post('/remote', { n });
      assert.equal(response.status, 200);
      const { version, of } = (await response.json()) as { version: number; of: number };
      assert.equal(of, n);
      seen.push(version);
      return version;
    };
    assert.equal(await ask(), 1);
    await red.deploy(bed.flows(...draw(2)));
    await until('the new code answers', async () => (await ask()) === 2);
    assert.deepEqual(
      [...seen].sort((a, b) => a - b),
      seen,
      'no answer of the old code after one of the new',
    );
  });

  test('runs a file that only Node-RED has, and no file that is not signed with its secret', async (t) => {
    const file = join(bed.folder, 'modelet.mjs');
    writeFileSync(file, "export default (input) => 'file ' + input;");
    const { out } = await bed.deploy(stage('filed', '', 'done', { ...REMOTE, source: 'file', path: file }));
    const other = join(bed.folder, 'other');
    writeFileSync(other, 'another');
    const stranger = startHost(t, '--broker', bed.redis.url, '--runtime', 'remote', '--secret-file', other);
    await until('it declines', () => stranger.log().some(({ message }) => /is not signed/.test(String(message))));
    await until('the badge says why', () => /^does not start: .*not signed/.test(red.badges.get('filed')?.text ?? ''));
    bed.host(t);
    await bed.ready('filed', 1);
    red.send('filed', { payload: 'x' });
    assert.deepEqual(payloads(await arrived(out, 1)), ['file x']);
    assert.match(readFileSync(file, 'utf8'), /export default/);
  });

  test('waits for a host, then refuses with a time to come back, and goes on when one comes', async (t) => {
    const { out, failed } = await bed.deploy(stage('awaited', 'return input;', 'done', REMOTE));
    red.send('awaited', { payload: 'early' });
    const [refused] = await arrived(failed, 1);
    assert.equal(refused?.error?.code, 'stage_unavailable');
    assert.match(String(refused?.error?.message), /no worker host serves the runtime remote/);
    await until('the badge says it', () => /^no worker host serves/.test(red.badges.get('awaited')?.text ?? ''));
    bed.host(t);
    await bed.ready('awaited', 1);
    red.send('awaited', { payload: 'late' });
    assert.deepEqual(payloads(await arrived(out, 1)), ['late']);
  });

  test('while the server is away, requests wait or are refused with a time to come back, and then all goes on', async (t) => {
    const { out, failed } = await bed.deploy(stage('outage', 'return input;', 'done', { ...REMOTE, retryLost: true }));
    bed.host(t);
    await bed.ready('outage', 1);
    sendAll(red, 'outage', [1]);
    await arrived(out, 1);
    await bed.redis.kill();
    sendAll(red, 'outage', [2, 3]);
    await until('the badge says it', () => red.badges.get('outage')?.text?.includes('the broker is unreachable'));
    await until('they are refused', () => failed.length === 2);
    for (const { error } of failed) assert.equal(error?.code, 'stage_unavailable');
    bed.redis.restart();
    await bed.ready('outage', 1);
    sendAll(red, 'outage', [4]);
    assert.deepEqual(payloads(await arrived(out, 2)), [1, 4]);
  });

  test('an engine that is killed answers its requests, and its successor goes on with the same hosts', async (t) => {
    const { out, failed } = await bed.deploy(stage('lost', gate.code(), 'done', REMOTE));
    const host = bed.host(t);
    await bed.ready('lost', 1);
    red.send('lost', { payload: 'before' });
    await until('it runs', async () => (await gate.entered()).length > 0);
    const [engine = 0] = pidsOf(await red.snapshot());
    process.kill(engine, 'SIGKILL');
    assert.equal((await arrived(failed, 1))[0]?.error?.code, 'engine_lost');
    const workers = host.log().flatMap(({ message }) => /^ready, pid (\d+)/.exec(String(message))?.[1] ?? []);
    assert.deepEqual(
      workers.map(Number).filter(isAlive).length,
      1,
      'the host’s worker, which may be of another machine',
    );
    await gate.open();
    await until('another engine runs', async () =>
      (await red.snapshot()).runtimes.every(({ engine }) => engine.state === 'ready'),
    );
    await bed.ready('lost', 1);
    red.send('lost', { payload: 'after' });
    assert.deepEqual(payloads(await arrived(out, 1)), ['after']);
  });

  test('a batch whose host and engine both died leaves the server, although nothing is asked any more', async (t) => {
    const { failed } = await bed.deploy(stage('orphaned', gate.code(), 'done', REMOTE));
    const host = bed.host(t);
    await bed.ready('orphaned', 1);
    red.send('orphaned', { payload: 'alone' });
    await until('it runs', async () => (await gate.entered()).length > 0);
    const keys = async (pattern: string): Promise<string[]> => (await bed.redis.run('KEYS', pattern)) as string[];
    assert.equal((await keys('modelet:stage-*:active')).length, 1);
    const [engine = 0] = pidsOf(await red.snapshot());
    host.child.kill('SIGKILL');
    process.kill(engine, 'SIGKILL');
    assert.equal((await arrived(failed, 1))[0]?.error?.code, 'engine_lost');
    // Its lease ends now instead of in ten seconds.
    for (const lock of await keys('modelet:stage-*:lock')) await bed.redis.run('DEL', lock);
    await until('the server holds no batch', async () => (await keys('modelet:stage-*:active')).length === 0);
    await gate.open();
  });

  test('hosts serve the stages of a flow that runs without Node-RED, too', async (t) => {
    process.env['MODELET_BROKER_SECRET'] = SECRET;
    t.after(() => {
      delete process.env['MODELET_BROKER_SECRET'];
    });
    const file = join(bed.folder, 'headless.json');
    const nodes = [...endpoint('/away', 'away'), stage('away', ECHO, 'answer', REMOTE), httpOut('answer')];
    writeFileSync(file, JSON.stringify(bed.flows(...nodes).map(({ credentials: _, ...node }) => node)));
    const host = bed.host(t);
    const { url } = await serveFlows(t, file);
    const ask = async (): Promise<Response> =>
      fetch(`${url}/away`, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: '21' });
    // A request waits for the host. On a slow machine its time may be over before the host runs.
    const answer = await until('a host answers', async () => {
      const response = await ask();
      return response.ok && response;
    });
    const { of, engine } = (await answer.json()) as { of: number; engine: number };
    assert.equal(of, 21);
    assert.ok(host.log().some(({ message }) => message === `engine ready, pid ${engine}`));
  });

  test('the example runs on two hosts', async (t) => {
    const title = 'Quick start over two worker hosts';
    const text = readFileSync(join(repositoryRoot, 'examples', `${title}.json`), 'utf8');
    const flow = JSON.parse(text.replace('redis://127.0.0.1:6379', bed.redis.url)) as FlowNode[];
    const credentials = { secret: SECRET };
    await red.deploy(flow.map((node) => (node.type === 'modelet-broker' ? { ...node, credentials } : node)));
    for (let host = 0; host < 2; host += 1) {
      startHost(t, '--broker', bed.redis.url, '--runtime', 'hosts', '--secret-file', bed.secretFile);
    }
    const { id = '' } = flow.find(({ type }) => type === 'modelet-stage') ?? {};
    await bed.ready(id, 2);
    const answers = await Promise.all(
      numbers(12).map(async () => {
        const answer = await red.post('/primes', { below: 100_000 });
        return (await answer.json()) as { count: number; engine: number };
      }),
    );
    assert.ok(answers.every(({ count }) => count === 9592));
    assert.equal(new Set(answers.map(({ engine }) => engine)).size, 2);

    const called = (name: string): string => flow.find((node) => node['name'] === name)?.id ?? '';
    const shown = red.inputs(called('result'));
    await red.press(called('8 requests'));
    await until('the button shows eight results', () => shown.length === 8);
    assert.ok(shown.every(({ payload }) => (payload as { count: number }).count === 17_984));
    assert.ok(!red.logs.some((line) => line.includes('No response object')));
  });
});
