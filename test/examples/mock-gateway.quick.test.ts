/** The mock inference gateway queues, refuses and measures as its head says. */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { Scrape } from '../fixtures/exposition.ts';
import { MockGateway } from '../fixtures/mock-gateway.ts';
import { until } from '../fixtures/polling.ts';
import { promtool, WITHOUT_PROMETHEUS } from '../fixtures/prometheus.ts';

/** So many tokens that a request runs until its client goes away. */
const FOR_EVER = 100_000;

describe('examples: the mock gateway', () => {
  let gateway: MockGateway;

  before(async () => {
    gateway = await MockGateway.start(
      { servers: 2, 'max-concurrency': 2, 'first-token-ms': 1, 'retry-after': 7 },
      { GATEWAY_QUEUE: '1', GATEWAY_TOKEN_MS: '1' },
    );
  });

  after(async () => {
    await gateway?.stop();
  });

  /** The value of one of its metrics, when it is what it should be. */
  async function see(name: string, expected: number, labels: Record<string, string> = {}): Promise<void> {
    let seen = Number.NaN;
    const look = (): void => {
      void gateway.metrics().then((text) => {
        seen = new Scrape(text).value(`gateway_${name}`, labels);
      });
    };
    look();
    await until(`gateway_${name} is ${expected}`, () => {
      if (seen === expected) return true;
      look();
      return false;
    });
  }

  test('answers a completion and a chat as OpenAI does', async () => {
    const completion = (await (await gateway.complete(3)).json()) as { choices: unknown; usage: unknown };
    assert.deepEqual(completion.choices, [{ index: 0, text: 'some words that', finish_reason: 'length' }]);
    assert.deepEqual(completion.usage, { prompt_tokens: 1, completion_tokens: 3, total_tokens: 4 });
    const chat = (await (await gateway.post('/v1/chat/completions', { messages: [], max_tokens: 1 })).json()) as object;
    const message = { role: 'assistant', content: 'some' };
    assert.deepEqual('choices' in chat && chat.choices, [{ index: 0, message, finish_reason: 'length' }]);
  });

  test('streams one token at a time, and marks the end', async () => {
    const response = await gateway.post('/v1/chat/completions', { max_tokens: 3, stream: true });
    assert.equal(response.headers.get('content-type'), 'text/event-stream');
    const events = (await response.text()).split('\n\n').filter(Boolean);
    assert.equal(events.pop(), 'data: [DONE]');
    const chunks = events.map((event) => JSON.parse(event.slice('data: '.length)) as { choices: [{ delta: object }] });
    assert.deepEqual(
      chunks.map(({ choices: [{ delta }] }) => 'content' in delta && delta.content),
      ['some ', 'words ', 'that ', ''],
    );
  });

  test('runs servers x max-concurrency, lets the queue wait, and refuses the next with Retry-After', async () => {
    const clients = Array.from({ length: 5 }, () => new AbortController());
    const requests = clients.map(({ signal }) => gateway.complete(FOR_EVER, {}, signal));
    const ended = Promise.allSettled(requests);
    await see('requests_running', 4);
    await see('queue_length', 1);
    await see('saturation', 1.25);
    const refused = await gateway.complete(1);
    assert.deepEqual([refused.status, refused.headers.get('retry-after')], [429, '7']);
    await see('requests_total', 1, { code: '429' });

    clients[0]?.abort();
    await see('queue_length', 0);
    await see('requests_running', 4);
    for (const client of clients) client.abort();
    await ended;
    await see('requests_running', 0);
    await see('requests_total', 5, { code: '499' });
  });

  test('refuses everything while it is unavailable, and continues with another number of servers', async () => {
    await gateway.control({ unavailable: true });
    assert.deepEqual([(await gateway.complete(1)).status, (await fetch(`${gateway.url}/health`)).status], [503, 503]);
    await see('servers_ready', 0);
    await see('saturation', 1);
    await gateway.control({ unavailable: false, servers: 1 });
    assert.equal((await gateway.complete(1)).status, 200);
    await see('servers_ready', 1);
    await gateway.control({ servers: 2 });
  });

  test('refuses an unreadable request', async () => {
    const statuses = await Promise.all([
      gateway.post('/v1/completions', 'not JSON'),
      gateway.post('/v1/completions', 'null'),
      gateway.complete(0),
      gateway.post('/control', { port: 1 }),
      gateway.post('/v1/completions', ' '.repeat(2 * 1024 * 1024)),
      gateway.post('/elsewhere', {}),
    ]);
    assert.deepEqual(
      statuses.map(({ status }) => status),
      [400, 400, 400, 400, 413, 404],
    );
  });

  test('has metrics in the format of Prometheus', { skip: WITHOUT_PROMETHEUS }, async () => {
    assert.equal(promtool(['check', 'metrics'], await gateway.metrics()), '');
  });

  test('ends at SIGTERM with requests still running', async () => {
    const request = gateway.complete(FOR_EVER).then(
      () => 'answered',
      () => 'cut off',
    );
    await see('requests_running', 1);
    assert.equal(await gateway.stop(), 0);
    assert.equal(await request, 'cut off');
  });
});
