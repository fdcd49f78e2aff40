/** Results that come in parts: as messages, to a client that reads along, and whatever ends them half way. */
import assert from 'node:assert/strict';
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { get } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, beforeEach, describe, test } from 'node:test';
import { arrived } from '../../fixtures/drawn.ts';
import { collector, func, httpIn, httpOut, node, runtime, sink, stage, TAB } from '../../fixtures/flow.ts';
import { type FlowNode, type Message, useNodeRed } from '../../fixtures/node-red.ts';
import { until } from '../../fixtures/polling.ts';
import { repositoryRoot } from '../../fixtures/repository.ts';
import { callsIn, release } from '../../fixtures/service.ts';

const red = useNodeRed({
  prepare: async () => {
    folder = await mkdtemp(join(tmpdir(), 'modelet-parts-'));
  },
});
let folder: string;
after(async () => {
  await rm(folder, { recursive: true, force: true });
});
// The same folder for all: a stage that is set otherwise is served by its old workers for a while.
beforeEach(async () => {
  for (const file of await readdir(folder)) await rm(join(folder, file));
});

const MODELET = join(repositoryRoot, 'test', 'fixtures', 'modelets', 'parts.js');
const PARTS = { results: 'parts' };

/** The stage whose parts the test lets go, one by one. */
function yielding(to: string | string[], properties: object = {}): FlowNode {
  const init = JSON.stringify({ folder });
  return stage('make', '', to, { source: 'file', path: MODELET, init, ...properties });
}

const WRITE = `
  const response = msg.res._res;
  if (!response.headersSent) response.writeHead(200, { 'Content-Type': 'text/event-stream' });
  const event = msg.error ? 'error' : msg.complete ? 'done' : 'token';
  response.write('event: ' + event + '\\ndata: ' + JSON.stringify(msg.error?.code ?? msg.payload ?? null) + '\\n\\n');
  if (event !== 'token') response.end();`;

/** GET /tokens, whose query is the input, answered by events. */
function events({ catches = true }: { catches?: boolean } = {}): FlowNode[] {
  return [
    node('in', 'http in', ['read'], { url: '/tokens', method: 'get', upload: false, swaggerDoc: '' }),
    func('read', 'msg.payload = JSON.parse(msg.payload.input); return msg;', 'make'),
    yielding('collect'),
    collector('collect', 'write', catches ? 'write' : [], PARTS),
    func('write', WRITE),
  ];
}

async function deploy(...flows: FlowNode[]): Promise<void> {
  await red.deployReady([TAB, runtime(), ...flows]);
}

/** A client that reads what comes, as it comes. */
class Client {
  text = '';
  ended = false;
  readonly #request: ReturnType<typeof get>;

  constructor(input: object) {
    this.#request = get(`${red.url}/tokens?input=${encodeURIComponent(JSON.stringify(input))}`, (response) => {
      response.setEncoding('utf8');
      response.on('data', (text: string) => {
        this.text += text;
      });
      response.on('close', () => {
        this.ended = true;
      });
    });
    this.#request.on('error', () => {
      this.ended = true;
    });
  }

  get events(): string[] {
    return this.text
      .split('\n\n')
      .slice(0, -1)
      .map((event) => event.replace('event: ', '').replace('\ndata: ', ' '));
  }

  has(count: number): Promise<true> {
    return until(`${count} events have come`, () => this.events.length >= count || undefined) as Promise<true>;
  }

  leave(): void {
    this.#request.destroy();
  }
}

const index = ({ payload }: Message): unknown => (payload as { index: number } | undefined)?.index;
const calls = (): unknown[] => callsIn(folder);
const isClosed = (): Promise<unknown> => until('the generator is closed', () => calls().includes('end'));

describe('a client that reads parts', () => {
  test('gets each part before the next is made, and then the end', async () => {
    await deploy(...events());
    const client = new Client({ to: 3, result: 'all' });
    for (const part of [1, 2]) {
      await client.has(part);
      assert.equal(client.events.length, part);
      release(folder, `part${part}`);
    }
    await until('the response ends', () => client.ended);
    assert.deepEqual(
      client.events.map((event) => event.replace(/,"pid":\d+/, '')),
      ['token {"index":0}', 'token {"index":1}', 'token {"index":2}', 'done "all"'],
    );
  });

  test('closes the generator when it goes away', async () => {
    await deploy(...events());
    const client = new Client({ endless: true });
    await client.has(20);
    client.leave();
    await isClosed();
  });

  test('gets an error that comes halfway, after the parts before it', async () => {
    await deploy(...events());
    release(folder, 'part1');
    const client = new Client({ to: 3, fail: 1 });
    await until('the response ends', () => client.ended);
    assert.deepEqual(
      client.events.map((event) => event.split(' ')[0]),
      ['token', 'error'],
    );
  });

  test('does not hang after an unhandled error, nor after the removal of its flow', async () => {
    await deploy(...events({ catches: false }));
    release(folder, 'part1');
    const failed = new Client({ to: 3, fail: 1 });
    await until('the response of the failed request ends', () => failed.ended);
    assert.equal(failed.events.length, 1);
    const left = new Client({ endless: true });
    await left.has(1);
    await red.deploy([TAB, sink('other')]);
    await until('the response of the other ends', () => left.ended);
    await isClosed();
  });

  test('gets the rest after a deploy that replaces the nodes', async () => {
    const flow = events();
    await deploy(...flow);
    const client = new Client({ to: 2 });
    await client.has(1);
    await red.deploy([TAB, runtime(), ...flow.map((one) => ({ ...one, x: 200 }))]);
    release(folder, 'part1');
    await until('the response ends', () => client.ended);
    assert.deepEqual(
      client.events.map((event) => event.split(' ')[0]),
      ['token', 'token', 'done'],
    );
  });
});

describe('parts at an HTTP response node directly behind the collector', () => {
  /** GET /tokens, which no compiler takes, with debug nodes on both sides of the collector. */
  const direct = (): FlowNode[] => [
    ...events().slice(0, 2),
    yielding(['collect', 'before']),
    collector('collect', ['out', 'behind'], 'out', PARTS),
    httpOut('out'),
    sink('before'),
    sink('behind'),
  ];

  test('reach the client as events, and the messages reach every other node', async () => {
    await deploy(...direct());
    const behind = red.inputs('behind');
    release(folder, 'part1');
    const from = red.logs.length;
    const client = new Client({ to: 2, result: 'all' });
    await until('the response ends', () => client.ended);
    assert.match(client.text, /^data: \{"index":0.*\}\n\ndata: \{"index":1.*\}\n\nevent: done\ndata: "all"\n\n$/);
    assert.deepEqual(
      (await arrived(behind, 3)).map(({ complete, parts }) => [complete, (parts as { index: number }).index]),
      [
        [undefined, 0],
        [undefined, 1],
        [true, 2],
      ],
    );
    assert.deepEqual(red.logs.slice(from), []);
  });

  test('end with an error that the client gets, also if a deploy removes the flow', async () => {
    await deploy(...direct());
    const [behind, failed] = [red.inputs('behind'), new Client({ to: 3, fail: 1 })];
    await failed.has(1);
    release(folder, 'part1');
    await until('the response of the failed request ends', () => failed.ended);
    assert.match(
      failed.text,
      /event: error\ndata: \{"error":\{"code":"modelet_failed","message":"no more","stage":"make"/,
    );
    assert.equal(behind.length, 1);
    const left = new Client({ endless: true });
    await left.has(1);
    await red.deploy([TAB, sink('other')]);
    await until('the response of the other ends', () => left.ended);
    assert.match(left.text, /event: error\ndata: \{"error":\{"code":"shutting_down".*\}\}\n\n$/);
    await isClosed();
  });

  test('go on at a compiled endpoint whose flow is removed, as long as its runtime is there', async () => {
    await deploy(httpIn('in', '/compiled', 'make'), ...direct().slice(2));
    const answer = await red.post('/compiled', { to: 2, result: 'all' });
    const reader = (answer.body as ReadableStream<Uint8Array>).getReader();
    const more = async (): Promise<string> => Buffer.from((await reader.read()).value ?? []).toString();
    assert.match(await more(), /"index":0/);
    await deploy(stage('other', 'return input;', 'seen'), sink('seen'));
    release(folder, 'part1');
    let rest = '';
    await until('the end comes', async () => {
      rest += await more();
      return rest.includes('event: done');
    });
    assert.match(rest, /"index":1/);
  });

  test('reach the debug nodes alike, whether the endpoint is compiled or not', async () => {
    const ways = [
      httpIn('in', '/compiled', 'make'),
      httpIn('in2', '/flow', 'pass'),
      func('pass', 'return msg;', 'make'),
    ];
    await deploy(...ways, ...direct().slice(2));
    const seen = [red.inputs('before'), red.inputs('behind')];
    release(folder, 'part1');
    const told: unknown[] = [];
    for (const path of ['/compiled', '/flow']) {
      for (const result of ['all', undefined]) {
        const answer = await red.post(path, { to: 2, result });
        assert.match(await answer.text(), /^data: \{"index":0/);
        await until('the end is seen', () => seen.every((all) => all.at(-1)?.['complete'] === true));
        told.push(
          seen.map((all) =>
            all.splice(0).map(({ payload, parts, complete, modelet }) => {
              const { id, ...place } = parts as { id: string };
              assert.ok(id.startsWith(modelet?.requestId ?? '-'));
              return {
                payload: typeof payload === 'object' ? index({ payload } as Message) : payload,
                place,
                complete,
                stages: modelet?.stages.length,
              };
            }),
          ),
        );
      }
    }
    assert.deepEqual(told.slice(0, 2), told.slice(2));
    assert.deepEqual(
      (told[0] as unknown[][]).map((all) => all.length),
      [1, 3],
    );
  });
});

describe('messages of parts', () => {
  test('are clones with their index, and the end has their number and no payload', async () => {
    await deploy(yielding('collect'), collector('collect', 'out', 'failed', PARTS), sink('out'), sink('failed'));
    const out = red.inputs('out');
    release(folder, 'part1');
    red.send('make', { payload: { to: 2 }, topic: 'mine', complete: 'of before' });
    const end = await until('the end', () => out[2]);
    const { requestId } = end.modelet ?? {};
    const id = (end['parts'] as { id: string }).id;
    assert.ok(requestId && id.startsWith(requestId));
    const told = out.map(({ parts, complete, topic, payload }) => ({
      parts,
      complete,
      topic,
      has: payload !== undefined,
    }));
    const about = { topic: 'mine', complete: undefined, has: true };
    assert.deepEqual(told, [
      { ...about, parts: { id, type: 'array', index: 0 } },
      { ...about, parts: { id, type: 'array', index: 1 } },
      { parts: { id, type: 'array', count: 2 }, complete: true, topic: 'mine', has: false },
    ]);
    assert.deepEqual(out.slice(0, 2).map(index), [0, 1]);
    assert.equal(end.modelet?.stages.length, 1);
  });

  test('are joined by join nodes, separately for each request and within its own split', async () => {
    const split = { splt: '\\n', spltType: 'str', arraySplt: 1, arraySpltType: 'len', stream: false, addname: '' };
    const auto = { mode: 'auto', build: 'array', property: 'payload', propertyType: 'msg', accumulate: false };
    await deploy(
      node('split', 'split', ['letters'], split),
      stage('letters', 'return [...input].values();', 'collect', { workers: '2', output: 'letters' }),
      collector('collect', 'each', [], PARTS),
      node('each', 'join', ['move'], { ...auto, count: '', joiner: '' }),
      func('move', 'msg.payload = msg.letters; return msg;', 'all'),
      node('all', 'join', ['out'], { ...auto, count: '', joiner: '' }),
      sink('out'),
    );
    const out = red.inputs('out');
    red.send('split', { payload: ['abc', '', 'de', 'f'] });
    const { payload, parts } = await until('all are joined', () => out[0]);
    assert.deepEqual([payload, parts], [[['a', 'b', 'c'], [], ['d', 'e'], ['f']], undefined]);
  });

  test('are followed by one error when the request fails, and nothing else', async () => {
    await deploy(yielding('collect'), collector('collect', 'out', 'failed', PARTS), sink('out'), sink('failed'));
    const [out, failed] = [red.inputs('out'), red.inputs('failed')];
    const { runtimes } = await red.snapshot();
    red.send('make', { payload: { to: 2 } });
    await until('a part comes', () => out.length === 1);
    process.kill(runtimes[0]?.stages[0]?.workers[0]?.pid as number, 'SIGKILL');
    const { error, payload } = await until('the error comes', () => failed[0]);
    assert.equal(error?.code, 'worker_lost');
    assert.deepEqual(Object.keys(payload as object), ['error']);
    release(folder, 'part1');
    red.send('make', { payload: { to: 2 } });
    await until('the next request ends', () => out.length === 4);
    assert.equal(failed.length, 1);
  });

  test('become one result if the collector wants whole results', async () => {
    await deploy(yielding('collect'), collector('collect', 'out'), sink('out'));
    const out = red.inputs('out');
    release(folder, 'part1');
    red.send('make', { payload: { to: 2 } });
    const { payload, parts, complete } = await until('the result', () => out[0]);
    assert.deepEqual(
      [(payload as { index: number }[]).map((part) => part.index), parts, complete],
      [[0, 1], undefined, undefined],
    );
  });
});
