/** Results that are more than JSON, over HTTP and in the flow: arrays of numbers, sets, maps, objects of libraries. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { post, read, TYPES, typeOf } from '../fixtures/callers.ts';
import { endpoint, func, httpIn, httpOut, runtime, stage, TAB } from '../fixtures/flow.ts';
import { useNodeRed } from '../fixtures/node-red.ts';
import { doubling, writeModel } from '../fixtures/onnx.ts';
import { NUMPY, WITHOUT_NUMPY } from '../fixtures/python.ts';

const GIVE = `
const handle = new (class Session { #pointer = 1; run() { return this.#pointer; } })();
return eval('(' + input.give + ')');`;
const PYTHON = `
import decimal
import numpy as np

class Session:
    def to_dict(self):
        return {}

def predict(asked):
    return eval(asked["give"])
`;

const folder = mkdtempSync(join(tmpdir(), 'modelet-results-'));
const path = join(folder, 'model.py');
writeFileSync(path, PYTHON);
const onnx = writeModel(folder, 'int64', doubling(['batch', 2], { type: 'int64' }));
const red = useNodeRed({
  flows: [
    TAB,
    runtime(),
    ...endpoint('/give', 'give'),
    stage('give', GIVE, 'collector /give'),
    // The result as the flow behind the pipeline sees it.
    httpIn('in /seen', '/seen', 'seen'),
    stage('seen', GIVE, 'look'),
    func('look', 'msg.payload = { class: msg.payload.constructor.name, value: msg.payload }; return msg;', 'out /seen'),
    httpOut('out /seen'),
    ...endpoint('/python', 'python'),
    { ...stage('python', '', 'collector /python'), source: 'python', path, python: NUMPY },
    ...endpoint('/onnx', 'onnx'),
    { ...stage('onnx', '', 'collector /onnx'), source: 'onnx', path: onnx, init: '{"tensors": true}' },
  ],
});
after(() => rmSync(folder, { recursive: true }));

/** The status of the answer and what is in it. */
async function ask(url: string, give: unknown, accept: 'json' | 'msgpack' = 'json'): Promise<[number, unknown]> {
  const answer = await post(`${red.url}${url}`, 'json', { give }, { Accept: TYPES[accept] });
  assert.equal(typeOf(answer), TYPES[accept]);
  return [answer.status, read(accept, answer.bytes)];
}

async function refusal(url: string, give: string, accept: 'json' | 'msgpack' = 'json'): Promise<string> {
  const [status, body] = await ask(url, give, accept);
  const { error } = body as { error: Record<string, string> };
  assert.deepEqual([status, error['code']], [500, 'modelet_failed'], give);
  return error['message'] ?? '';
}

describe('a result of a modelet in JavaScript', () => {
  const rows: readonly (readonly [give: string, answered: unknown])[] = [
    ['Float32Array.of(1, 2.5)', [1, 2.5]],
    [
      '{ data: Float32Array.of(1, 2, 3, 4), dims: [2, 2], type: "float32" }',
      [
        [1, 2],
        [3, 4],
      ],
    ],
    ['[{ scores: Float64Array.of(0.5) }, Int8Array.of(-1)]', [{ scores: [0.5] }, [-1]]],
    ['new Set(["a", Uint16Array.of(2)])', ['a', [2]]],
    ['new Map([["a", new Set([1])]])', { a: [1] }],
    ['[5n, 2n ** 60n, BigInt64Array.of(7n)]', [5, '1152921504606846976', [7]]],
  ];
  for (const [give, answered] of rows) {
    test(`has its natural form in JSON: ${give}`, async () => {
      assert.deepEqual(await ask('/give', give), [200, answered]);
      const usual = await post(`${red.url}/give`, 'json', { give });
      assert.deepEqual(read('json', usual.bytes), answered);
    });
  }

  test('keeps type and shape of its arrays in msgpack', async () => {
    const data = Buffer.from(Float32Array.of(1, 2, 3, 4).buffer);
    const square = '{ data: Float32Array.of(1, 2, 3, 4), dims: [2, 2], type: "float32" }';
    const sent = { data, dims: [2, 2], type: 'float32' };
    assert.deepEqual(await ask('/give', square, 'msgpack'), [200, sent]);
    assert.deepEqual(await ask('/give', '[Float32Array.of(1, 2, 3, 4)]', 'msgpack'), [200, [{ ...sent, dims: [4] }]]);
  });

  test('reaches the flow as the modelet returned it', async () => {
    const seen: readonly (readonly [string, string])[] = [
      ['Float32Array.of(1)', 'Float32Array'],
      ['new Set([1])', 'Set'],
      ['new Map([["a", 1]])', 'Map'],
      ['{ data: Float32Array.of(1), dims: [1, 1], type: "float32" }', 'Object'],
    ];
    for (const [give, name] of seen) {
      const [status, body] = await ask('/seen', give);
      assert.deepEqual([status, (body as { class: string }).class], [200, name]);
    }
  });

  const refused: readonly (readonly [give: string, why: RegExp])[] = [
    ['handle', /^the value is a Session, which has no data of its own: return its data as a plain object, an array/],
    ['[{ model: handle }]', /^the value at 0\.model is a Session, which has no data of its own: return its data/],
    ['{ at: new Date(0), model: handle }', /is a Session, which has no data of its own: return its data/],
    ['{ answer: Promise.resolve(1) }', /^the value at answer is a Promise, .*: await it$/],
    ['new WeakMap()', /is a WeakMap, .*: return its data/],
    ['new Headers()', /is a Headers, .*: return its data/],
  ];
  for (const [give, why] of refused) {
    test(`fails and tells its author what to return if it would become {}: ${give}`, async () => {
      assert.match(await refusal('/give', give), why);
      assert.match(await refusal('/give', give, 'msgpack'), why);
    });
  }
});

describe('a result of a modelet in Python', { skip: WITHOUT_NUMPY }, () => {
  const rows: readonly (readonly [give: string, answered: unknown])[] = [
    ['np.array([1, 2.5])', [1, 2.5]],
    [
      'np.arange(6).reshape(2, 3)',
      [
        [0, 1, 2],
        [3, 4, 5],
      ],
    ],
    [
      'np.eye(2, dtype="f2")',
      [
        [1, 0],
        [0, 1],
      ],
    ],
    ['np.array([[True], [False]])', [[true], [false]]],
    ['np.zeros((0, 3))', []],
    ['[{"image": np.ones((1, 2, 1), "u1")}, np.float32(0.5)]', [{ image: [[[1], [1]]] }, 0.5]],
    ['{"n": float("nan"), "rows": [np.eye(1)]}', { n: null, rows: [[[1]]] }],
    ['np.array([2**60])', ['1152921504606846976']],
    ['{1, 2}', [1, 2]],
    ['(2**60, 5)', ['1152921504606846976', 5]],
  ];
  for (const [give, answered] of rows) {
    test(`has its natural form in JSON: ${give}`, async () => {
      assert.deepEqual(await ask('/python', give), [200, answered]);
    });
  }

  const packed: readonly (readonly [give: string, hex: string, dims: number[], type: string])[] = [
    ['np.array([1.0], "f4")', '0000803f', [1], 'float32'],
    ['np.array([[1, 2]], "i2")', '01000200', [1, 2], 'int16'],
    ['np.array([[1.0, -2.0]], "f2")', '003c00c0', [1, 2], 'float16'],
    ['np.array([[True, False]])', '0100', [1, 2], 'bool'],
    ['np.array([[1.0]], np.longdouble)', '000000000000f03f', [1, 1], 'float64'],
  ];
  for (const [give, hex, dims, type] of packed) {
    test(`keeps its type and shape in msgpack: ${give}`, async () => {
      const data = Buffer.from(hex, 'hex');
      assert.deepEqual(await ask('/python', give, 'msgpack'), [200, { data, dims, type }]);
    });
  }

  const refused: readonly (readonly [give: string, why: RegExp])[] = [
    ['Session()', /a value of type Session, which no other process can use: return what its to_dict\(\) gives$/],
    ['[{"x": object()}]', /a value of type object, which no other process can use: return a dict, a list, a num/],
    ['np.array([1], "m8[s]")', /a numpy value of type timedelta64\[s\], .*: return numbers, booleans or text/],
  ];
  for (const [give, why] of refused) {
    test(`fails and tells its author what to return: ${give}`, async () => {
      assert.match(await refusal('/python', give), why);
    });
  }
});

describe('tensors of an ONNX model', () => {
  test('are nested arrays in JSON as int64, and keep type and shape in msgpack', async () => {
    const answer = await post(`${red.url}/onnx`, 'json', [3, 4], { Accept: TYPES.json });
    assert.deepEqual([answer.status, read('json', answer.bytes)], [200, [6, 8]]);
    const packed = await post(`${red.url}/onnx`, 'json', [3, 4], { Accept: TYPES.msgpack });
    const data = Buffer.from(BigInt64Array.of(6n, 8n).buffer);
    assert.deepEqual(read('msgpack', packed.bytes), { data, dims: [2], type: 'int64' });
  });
});
