/** The example of a language model that runs elsewhere, deployed as it is shipped, before the mock gateway. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { createServer, type IncomingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { MockGateway } from '../../fixtures/mock-gateway.ts';
import { type FlowNode, type NodeRed, useNodeRed } from '../../fixtures/node-red.ts';
import { until } from '../../fixtures/polling.ts';
import { repositoryRoot } from '../../fixtures/repository.ts';

interface Chunk {
  readonly object: string;
  readonly model: string;
  readonly choices: readonly [
    {
      readonly delta?: { readonly content: string };
      readonly message?: { readonly content: string };
      readonly finish_reason: string | null;
    },
  ];
}

const EXAMPLE = join(repositoryRoot, 'examples', 'Chat completions of a remote model.json');

describe('examples: chat completions of a remote model', () => {
  const red = useNodeRed({
    prepare: async (red) => {
      gateway = await MockGateway.start({ 'token-ms': 1 });
      const text = await readFile(EXAMPLE, 'utf8');
      flow = JSON.parse(text.replaceAll('http://127.0.0.1:8000/', `${gateway.url}/`)) as FlowNode[];
      await red.deployReady(flow);
      await until('the gate is open', async () => (await gate()).open);
    },
  });
  let gateway: MockGateway;
  let flow: FlowNode[];
  after(() => gateway.stop());

  const idOf = (name: string): string => {
    const found = flow.find((node) => node['name'] === name);
    assert.ok(found, name);
    return found.id;
  };
  const gate = (): ReturnType<NodeRed['gate']> => red.gate(idOf('free tokens'));
  const ask = (body: object): Promise<Response> => red.post('/examples/ask', body);

  test('a question gets the parts of an answer of the model', async () => {
    const asked: unknown[] = [];
    // A copy: the message goes on, and its payload changes.
    red.node(idOf('its key, no client headers')).on('input', ({ payload }) => asked.push(structuredClone(payload)));
    const passages = ['A batcher gathers items.', 'A gate lets in what there is room for.'];
    const response = await ask({ question: 'What is a gate?', passages, maxTokens: 5 });
    assert.equal(response.status, 200);
    const answer = 'some words that mean nothing';
    assert.deepEqual(await response.json(), { answer, model: 'mock', finished: false, tokens: 5 });
    assert.deepEqual(asked[0], {
      model: 'mock',
      max_tokens: 5,
      messages: [
        { role: 'system', content: `Answer in one sentence.\n\n${passages[1]}` },
        { role: 'user', content: 'What is a gate?' },
      ],
    });
  });

  test('a body without a question is refused before the gate', async () => {
    const { decisions } = await gate();
    const response = await ask({ question: '' });
    assert.equal(response.status, 422);
    const { error } = (await response.json()) as { error: { code: string; stage: string } };
    assert.deepEqual([error.code, error.stage], ['invalid_input', 'prompt']);
    assert.deepEqual((await gate()).decisions, decisions);
  });

  test('the server refuses none of 40 questions, and gets no more tokens at a time than it has room for', async () => {
    const most: number[] = [];
    let open = true;
    const watching = until('all are answered', async () => {
      most.push((await gate()).inFlight);
      return !open;
    });
    const statuses = await Promise.all(
      Array.from({ length: 40 }, async () => {
        const response = await ask({ question: 'What is a gate?' });
        const { tokens } = (await response.json()) as { tokens: number };
        return [response.status, tokens].join();
      }),
    );
    open = false;
    await watching;
    assert.deepEqual([...new Set(statuses)], ['200,64']);
    // max_SYS x (1 - B) = 512 x 0.9
    assert.ok(Math.max(...most) <= 460, `${Math.max(...most)} tokens at a time`);
    assert.match(await gateway.metrics(), /gateway_requests_total\{code="429"\} 0\n/);
    assert.equal((await gate()).lost, 0);
  });

  test('a 429 of the server comes to the client in the shape of all errors and closes the gate, which opens again', async () => {
    const refused = await until('a question meets a server that is full', async () => {
      await gateway.control({ servers: 0, queue: 0 });
      let answered = false;
      const sent = ask({ question: 'What is a gate?' }).finally(() => {
        answered = true;
      });
      // The gate may have seen it first: then the question waits there until there is room.
      await until('it is answered or waits', async () => answered || (await gate()).waiting > 0);
      if (!answered) await gateway.control({ servers: 2, queue: 16 });
      const response = await sent;
      if (response.status === 429) return response;
      await until('the gate is open', async () => (await gate()).open);
      return false;
    });
    assert.equal(refused.headers.get('retry-after'), '1');
    const { error } = (await refused.json()) as { error: Record<string, string> };
    const { requestId, ...rest } = error;
    const message = "the model's server: all servers are busy and the queue is full";
    assert.deepEqual(rest, { code: 'capacity_exceeded', message, stage: 'model' });
    assert.ok(requestId);
    assert.equal((await gate()).open, false);

    // More than the gate has room for is refused there, the others wait for the server.
    let answered = 0;
    const asked = Array.from({ length: 70 }, async () => {
      const response = await ask({ question: 'What is a gate?' });
      answered += 1;
      return response;
    });
    await until('all that fit wait, and the others are refused', async () => {
      return (await gate()).waiting === 64 && answered === 6;
    });
    await gateway.control({ servers: 2, queue: 16 });
    const answers = await Promise.all(asked);
    const count = (wanted: number): number => answers.filter(({ status }) => status === wanted).length;
    assert.deepEqual([count(200), count(429)], [64, 6]);
    assert.match(await gateway.metrics(), /gateway_requests_total\{code="429"\} 1\n/);
  });

  test('the server gets the key and none of the client\u2019s headers, and an invalid answer is a fault of the model', async (t) => {
    const got: IncomingHttpHeaders[] = [];
    const server = createServer((request, response) => {
      got.push(request.headers);
      response.setHeader('content-type', 'application/json').setHeader('x-secret', '1').end('{"choices": []}');
    }).listen(0, '127.0.0.1');
    await once(server, 'listening');
    process.env['OPENAI_API_KEY'] = 'key-of-a-test';
    t.after(() => {
      delete process.env['OPENAI_API_KEY'];
      server.close();
    });
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1/chat/completions`;
    await red.deployReady(flow.map((node) => (node['name'] === 'ask the model' ? { ...node, url } : node)));
    const headers = { 'Content-Type': 'application/json', Cookie: 'a=b', 'X-Of-Client': '1' };
    const body = JSON.stringify({ question: 'What is a gate?' });
    const response = await red.post('/examples/ask', null, { headers, body });
    const { error } = (await response.json()) as { error: { code: string; stage: string } };
    assert.deepEqual([response.status, error.code, error.stage], [500, 'modelet_failed', 'answer']);
    assert.equal(response.headers.get('x-secret'), null);
    const { authorization, cookie, 'x-of-client': own } = got[0] as IncomingHttpHeaders;
    assert.deepEqual([authorization, cookie, own], ['Bearer key-of-a-test', undefined, undefined]);
  });

  test('a chat is streamed as it comes, or is one object, as a client of OpenAI asks', async () => {
    await red.deployReady(flow);
    const ask = (more: object): Promise<Response> =>
      red.post('/examples/v1/chat/completions', { model: 'mine', messages: [{}], max_tokens: 3, ...more });
    const streamed = await ask({ stream: true });
    assert.equal(streamed.headers.get('content-type'), 'text/event-stream');
    const events = (await streamed.text()).split('\n\n');
    assert.deepEqual(events.splice(-2), ['data: [DONE]', '']);
    const chunks = events.map((event) => JSON.parse(event.replace('data: ', '')) as Chunk);
    assert.deepEqual(
      chunks.map(({ model, choices: [choice] }) => [model, choice.delta?.content, choice.finish_reason]),
      [...['some ', 'words ', 'that '].map((word) => ['mine', word, null]), ['mine', '', 'length']],
    );
    const { object, choices } = (await (await ask({})).json()) as Chunk;
    assert.deepEqual([object, choices[0].message?.content], ['chat.completion', 'some words that']);
    const refused = await ask({ messages: [] });
    assert.equal(refused.status, 422);
    const leaving = new AbortController();
    const left = await red.post(
      '/examples/v1/chat/completions',
      { messages: [{}], max_tokens: 100_000, stream: true },
      { signal: leaving.signal },
    );
    await left.body?.getReader().read();
    leaving.abort();
    await until('the server has lost its client', async () =>
      (await gateway.metrics()).includes('gateway_requests_total{code="499"} 1\n'),
    );
  });

  test('questions fail at once while the server is away, and none hangs', async () => {
    await red.deployReady(flow);
    red.send(idOf('free tokens'), { gate: 'open' });
    await gateway.stop();
    const response = await ask({ question: 'What is a gate?' });
    const { error } = (await response.json()) as { error: { code: string; message: string } };
    assert.deepEqual([response.status, error.code], [503, 'stage_unavailable']);
    assert.match(error.message, /ECONNREFUSED/);
  });
});
