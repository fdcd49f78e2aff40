/**
 * The form of each value in an HTTP answer: values x sources x JSON and msgpack, as docs/reference/values.md has it. A
 * source that cannot make a value has no expression for it.
 */
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { decode, encode } from '@msgpack/msgpack';
import { CALLERS, FORMS, type Form, post, TYPES, typeOf } from '../fixtures/callers.ts';
import { endpoint, runtime, stage, TAB } from '../fixtures/flow.ts';
import { type NodeRed, useNodeRed } from '../fixtures/node-red.ts';
import { doubling, writeModel } from '../fixtures/onnx.ts';
import { PANDAS, WITHOUT_PANDAS } from '../fixtures/python.ts';

/** Expressions of the value, and its forms. Without `msgpack`, that form is the same. */
interface Row {
  readonly js?: string;
  readonly py?: string;
  readonly json: unknown;
  readonly msgpack?: unknown;
  /** The client of msgpack refuses such a value. */
  readonly jsonOnly?: true;
}

class Fails {
  readonly why: RegExp;
  constructor(why: RegExp) {
    this.why = why;
  }
}

const fails = (why: RegExp): Fails => new Fails(why);
const LARGE = 2n ** 60n;
const LARGE_TEXT = String(LARGE);
const EPOCH = '1970-01-01T00:00:00.000Z';

function tensor(type: string, dims: readonly number[], hex: string): object {
  return { data: new Uint8Array(Buffer.from(hex, 'hex')), dims, type };
}

const ROWS: Readonly<Record<string, Row>> = {
  'JSON values': {
    js: '({ a: [1, 2.5, "ä", true, null] })',
    py: '{"a": (1, 2.5, "ä", True, None)}',
    json: { a: [1, 2.5, 'ä', true, null] },
  },
  'text with NUL': { js: '["a\\u0000b"]', py: '["a\\0b"]', json: ['a\u0000b'] },
  'an array of numbers': {
    js: 'Float32Array.of(1, 2.5)',
    py: 'np.array([1, 2.5], "f4")',
    json: [1, 2.5],
    msgpack: tensor('float32', [2], '0000803f00002040'),
  },
  'a matrix': {
    js: '({ data: Int16Array.of(1, 2, 3, 4), dims: [2, 2], type: "int16" })',
    py: 'np.array([[1, 2], [3, 4]], "i2")',
    json: [
      [1, 2],
      [3, 4],
    ],
    msgpack: tensor('int16', [2, 2], '0100020003000400'),
  },
  'booleans in an array': {
    js: '({ data: Uint8Array.of(1, 0), dims: [1, 2], type: "bool" })',
    py: 'np.array([[True, False]])',
    json: [[true, false]],
    msgpack: tensor('bool', [1, 2], '0100'),
  },
  'booleans in a row': {
    js: '({ data: Uint8Array.of(1, 0), dims: [2], type: "bool" })',
    py: 'np.array([True, False])',
    json: [true, false],
    msgpack: tensor('bool', [2], '0100'),
  },
  'half floats in a row': { py: 'np.array([1, -2], "f2")', json: [1, -2], msgpack: tensor('float16', [2], '003c00c0') },
  'half floats': {
    js: '({ data: Float32Array.of(1, -2), dims: [1, 2], type: "float16" })',
    py: 'np.array([[1, -2]], "f2")',
    json: [[1, -2]],
    msgpack: tensor('float16', [1, 2], '003c00c0'),
  },
  'a matrix of numpy': {
    py: 'np.matrix([[1, 2]], "i2")',
    json: [[1, 2]],
    msgpack: tensor('int16', [1, 2], '01000200'),
  },
  'long floats': {
    py: 'np.array([[1]], np.longdouble)',
    json: [[1]],
    msgpack: tensor('float64', [1, 1], '000000000000f03f'),
  },
  int64: {
    js: 'BigInt64Array.of(7n, 2n ** 60n)',
    py: 'np.array([7, 2**60])',
    json: [7, LARGE_TEXT],
    msgpack: tensor('int64', [2], '07000000000000000000000000000010'),
  },
  'an empty matrix': { py: 'np.zeros((0, 3), "f4")', json: [], msgpack: tensor('float32', [0, 3], '') },
  'a float beyond float32': {
    js: 'Float32Array.of(1e300)',
    py: 'np.array([float("inf")], "f4")',
    json: [null],
    msgpack: tensor('float32', [1], '0000807f'),
  },
  'scalars of numpy': {
    py: '[np.float32(0.5), np.int64(2**60), np.bool_(True), np.str_("a")]',
    json: [0.5, LARGE_TEXT, true, 'a'],
    msgpack: [0.5, LARGE, true, 'a'],
  },
  'text in numpy': { py: '[np.array(["a", "b"]), np.array("c")]', json: [['a', 'b'], 'c'] },
  'a masked array': { py: 'np.ma.array([1.5, 2.5], mask=[False, True])', json: [1.5, null] },
  'a time of numpy': {
    py: '[np.datetime64(0, "s"), np.datetime64("NaT")]',
    json: [EPOCH, null],
    msgpack: [new Date(0), null],
  },
  'a frame of pandas': {
    py: 'pd.DataFrame({"n": [1, 2], "at": pd.to_datetime(["1970-01-01", None])})',
    json: [
      { n: 1, at: EPOCH },
      { n: 2, at: null },
    ],
    msgpack: [
      { n: 1, at: new Date(0) },
      { n: 2, at: null },
    ],
  },
  'a frame of pandas with columns of one name': {
    py: 'pd.DataFrame([[1, 2]], columns=["a", "a"])',
    json: fails(/two columns of one name/),
  },
  'a series of pandas': {
    py: 'pd.Series([1.5], dtype="f4")',
    json: [1.5],
    msgpack: tensor('float32', [1], '0000c03f'),
  },
  'nothing, to pandas': { py: '[pd.NaT, pd.NA]', json: [null, null] },
  'a Decimal': { py: '[Decimal("0.10000000000000000001")]', json: ['0.10000000000000000001'] },
  'a time': {
    js: '[new Date(0)]',
    py: '[datetime.fromtimestamp(0, timezone.utc)]',
    json: [EPOCH],
    msgpack: [new Date(0)],
  },
  'an invalid time': { js: '[new Date(NaN)]', json: [null] },
  'a day': { py: '[date(2026, 2, 3)]', json: ['2026-02-03'] },
  'a dataclass': { py: 'Box("a", (1, np.float32(2)))', json: { label: 'a', corners: [1, 2] } },
  'a model of pydantic': { py: '[Point(x=1)]', json: [{ x: 1 }] },
  'an enum member': { py: '[Colour.RED]', json: ['red'] },
  'a Set': { js: 'new Set([Uint8Array.of(1)])', json: [[1]], msgpack: [new Uint8Array([1])] },
  'a set of text': { js: 'new Set(["a"])', py: '{"a"}', json: ['a'] },
  'a Map': { js: 'new Map([["a", new Set([1])], [2, 3]])', json: { a: [1], 2: 3 } },
  'a Map of objects': {
    js: 'new Map([[{ k: 1 }, 2]])',
    json: [[{ k: 1 }, 2]],
    msgpack: fails(/a Map with a object as key/),
  },
  'a Map with keys of one text': {
    js: 'new Map([[1, "a"], ["1", "b"]])',
    json: [
      [1, 'a'],
      ['1', 'b'],
    ],
    msgpack: fails(/a Map with the same key twice/),
  },
  'a dict with keys of one text': { py: '{1: "a", "1": "b"}', json: fails(/two keys that become "1"/) },
  'a dict with keys of libraries': { py: '{np.int64(1): 2, Colour.RED: 3}', json: { 1: 2, red: 3 } },
  'a dict with other keys': { py: '{1: "a", None: "b"}', json: { 1: 'a', null: 'b' } },
  'whole numbers': { js: '[5n, 2n ** 60n]', py: '[5, 2**60]', json: [5, LARGE_TEXT], msgpack: [5, LARGE] },
  'a whole number of 71 bits': {
    js: '[2n ** 70n]',
    py: '[2**70]',
    json: [String(2n ** 70n)],
    msgpack: fails(/has more than 64 bits/),
  },
  'no numbers': {
    js: '({ a: NaN, b: [-Infinity] })',
    py: '{"a": float("nan"), "b": [float("-inf")]}',
    json: { a: null, b: [null] },
    msgpack: { a: Number.NaN, b: [Number.NEGATIVE_INFINITY] },
  },
  'bytes within': {
    js: '({ b: Buffer.from("a") })',
    py: '{"b": b"a"}',
    json: { b: { type: 'Buffer', data: [97] } },
    msgpack: { b: new Uint8Array([97]) },
  },
  'an ArrayBuffer': { js: '[Uint8Array.of(1).buffer]', json: [[1]], msgpack: [new Uint8Array([1])] },
  'a property __proto__': {
    js: 'JSON.parse(\'{"__proto__": 1, "a": 2}\')',
    py: '{"__proto__": 1, "a": 2}',
    json: JSON.parse('{"__proto__": 1, "a": 2}'),
    jsonOnly: true,
  },
  'properties that are undefined': { js: '({ a: undefined, b: [undefined] })', json: { b: [null] } },
  'an instance': { js: 'new (class Point { x = 1; })()', json: { x: 1 } },
  'a class with toJSON': { js: '[new URL("http://x.example/")]', json: ['http://x.example/'] },
  'an Error and a RegExp': { js: '[new TypeError("t"), /a/g]', json: [{ name: 'TypeError', message: 't' }, '/a/g'] },
  'a function': { js: '({ f: () => 1 })', py: '[len]', json: fails(/function|builtin_function_or_method/) },
  'a handle': {
    js: '[new WeakMap()]',
    py: '[object()]',
    json: fails(/WeakMap.*return its data|a value of type object/),
  },
  'a duration': { py: 'timedelta(1)', json: fails(/total_seconds/) },
  'complex numbers': { py: '[np.complex64(1)]', json: fails(/a numpy value of type complex64/) },
  'a cycle': {
    js: '(() => { const list = []; list.push(list); return list; })()',
    py: 'cycle()',
    json: fails(/contains itself|circular|cannot be written|nested deeper/i),
  },
};

const JAVASCRIPT = "export default ({ give }) => (0, eval)('(' + give + ')');";
const PYTHON = `
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from enum import Enum
import numpy as np
import pandas as pd
from pydantic import BaseModel
@dataclass
class Box:
    label: str
    corners: tuple
class Point(BaseModel):
    x: int
class Colour(Enum):
    RED = "red"
def cycle():
    made = []
    made.append(made)
    return made
def predict(asked):
    return eval(asked["give"]) if isinstance(asked, dict) and "give" in asked else asked
`;

const folder = mkdtempSync(join(tmpdir(), 'modelet-forms-'));
let module = '';
after(() => {
  for (const path of [folder, module]) rmSync(path, { recursive: true, force: true });
});
function save(name: string, text: string): string {
  const path = join(folder, name);
  writeFileSync(path, text);
  return path;
}

const SOURCES: Readonly<
  Record<
    string,
    {
      readonly language: 'js' | 'py';
      readonly settings: Readonly<Record<string, unknown>>;
      readonly skip?: string | false;
    }
  >
> = {
  inline: { language: 'js', settings: { source: 'inline', code: "return eval('(' + input.give + ')');" } },
  file: { language: 'js', settings: { source: 'file', path: save('give.mjs', JAVASCRIPT), isolation: 'thread' } },
  module: { language: 'js', settings: { source: 'module', module: 'gives-values' } },
  python: {
    language: 'py',
    settings: { source: 'python', path: save('give.py', PYTHON), python: PANDAS },
    skip: WITHOUT_PANDAS,
  },
};
const DOUBLES = writeModel(folder, 'float32', doubling(['batch', 1]));
const WIDE = writeModel(folder, 'int64', doubling(['batch', 1], { type: 'int64' }));

const sources = Object.entries(SOURCES).filter(([, { skip }]) => !skip);
const red = useNodeRed({
  prepare: (nodeRed: NodeRed) => {
    module = join(nodeRed.userDir, 'node_modules', 'gives-values');
    mkdirSync(module, { recursive: true });
    writeFileSync(join(module, 'package.json'), '{"type": "module", "exports": "./index.js"}');
    writeFileSync(join(module, 'index.js'), JAVASCRIPT);
  },
  flows: [
    TAB,
    runtime(),
    ...sources.flatMap(([name, { settings }]) => [
      ...endpoint(`/${name}`, name),
      stage(name, '', `collector /${name}`, settings),
    ]),
    ...endpoint('/echo', 'echo'),
    stage('echo', 'return input;', 'collector /echo'),
    ...[
      ['doubles', DOUBLES],
      ['wide', WIDE],
    ].flatMap(([name = '', path]) => [
      ...endpoint(`/${name}`, name),
      stage(name, '', `collector /${name}`, { source: 'onnx', path, init: '{"tensors": true}' }),
    ]),
  ],
});

/** Integers beyond 2^53 - 1 are BigInts. */
function read(form: Form, bytes: Buffer): unknown {
  if (form === 'json') return JSON.parse(bytes.toString());
  const value = decode(new Uint8Array(bytes), { useBigInt64: true });
  return Array.isArray(value) ? value.map((one) => (one === 5n ? 5 : (one as unknown))) : value;
}

async function assertAnswer(url: string, body: unknown, form: Form, expected: unknown, what: string): Promise<void> {
  const answer = await post(`${red.url}${url}`, 'json', body, { Accept: TYPES[form] });
  const value = read(form, answer.bytes);
  assert.equal(typeOf(answer), TYPES[form], what);
  if (!(expected instanceof Fails)) {
    assert.deepEqual([answer.status, value], [200, expected], what);
    return;
  }
  const { error } = value as { error?: { code: string; message: string } };
  assert.deepEqual([answer.status, error?.code], [500, 'modelet_failed'], what);
  assert.match(error?.message ?? '', expected.why, what);
}

describe('every value has its form in an answer', () => {
  for (const [name, { language, skip = false }] of Object.entries(SOURCES)) {
    test(`by a stage of the source ${name}`, { skip }, async () => {
      for (const [what, row] of Object.entries(ROWS)) {
        const give = row[language];
        if (give === undefined) continue;
        for (const form of FORMS) {
          if (form === 'msgpack' && row.jsonOnly) continue;
          const expected = form === 'msgpack' && 'msgpack' in row ? row.msgpack : row.json;
          await assertAnswer(`/${name}`, { give }, form, expected, `${what} as ${form}: ${give}`);
        }
      }
    });
  }

  test('by an ONNX model', async () => {
    const halves = Buffer.from(encode(tensor('float32', [1, 1], '0000c03f')));
    const headers = { 'Content-Type': TYPES.msgpack, Accept: TYPES.json };
    const { status, bytes } = await CALLERS.fetch(`${red.url}/doubles`, headers, halves);
    assert.deepEqual([status, read('json', bytes)], [200, [3]]);
    await assertAnswer('/doubles', [1.5], 'json', [3], 'float32');
    await assertAnswer('/doubles', [1.5], 'msgpack', tensor('float32', [1], '00004040'), 'float32');
    await assertAnswer('/wide', [2 ** 53 - 1], 'json', ['18014398509481982'], 'int64');
    await assertAnswer('/wide', [7], 'msgpack', tensor('int64', [1], '0e00000000000000'), 'int64');
    for (const [given, why] of [
      [[1e300], /float32/],
      [['a\u0000'], /no float32/],
      [{ y: [1] }, /y/],
    ] as const) {
      const answer = await post(`${red.url}/doubles`, 'json', given, { Accept: TYPES.json });
      const { error } = read('json', answer.bytes) as { error: { code: string; message: string } };
      assert.deepEqual([answer.status, error.code], [422, 'invalid_input']);
      assert.match(error.message, why);
    }
  });

  const sent = {
    ...{ at: new Date(0), bytes: new Uint8Array([1]), large: LARGE, text: 'a\u0000b', list: [Number.NaN] },
    square: tensor('float16', [1, 2], '003c00c0'),
  };
  const answered = {
    ...{ ...sent, at: EPOCH, bytes: { type: 'Buffer', data: [1] }, large: LARGE_TEXT, list: [null] },
    square: [[1, -2]],
  };
  for (const name of ['echo', 'python']) {
    test(`when it came as msgpack and passed ${name}`, { skip: name === 'python' && WITHOUT_PANDAS }, async () => {
      const body = Buffer.from(encode(sent, { useBigInt64: true }));
      for (const form of FORMS) {
        const headers = { 'Content-Type': TYPES.msgpack, Accept: TYPES[form] };
        const { status, bytes } = await CALLERS.fetch(`${red.url}/${name}`, headers, body);
        assert.deepEqual([status, read(form, bytes)], [200, form === 'json' ? answered : sent], form);
      }
    });
  }
});
