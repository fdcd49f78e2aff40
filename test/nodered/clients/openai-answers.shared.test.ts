/**
 * Answers as the libraries of OpenAI read them: through the flow, compiled and at the engine, and the same of a stream
 * response in their format.
 */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { streamOut } from '../../fixtures/drawn.ts';
import { endpoint, func, httpIn, runtime, stage, TAB } from '../../fixtures/flow.ts';
import { engineUrl, type FlowNode, useNodeRed } from '../../fixtures/node-red.ts';

const DOES = `
  if (input.exit) process.exit(3);
  if (input.error) throw Object.assign(new Error(input.error), { code: input.code });
  return input.give ? eval('(' + input.give + ')') : input;`;

/** An endpoint that is compiled, and the same behind a function node. */
function drawn(kind: string): FlowNode[] {
  const draw = (path: string, at: string): FlowNode[] => {
    const isChat = kind === '/chat';
    const [first, ...rest] = isChat ? [httpIn(`in ${path}`, path, at)] : endpoint(path, at);
    const out = isChat ? `out ${path}` : `collector ${path}`;
    return [
      { ...first, wires: [[path.startsWith('/f') ? `pass ${path}` : at]] } as FlowNode,
      ...rest,
      ...(path.startsWith('/f') ? [func(`pass ${path}`, 'return msg;', at)] : []),
      stage(at, DOES, out),
      ...(isChat ? [streamOut(`out ${path}`, { format: 'openai' })] : []),
    ];
  };
  return ['/c', '/f'].flatMap((way) => draw(`${way}${kind}/embeddings`, `${way}${kind}`));
}

const red = useNodeRed({
  flows: [TAB, runtime('runtime', { listen: '127.0.0.1:0' }), ...drawn('/plain'), ...drawn('/chat')],
});

interface Told {
  readonly status: number;
  readonly retry: string | null;
  readonly body: unknown;
}

/** Asks everywhere, and returns the one answer. */
async function ask(kind: string, sent: unknown): Promise<Told> {
  const urls = [`${red.url}/c`, `${red.url}/f`, `${await engineUrl(red)}/c`];
  const answers = await Promise.all(
    urls.map(async (url): Promise<Told> => {
      const headers = { 'Content-Type': 'application/json', 'X-Request-Id': 'same' };
      const answer = await fetch(`${url}${kind}/embeddings`, { method: 'POST', headers, body: JSON.stringify(sent) });
      const text = (await answer.text()).replaceAll('/c/', '/f/').replace(/\bpid \d+/, 'pid');
      return { status: answer.status, retry: answer.headers.get('x-should-retry'), body: readable(text) };
    }),
  );
  const [one, ...others] = answers as [Told, ...Told[]];
  for (const other of others) assert.deepEqual(other, one, JSON.stringify(sent));
  return one;
}

function readable(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

/** Reads an embedding as the libraries do. */
function floatsOf(base64: unknown): number[] {
  const bytes = Buffer.from(String(base64), 'base64');
  return Array.from({ length: bytes.length / 4 }, (_, index) => bytes.readFloatLE(index * 4));
}

const VECTORS: readonly (readonly [name: string, embedding: string, numbers: readonly number[]])[] = [
  ['a list', '[0.5, -1, 3.25]', [0.5, -1, 3.25]],
  ['a typed array', 'Float32Array.of(0.1, 2)', [Math.fround(0.1), 2]],
  ['doubles', 'Float64Array.of(0.1, 2)', [Math.fround(0.1), 2]],
  ['a tensor', '{ data: Float32Array.of(1, 2), dims: [1, 2], type: "float32" }', [1, 2]],
  ['nothing', '[]', []],
];

for (const kind of ['/plain', '/chat']) {
  describe(`embeddings at ${kind}`, () => {
    for (const [name, vector, numbers] of VECTORS) {
      test(`${name} is base64 for a client that asks for it, and numbers for others`, async () => {
        const give = `{ object: "list", data: [{ index: 0, embedding: ${vector} }], usage: { total_tokens: 3 } }`;
        for (const encoding_format of ['base64', 'float', undefined]) {
          const { status, body } = await ask(kind, { give, encoding_format });
          const { data, ...rest } = body as { data: { index: number; embedding: unknown }[] };
          assert.deepEqual([status, rest, data[0]?.index], [200, { object: 'list', usage: { total_tokens: 3 } }, 0]);
          const told = data[0]?.embedding;
          const read = encoding_format === 'base64' ? floatsOf(told) : (told as number[]).flat().map(Math.fround);
          assert.deepEqual(read, numbers);
        }
      });
    }

    test('everything else stays as the modelet made it', async () => {
      const own = [{ embedding: 'AAAA' }, { embedding: null }, null, { embedding: ['a'] }, 5];
      const made = { object: 'list', data: own };
      const { body } = await ask(kind, { give: JSON.stringify(made), encoding_format: 'base64' });
      assert.deepEqual(body, made);
    });

    test('an error that the same request would meet again asks the libraries not to repeat it', async () => {
      const told = async (sent: object): Promise<unknown[]> => {
        const { status, retry } = await ask(kind, sent);
        return [status, retry];
      };
      assert.deepEqual(await told({ error: 'broken' }), [500, 'false']);
      assert.deepEqual(await told({ error: 'no', code: 'invalid_input' }), [422, null]);
      assert.deepEqual(await told({ exit: true }), [503, null]);
    });
  });
}
