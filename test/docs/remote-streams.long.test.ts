/**
 * Streams of a remote model, before a server of the test's own that fails, stalls and is left: the programs of the guide,
 * and the example as it is shipped. Only the long form has httpx, for the program in Python.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { streamOut } from '../fixtures/drawn.ts';
import { collector, httpIn, runtime, stage, TAB } from '../fixtures/flow.ts';
import { type FlowNode, useNodeRed } from '../fixtures/node-red.ts';
import { until } from '../fixtures/polling.ts';
import { repositoryRoot } from '../fixtures/repository.ts';
import { PACKAGES, withoutPackages } from './packages.ts';
import { codeBlocks, readPage } from './pages.ts';

const PATH = '/v1/chat/completions';
const LONG = 'x'.repeat(64 * 1024);

/** A request that the remote model has got. */
interface Got {
  readonly body: { readonly stream?: boolean; readonly messages: readonly [{ readonly content: string }] };
  readonly response: ServerResponse;
  /** Bytes that it has written, and whether its client has gone. */
  written: number;
  isLeft: boolean;
  /** Resolves when the connection has ended. */
  readonly closed: Promise<unknown>;
}

/** A server with an API like OpenAI's. The text of the first message says how it behaves. */
class RemoteModel {
  readonly got: Got[] = [];
  readonly #server = createServer((request, response) => void this.#answer(request, response));

  async start(): Promise<string> {
    this.#server.listen(0, '127.0.0.1');
    await once(this.#server, 'listening');
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}${PATH}`;
  }

  stop(): void {
    this.#server.close();
    this.#server.closeAllConnections();
  }

  /** The requests with this text. */
  about(text: string): Got[] {
    return this.got.filter(({ body }) => body.messages[0].content === text);
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    let text = '';
    for await (const piece of request.setEncoding('utf8')) text += piece;
    const body = JSON.parse(text) as Got['body'];
    const got: Got = { body, response, written: 0, isLeft: false, closed: once(response, 'close') };
    this.got.push(got);
    response.on('close', () => {
      got.isLeft = !response.writableFinished;
    });
    const { content } = body.messages[0];
    if (content === 'refuse') {
      response.writeHead(429, { 'Content-Type': 'application/json', 'Retry-After': '1' });
      response.end('{"error":{"message":"too many"}}');
    } else if (!body.stream) {
      const choices = [{ index: 0, message: { role: 'assistant', content: 'whole' }, finish_reason: 'stop' }];
      response.setHeader('Content-Type', 'application/json');
      response.end(JSON.stringify({ id: 'c', object: 'chat.completion', created: 1, model: 'm', choices }));
    } else await this.#stream(content, got);
  }

  async #stream(content: string, got: Got): Promise<void> {
    const { response } = got;
    response.writeHead(200, { 'Content-Type': 'text/event-stream' });
    response.flushHeaders();
    if (content === 'stall first') return;
    for (const word of ['one ', 'two ']) await write(got, chunk(word));
    if (content === 'stall') return;
    if (content === 'break') await write(got, { error: { message: 'out of memory' } });
    else if (content === 'cut') response.destroy();
    else if (content === 'end early') response.end();
    else if (content === 'flood') while (!got.isLeft) await write(got, chunk(LONG));
    else response.end(`data: ${JSON.stringify(chunk('', 'stop'))}\n\ndata: [DONE]\n\n`);
  }
}

function chunk(content: string, finish: string | null = null): object {
  const choices = [{ index: 0, delta: { content }, finish_reason: finish }];
  return { id: 'c', object: 'chat.completion.chunk', created: 1, model: 'm', choices };
}

/** Writes an event as fast as the client takes it. Resolves when the event has left this process, or the client has gone. */
async function write(got: Got, event: object): Promise<void> {
  const text = `data: ${JSON.stringify(event)}\n\n`;
  got.written += text.length;
  await Promise.race([new Promise((resolve) => got.response.write(text, resolve)), got.closed]);
}

const blocks = codeBlocks(readPage('docs/guides/http-and-streaming.md'));
const textOf = (label: string): string => {
  const found = blocks.find((block) => block.label === label);
  assert.ok(found, label);
  return found.text;
};

const remote = new RemoteModel();
const folder = mkdtempSync(join(tmpdir(), 'modelet-remote-streams-'));
let upstream = '';
before(async () => {
  upstream = await remote.start();
});
after(() => {
  remote.stop();
  rmSync(folder, { recursive: true });
});

/** A flow with a program of the guide. One place: the next stream begins when the one before has left it. */
function guideFlow(file: string, properties: object): FlowNode[] {
  const path = join(folder, file);
  writeFileSync(path, textOf(file));
  const init = JSON.stringify({ ...(JSON.parse(textOf('init')) as object), url: upstream });
  return [
    TAB,
    runtime(),
    httpIn('in', PATH, 'relay'),
    stage('relay', '', 'collect', { path, init, workers: '1', ...properties }),
    collector('collect', 'out', 'out', { results: 'parts' }),
    streamOut('out', { format: 'openai', heartbeatMs: '0' }),
  ];
}

function exampleFlow(): FlowNode[] {
  const text = readFileSync(join(repositoryRoot, 'examples', 'Chat completions of a remote model.json'), 'utf8');
  return JSON.parse(text.replaceAll(`http://127.0.0.1:8000${PATH}`, upstream)) as FlowNode[];
}

interface Way {
  readonly name: string;
  readonly path: string;
  /** Streams at a time. */
  readonly places: number;
  readonly skip: string | false;
  flow(): FlowNode[];
}

const python = join(PACKAGES, 'venv', 'bin', 'python');
const isLong = process.env['TEST_FULL'] === '1';
const WAYS: readonly Way[] = [
  { name: 'relay.mjs', path: PATH, places: 1, skip: false, flow: () => guideFlow('relay.mjs', { source: 'file' }) },
  {
    ...{ name: 'relay.py', path: PATH, places: 2, skip: isLong ? withoutPackages() : 'only the long form has httpx' },
    // Two, because Python then takes the calls as tasks, as with the 16 of the guide.
    flow: () => guideFlow('relay.py', { source: 'python', python, concurrency: '2' }),
  },
  { name: 'the example', path: `/examples${PATH}`, places: 16, skip: false, flow: exampleFlow },
];

for (const { name, path, places, skip, flow } of WAYS) {
  describe(name, { skip }, () => {
    const red = useNodeRed({ prepare: (red) => red.deployReady(flow()) });
    before(() => {
      remote.got.length = 0;
    });

    const ask = (content: string, more: object = {}, signal?: AbortSignal): Promise<Response> =>
      red.post(
        path,
        { model: 'm', messages: [{ role: 'user', content }], stream: true, ...more },
        signal ? { signal } : {},
      );

    /** The data of all events. */
    async function events(content: string): Promise<string[]> {
      const text = await (await ask(content)).text();
      return text.split('\n\n').flatMap((event) => (event.startsWith('data: ') ? event.slice('data: '.length) : []));
    }

    test('chunks are passed on as they are, and the answer to a request without stream is whole', async () => {
      const chunks = [chunk('one '), chunk('two '), chunk('', 'stop')].map((one) => JSON.stringify(one));
      assert.deepEqual(await events('hello'), [...chunks, '[DONE]']);
      const { choices } = (await (await ask('hello', { stream: false })).json()) as {
        choices: [{ message: { content: string } }];
      };
      assert.equal(choices[0].message.content, 'whole');
    });

    test('a status of the remote model is a separate answer, with what it says', async () => {
      for (const stream of [true, false]) {
        const refused = await ask('refuse', { stream });
        const { error } = (await refused.json()) as { error: { code: string; message: string } };
        assert.deepEqual([refused.status, error.code], [500, 'modelet_failed']);
        assert.match(error.message, /^the remote model: status 429: .*too many/);
      }
    });

    for (const [content, said] of [
      ['break', /^the remote model: out of memory$/],
      ['end early', /closed its stream before the end$/],
      // The words for a connection that breaks are those of the library.
      ['cut', /./],
    ] as const) {
      test(`an error within the stream is one for the client: ${content}`, async () => {
        const data = await events(content);
        const last = JSON.parse(data.pop() ?? '') as { error?: { code: string; message: string } };
        assert.deepEqual(
          data,
          [chunk('one '), chunk('two ')].map((one) => JSON.stringify(one)),
        );
        assert.equal(last.error?.code, 'modelet_failed');
        assert.match(last.error.message, said);
      });
    }

    for (const content of ['stall first', 'stall', 'flood']) {
      test(`a client that goes away ends the request to the remote model, and frees its place: ${content}`, async () => {
        const clients = Array.from({ length: places }, () => new AbortController());
        const asked = clients.map(({ signal }) => ask(content, {}, signal).catch(() => null));
        await until('all have reached the remote model', () => remote.about(content).length === places);
        if (content !== 'stall first') await Promise.all(asked);
        for (const client of clients) client.abort();
        await until('the remote model is left', () => remote.about(content).every(({ isLeft }) => isLeft));
        assert.equal((await events('hello')).at(-1), '[DONE]');
      });
    }

    test('a client that does not read slows the remote model down', async () => {
      const client = new AbortController();
      const known = remote.about('flood').length;
      await ask('flood', {}, client.signal);
      const got = await until('it has reached the remote model', () => remote.about('flood')[known]);
      // Written bytes stand still when every buffer on the way is full.
      let before = -1;
      await until('the remote model waits', () => {
        const stands = before === got.written && got.response.writableNeedDrain;
        before = got.written;
        return stands;
      });
      client.abort();
      assert.ok(got.written < 64 * 1024 * 1024, `${got.written} bytes were written`);
      await until('the remote model is left', () => got.isLeft);
    });
  });
}
