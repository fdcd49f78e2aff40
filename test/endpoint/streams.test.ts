/** A stream writes to a real client, by a clock that the test moves. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { type TestContext, test } from 'node:test';
import type { StreamSpec } from '../../src/core/endpoints.ts';
import { prepareAnswer } from '../../src/http/served-endpoint.ts';
import { chatForm, chatRequest } from '../../src/http/streaming/chat-form.ts';
import { ResultStream } from '../../src/http/streaming/result-stream.ts';
import { formOf } from '../../src/http/streaming/stream-form.ts';
import { encodePayload } from '../../src/wire/codec/codec.ts';
import { FakeClock } from '../fixtures/fake-clock.ts';
import { until } from '../fixtures/polling.ts';

const encoded = (value: unknown): ReturnType<typeof encodePayload> =>
  encodePayload(value, { blame: 'modelet_failed', maxBytes: 1e6 });

/** A response whose client reads everything, if it `reads`. */
async function responseTo(t: TestContext, reads = true): Promise<{ response: ServerResponse; text: () => string }> {
  const server = createServer().listen(0, '127.0.0.1');
  t.after(() => server.close());
  await once(server, 'listening');
  const client = connect((server.address() as AddressInfo).port, '127.0.0.1');
  t.after(() => client.destroy());
  let text = '';
  if (reads) client.on('data', (chunk: Buffer) => (text += chunk.toString()));
  client.write('GET / HTTP/1.0\r\n\r\n');
  const [, response] = (await once(server, 'request')) as [unknown, ServerResponse];
  return { response, text: () => text.slice(text.indexOf('\r\n\r\n') + 4) };
}

function streamOn(
  response: ServerResponse,
  clock: FakeClock,
  spec: Partial<StreamSpec>,
  body: object = {},
): ResultStream {
  const { heartbeatMs = 0 } = spec;
  const chat = (): ReturnType<typeof chatForm> => chatForm(chatRequest(body, 'asked'), 100);
  const form = formOf({ format: 'sse', event: '', heartbeatMs, ...spec }, chat);
  return new ResultStream(response, {
    ...{ requestId: 'asked', answer: prepareAnswer({ statusCode: null, headers: {} }), form, heartbeatMs, clock },
  });
}

test('a comment follows each silence, and none an end', async (t) => {
  const { response, text } = await responseTo(t);
  const clock = new FakeClock();
  const stream = streamOn(response, clock, { heartbeatMs: 100 });
  clock.advance(99);
  assert.equal(stream.hasBegun, false);
  clock.advance(1);
  assert.equal(stream.hasBegun, true);
  clock.advance(60);
  stream.part(encoded(1));
  clock.advance(99);
  stream.part(encoded(2));
  clock.advance(200);
  stream.end(encoded(null));
  assert.equal(clock.pending, 0);
  await until('all is written', () => response.writableFinished);
  await until('all is read', () => text().includes('done'));
  assert.equal(text(), ':\n\ndata: 1\n\ndata: 2\n\n:\n\n:\n\nevent: done\ndata: null\n\n');
});

test('no comment comes for a client that does not read, after an error, or behind the answer of others', async (t) => {
  const clock = new FakeClock();
  const stalled = await responseTo(t, false);
  const stream = streamOn(stalled.response, clock, { heartbeatMs: 100 });
  while (!stalled.response.writableNeedDrain) stream.part(encoded('x'.repeat(100_000)));
  const before = stalled.response.writableLength;
  clock.advance(1000);
  assert.equal(stalled.response.writableLength, before);
  stream.fail({});
  const other = await responseTo(t);
  const failed = streamOn(other.response, clock, { heartbeatMs: 100 });
  failed.fail({});
  clock.advance(1000);
  assert.deepEqual([failed.hasBegun, other.response.headersSent], [false, false]);
  const spoiled = await responseTo(t);
  Object.assign(spoiled.response, {
    writeHead: () => {
      throw new RangeError('Invalid status code: 99');
    },
  });
  const bad = streamOn(spoiled.response, clock, { heartbeatMs: 100 });
  clock.advance(1000);
  assert.equal(bad.hasBegun, false);
  assert.throws(() => bad.part(encoded(1)), /Invalid status code/);
  const answered = await responseTo(t);
  const late = streamOn(answered.response, clock, { heartbeatMs: 100 });
  answered.response.writeHead(200).end();
  clock.advance(1000);
  assert.equal(late.hasEnded, true);
});

/** Returns the bytes that a client of OpenAI's API gets of these parts and the end. */
async function chat(t: TestContext, body: object, parts: readonly unknown[], end: unknown): Promise<string> {
  const { response, text } = await responseTo(t);
  const stream = streamOn(response, new FakeClock(), { format: 'openai' }, body);
  for (const part of parts) stream.part(encoded(part));
  stream.end(encoded(end));
  await until('all is written', () => response.writableFinished);
  await until('all is read', () => text() !== '' && (text().endsWith('}') || text().endsWith('[DONE]\n\n')));
  return text().replaceAll(/"created":\d+/g, '"created":0');
}

const about = (object: string, model = 'm'): object => ({ id: 'chatcmpl-asked', object, created: 0, model });

test('text becomes chunks of one message, and objects stay as they are', async (t) => {
  const chunk = (delta: object, finish_reason: string | null, more = {}): string =>
    `data: ${JSON.stringify({ ...about('chat.completion.chunk'), choices: [{ index: 0, delta, finish_reason }], ...more })}\n\n`;
  const asked = { model: 'm', stream: true };
  const first = chunk({ role: 'assistant', content: 'a' }, null);
  const done = 'data: [DONE]\n\n';
  assert.equal(
    await chat(t, asked, ['a', 2, null], undefined),
    `${first}${chunk({ content: '2' }, null)}${chunk({ content: '' }, null)}${chunk({}, 'stop')}${done}`,
  );
  const usage = { total_tokens: 3 };
  assert.equal(
    await chat(t, asked, ['a'], { finish_reason: 'length', usage, own: 1 }),
    `${first}${chunk({}, 'length')}${done}`,
    'a client that does not ask for figures gets none',
  );
  const counted = { ...asked, stream_options: { include_usage: true } };
  const none = { usage: null };
  const figures = { ...about('chat.completion.chunk'), choices: [], usage };
  assert.equal(
    await chat(t, counted, ['a'], { finish_reason: 'length', usage }),
    `${chunk({ role: 'assistant', content: 'a' }, null, none)}${chunk({}, 'length', none)}data: ${JSON.stringify(figures)}\n\n${done}`,
  );
  assert.equal(await chat(t, asked, [], null), `${chunk({}, 'stop')}${done}`);
  assert.equal(await chat(t, asked, [], 'a'), `${first}${chunk({}, 'stop')}${done}`);
  assert.equal(await chat(t, asked, [{ x: 1 }, { x: 2 }], null), `data: {"x":1}\n\ndata: {"x":2}\n\n${done}`);
});

test('a client that asks for no stream gets one message', async (t) => {
  const whole = (content: string, finish_reason = 'stop', more = {}): string => {
    const choices = [{ index: 0, message: { role: 'assistant', content }, finish_reason }];
    return JSON.stringify({ ...about('chat.completion'), choices, ...more });
  };
  const delta = (content: string): object => ({ choices: [{ delta: { content }, finish_reason: null }] });
  const usage = { total_tokens: 3 };
  for (const asked of [{ model: 'm' }, { model: 'm', stream: false }]) {
    assert.equal(await chat(t, asked, ['a', 'b'], null), whole('ab'));
    assert.equal(await chat(t, asked, [], 'all'), whole('all'));
    assert.equal(await chat(t, asked, ['a'], { finish_reason: 'length', usage }), whole('a', 'length', { usage }));
    const last = { choices: [{ delta: {}, finish_reason: 'length' }], usage };
    assert.equal(await chat(t, asked, [delta('a'), delta('b'), last], null), whole('ab', 'length', { usage }));
    assert.equal(
      await chat(t, asked, [], { object: 'chat.completion', own: 1 }),
      '{"object":"chat.completion","own":1}',
    );
  }
  const choice = (index: number, delta: object, finish_reason: string | null = null): object => ({
    choices: [{ index, delta, finish_reason }],
  });
  const call = (index: number, more: object): object => choice(1, { tool_calls: [{ index, ...more }] });
  const chunks = [
    choice(1, { role: 'assistant', content: null }),
    choice(0, { role: 'assistant', content: 'a' }),
    call(0, { id: 'first', type: 'function', function: { name: 'look', arguments: '' } }),
    call(0, { function: { arguments: '{"at":' } }),
    call(1, { id: 'second', type: 'function', function: { name: 'go', arguments: '{}' } }),
    call(0, { function: { arguments: '1}' } }),
    choice(0, { content: 'b' }, 'length'),
    choice(1, {}, 'tool_calls'),
  ];
  const tool = (id: string, name: string, text: string) => ({
    id,
    type: 'function',
    function: { name, arguments: text },
  });
  const calls = [tool('first', 'look', '{"at":1}'), tool('second', 'go', '{}')];
  assert.deepEqual(JSON.parse(await chat(t, { model: 'm' }, chunks, { usage })), {
    ...about('chat.completion'),
    choices: [
      { index: 0, message: { role: 'assistant', content: 'ab' }, finish_reason: 'length' },
      { index: 1, message: { role: 'assistant', content: '', tool_calls: calls }, finish_reason: 'tool_calls' },
    ],
    usage,
  });
  await assert.rejects(chat(t, { model: 'm' }, ['x'.repeat(101)], null), { code: 'modelet_failed' });
  const long = Array.from({ length: 11 }, () => call(0, { function: { arguments: 'x'.repeat(10) } }));
  await assert.rejects(chat(t, { model: 'm' }, long, null), { code: 'modelet_failed' });
});
