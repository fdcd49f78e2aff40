/** Any value goes in and comes out as it is, and an own `__proto__` stays data on the way. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { inspect } from 'node:util';
import { ISOLATIONS } from '../../fixtures/isolations.ts';
import { serve, type TestService } from '../../fixtures/service.ts';

interface Description {
  readonly text: string;
  readonly pid: number;
  readonly polluted: boolean;
}

function serveValues(
  t: Parameters<typeof serve>[0],
  isolation: (typeof ISOLATIONS)[number] = 'process',
): Promise<TestService> {
  return serve(t, {
    stages: [
      { id: 'echo', file: 'echo', isolation },
      { id: 'again', file: 'echo', isolation, predict: 'batch', batch: { maxBatchSize: 8 } },
      { id: 'describe', file: 'describe', isolation },
    ],
    routes: { echo: ['echo', 'again'], describe: ['describe'] },
  });
}

const cycle: { name: string; self?: unknown } = { name: 'cycle' };
cycle.self = cycle;

const VALUES: Readonly<Record<string, unknown>> = {
  null: null,
  'an empty string': '',
  zero: 0,
  'minus zero': -0,
  false: false,
  NaN: Number.NaN,
  Infinity: Number.NEGATIVE_INFINITY,
  'NaN within': { scores: [1, Number.NaN, Number.POSITIVE_INFINITY] },
  BigInt: 2n ** 80n,
  Date: new Date(86_400_000),
  'Date within': { taken: new Date(0), tags: ['a'] },
  Map: new Map<unknown, unknown>([
    ['a', 1],
    [{ k: 1 }, new Set([1, 2])],
  ]),
  RegExp: /a+b/gi,
  cycle,
  'undefined in an array': [1, undefined, 3],
  text: 'Grüße, 世界 🌍 \u0000 \ud800',
  nested: { a: [{ b: { c: [[], {}, null, true] } }] },
  Buffer: Buffer.from('raw bytes'),
  'an empty Buffer': Buffer.alloc(0),
  Uint8Array: Uint8Array.of(1, 2, 3),
  Float32Array: Float32Array.of(1.5, -2.25, Number.NaN),
  Float64Array: Float64Array.of(Math.PI),
  Int16Array: Int16Array.of(-1, 300),
  BigInt64Array: BigInt64Array.of(-5n),
  ArrayBuffer: Uint8Array.of(9, 8, 7).buffer,
  DataView: new DataView(Uint8Array.of(4, 5).buffer),
  'a view of a larger buffer': new Uint8Array(Uint8Array.of(0, 1, 2, 3, 4).buffer, 1, 3),
  'binaries within': { image: Buffer.from([255, 0]), rows: [Float32Array.of(1, 2), { mask: Uint8Array.of(1) }], n: 1 },
  'binaries beside a Date': { image: Buffer.from('x'), at: new Date(5), rows: [Float32Array.of(0.5)] },
};

describe('values', () => {
  for (const isolation of ISOLATIONS) {
    test(`values arrive in the worker unchanged, and come back unchanged (${isolation})`, async (t) => {
      const service = await serveValues(t, isolation);
      for (const [name, value] of Object.entries(VALUES)) {
        const back = await service.value(value, { entry: 'echo' });
        assert.deepEqual(back, value, name);
        assert.equal(Object.prototype.toString.call(back), Object.prototype.toString.call(value), name);
        const { text } = await service.value<Description>(value, { entry: 'describe' });
        assert.equal(text, inspect(value, { depth: 20, maxArrayLength: null }), `${name}, as the worker sees it`);
      }
    });
  }

  test('the codec drops undefined properties, as JSON does', async (t) => {
    const service = await serveValues(t);
    const back = await service.value({ a: undefined, b: 1 }, { entry: 'echo' });
    assert.deepEqual(back, { b: 1 });
    assert.deepEqual(Object.keys(back as object), ['b']);
  });

  test('large values arrive in the worker and come back unchanged', async (t) => {
    const service = await serveValues(t);
    const bytes = Buffer.alloc(8 * 1024 * 1024, 'abc');
    const numbers = Array.from({ length: 200_000 }, (_, index) => index);
    const [back, list, both] = await Promise.all([
      service.value<Buffer>(bytes, { entry: 'echo' }),
      service.value<number[]>(numbers, { entry: 'echo' }),
      service.value<{ bytes: Buffer; text: string }>({ bytes, text: 'x'.repeat(1_000_000) }, { entry: 'echo' }),
    ]);
    assert.ok(bytes.equals(back));
    assert.deepEqual(list, numbers);
    assert.ok(bytes.equals(both.bytes));
    assert.equal(both.text.length, 1_000_000);
  });

  test('a worker gets its own bytes', async (t) => {
    const service = await serve(t, {
      stages: [
        {
          id: 'size',
          inline: 'return [input.length, input.buffer.byteLength, input.byteOffset];',
          batch: { maxBatchSize: 9 },
        },
      ],
    });
    const sizes = await Promise.all([1, 2, 3].map((n) => service.value(Uint8Array.of(n, n, n))));
    for (const size of sizes) assert.deepEqual(size, [3, 3, 0]);
  });
});

describe('an own __proto__ property', () => {
  const PAYLOADS: Readonly<Record<string, unknown>> = {
    'in JSON': JSON.parse('{"__proto__":{"polluted":1},"a":1}'),
    'further down': JSON.parse('{"list":[{"__proto__":{"polluted":1,"__proto__":{"polluted":2}}}]}'),
    'in constructor.prototype': JSON.parse('{"constructor":{"prototype":{"polluted":1}}}'),
    'beside a NaN': Object.assign(JSON.parse('{"__proto__":{"polluted":1}}') as object, { n: Number.NaN }),
    'around a binary': JSON.parse('{"a":{"__proto__":{"polluted":null}}}', (key, value: unknown) =>
      key === 'polluted' ? Buffer.from('p') : value,
    ),
  };

  test('stays data, and pollutes neither the worker nor this process', async (t) => {
    const service = await serveValues(t);
    const { pid } = await service.value<Description>(1, { entry: 'describe' });
    for (const [name, payload] of Object.entries(PAYLOADS)) {
      const back = await service.value<object>(payload, { entry: 'echo' });
      assert.equal(inspect(back, { depth: 9 }), inspect(payload, { depth: 9 }), name);
      assert.equal(Object.getPrototypeOf(back), Object.prototype, name);
      const described = await service.value<Description>(payload, { entry: 'describe' });
      assert.deepEqual(described, { text: inspect(payload, { depth: 9 }), pid, polluted: false }, name);
      const later = await service.value<Description>(1, { entry: 'describe' });
      assert.deepEqual(later, { text: '1', pid, polluted: false }, name);
      assert.equal(({} as { polluted?: unknown }).polluted, undefined, name);
    }
  });

  test('in the fields of an error stays data as well', async (t) => {
    const service = await serve(t, {
      stages: [{ id: 'throws', inline: 'throw Object.assign(new Error("bad"), { seen: input });' }],
    });
    const { error } = await service.answer(JSON.parse('{"__proto__":{"polluted":1}}'));
    const { seen } = (error as Error).cause as Error & { seen: object };
    assert.deepEqual(Object.keys(seen), ['__proto__']);
    assert.equal(Object.getPrototypeOf(seen), Object.prototype);
    assert.equal(({} as { polluted?: unknown }).polluted, undefined);
  });
});
