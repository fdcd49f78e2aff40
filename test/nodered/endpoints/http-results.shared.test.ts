/** Results that are more than JSON, in the flow, and those that no answer holds. value-forms.shared.test.ts has their forms. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { post, read, TYPES, typeOf } from '../../fixtures/callers.ts';
import { endpoint, func, httpIn, httpOut, runtime, stage, TAB } from '../../fixtures/flow.ts';
import { useNodeRed } from '../../fixtures/node-red.ts';
import { pythonWith } from '../../fixtures/python.ts';

const [NUMPY, WITHOUT_NUMPY] = pythonWith('numpy');

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
    // Without numpy the stage would never be ready.
    ...(WITHOUT_NUMPY
      ? []
      : [
          ...endpoint('/python', 'python'),
          { ...stage('python', '', 'collector /python'), source: 'python', path, python: NUMPY },
        ]),
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
  test('has its natural form in JSON for a caller that accepts anything', async () => {
    const usual = await post(`${red.url}/give`, 'json', { give: '[new Set(["a"]), Float32Array.of(1)]' });
    assert.deepEqual(read('json', usual.bytes), [['a'], [1]]);
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
    ['handle', /^the value is a Session, which has no own data: return its data as a plain object, an array/],
    ['[{ model: handle }]', /^the value at 0\.model is a Session, which has no own data: return its data/],
    ['{ at: new Date(0), model: handle }', /is a Session, which has no own data: return its data/],
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
