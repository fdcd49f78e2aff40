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
import { CALLERS, FORMS, type Form, post, TYPES, typeOf } from '../../fixtures/callers.ts';
import { endpoint, runtime, stage, TAB } from '../../fixtures/flow.ts';
import { type NodeRed, useNodeRed } from '../../fixtures/node-red.ts';
import { doubling, writeModel } from '../../fixtures/onnx.ts';
import { pythonWith } from '../../fixtures/python.ts';
import { EPOCH, Fails, FORM_ROWS, LARGE, LARGE_TEXT, tensor } from '../../fixtures/value-forms.ts';

const [PANDAS, WITHOUT_PANDAS] = pythonWith('pandas', 'pydantic');

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
      for (const [what, row] of Object.entries(FORM_ROWS)) {
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
    assert.deepEqual([status, read('json', bytes)], [200, [[3]]]);
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

test('a large integer of a JSON body is exact, rounded or refused, as the language can', async () => {
  const ways: readonly (readonly [path: string, skip: boolean, status: number, answer: unknown])[] = [
    ['/python', Boolean(WITHOUT_PANDAS), 200, ['9007199254740993', '-9007199254740993']],
    ['/echo', false, 200, [9007199254740992, -9007199254740992]],
    ['/wide', false, 422, 'invalid_input'],
  ];
  for (const [path, skip, status, expected] of ways) {
    if (skip) continue;
    for (const text of ['[9007199254740993, -9007199254740993]', '[9007199254740993,-9007199254740993]']) {
      const headers = { 'Content-Type': TYPES.json, Accept: TYPES.json };
      const answer = await CALLERS.fetch(`${red.url}${path}`, headers, Buffer.from(text));
      const value = read('json', answer.bytes) as { error?: { code: string } };
      assert.deepEqual([answer.status, value.error?.code ?? value], [status, expected], path);
    }
  }
});
