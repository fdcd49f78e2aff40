/** The example flow of a result that comes in parts, deployed as it is shipped: word by word, to messages and to a client. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { type FlowNode, type Message, useNodeRed } from '../../fixtures/node-red.ts';
import { until } from '../../fixtures/polling.ts';
import { repositoryRoot } from '../../fixtures/repository.ts';

const flow = JSON.parse(
  readFileSync(join(repositoryRoot, 'examples', 'Tokens as server-sent events.json'), 'utf8'),
) as FlowNode[];

const red = useNodeRed({ flows: flow });

function find(name: string): string {
  const found = flow.filter((node) => node['name'] === name);
  assert.equal(found.length, 1, name);
  return (found[0] as FlowNode).id;
}

async function press(button: string, debug: string): Promise<Message> {
  const messages = red.inputs(find(debug));
  await red.press(find(button));
  return until(`${debug} gets something`, () => messages[0]);
}

interface ServerSent {
  readonly event: string;
  readonly data: unknown;
}

/** The events of an answer that has come whole. */
function eventsOf(text: string): ServerSent[] {
  const events = text.split('\n\n').slice(0, -1);
  return events.map((event) => {
    const [, name = 'message', data = ''] = /^(?:event: (.*)\n)?data: (.*)$/.exec(event) ?? [];
    return { event: name, data: JSON.parse(data) as unknown };
  });
}

const tokens = (input: object, { headers = {}, ...init }: RequestInit = {}): Promise<Response> =>
  fetch(`${red.url}/tokens`, {
    ...{ method: 'POST', headers: { 'Content-Type': 'application/json', ...headers }, body: JSON.stringify(input) },
    ...init,
  });

test('the buttons give words one by one, and the same text each time', async () => {
  const words = red.inputs(find('words'));
  const { payload: first } = await press('12 words, seed 7', 'the text');
  assert.equal(String(first).split(' ').length, 12);
  assert.equal(
    words
      .slice(0, 12)
      .map(({ payload }) => payload)
      .join(' '),
    first,
  );
  assert.deepEqual([words.length, words[12]?.payload], [13, { words: 12, seed: 7 }]);
  assert.equal((await press('12 words, seed 7', 'the text')).payload, first);
  const { error } = await press('refused: no words at all', 'errors');
  assert.equal(error?.code, 'invalid_input');
});

test('several clients at a time get their own words as events, and then the end', async () => {
  const answers = await Promise.all(
    [
      { prompt: 'the river', words: 5, seed: 7 },
      { prompt: 'a heron', words: 8, seed: 2 },
    ].map(async (input) => {
      const response = await tokens(input);
      assert.equal(response.headers.get('content-type'), 'text/event-stream');
      return eventsOf(await response.text());
    }),
  );
  for (const [index, count] of [5, 8].entries()) {
    const events = answers[index] ?? [];
    assert.deepEqual(
      events.map(({ event }) => event),
      [...Array.from({ length: count }, () => 'message'), 'done'],
    );
    assert.deepEqual((events.at(-1)?.data as { words: number } | undefined)?.words, count);
  }
});

test('the endpoint is compiled', async () => {
  assert.deepEqual(
    (await red.snapshot()).endpoints.map(({ reason }) => reason),
    [null],
  );
});

test('an invalid request gets an error instead of events', async () => {
  const response = await tokens({ words: 'many' });
  assert.equal(response.status, 422);
  const { error } = (await response.json()) as { error: { code: string } };
  assert.equal(error.code, 'invalid_input');
});

test('a client that leaves ends the generator, and a worker that dies halfway ends the events', async () => {
  const leaving = new AbortController();
  const left = await tokens({ words: 1000 }, { signal: leaving.signal });
  await left.body?.getReader().read();
  leaving.abort();
  await until('the log tells', () => red.logs.some((line) => /stopped after \d+ of 1000 words/.test(line)));

  const response = await tokens({ words: 1000, seed: 3 });
  const { runtimes } = await red.snapshot();
  const serving = runtimes[0]?.stages.find(({ name }) => name === 'babble over HTTP')?.workers ?? [];
  for (const { pid } of serving) process.kill(pid as number, 'SIGKILL');
  const last = eventsOf(await response.text()).at(-1);
  assert.equal(last?.event, 'error');
  assert.equal((last?.data as { error: { code: string } } | undefined)?.error.code, 'worker_lost');
});
