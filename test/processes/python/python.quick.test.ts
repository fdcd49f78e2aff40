/** Modelets in Python answer as modelets in JavaScript do, with no package but the standard library. */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, type TestContext, test } from 'node:test';
import { folderFor } from '../../fixtures/folder.ts';
import { allGone } from '../../fixtures/processes.ts';
import { WITHOUT_PYTHON } from '../../fixtures/python.ts';
import { type StageSpec, serve, startService, type TestService } from '../../fixtures/service.ts';
import { FAULTS, outcomes } from './python-faults.ts';

describe('a modelet in Python', { skip: WITHOUT_PYTHON }, () => {
  let service: TestService;
  before(async () => {
    service = await startService({ stages: [FAULTS], config: { maxPayloadBytes: 1_000_000 } });
  });
  after(async () => {
    await service.end();
    await allGone();
  });

  const wholeBatch: Readonly<Record<string, RegExp>> = {
    throw: /^modelet_failed: no such weights$/,
    'throw-refusal': /^invalid_input: nobody may ask that$/,
    'throw-hostile': /^modelet_failed: Hostile$/,
    assertion: /^modelet_failed: AssertionError$/,
    'too-few': /^bad_batch_length: predict returned 2 results for 3 inputs$/,
    'too-many': /^bad_batch_length: predict returned 4 results for 3 inputs$/,
    text: /^bad_batch_length: predict returned a value of type str instead of a list of 3 results$/,
    'no-list': /^bad_batch_length: predict returned a value of type dict/,
    nothing: /^bad_batch_length: predict returned a value of type NoneType/,
    recursion: /^modelet_failed: maximum recursion depth exceeded/,
  };
  for (const [fault, expected] of Object.entries(wholeBatch)) {
    test(`whose predict comes to "${fault}" fails the whole batch`, async () => {
      for (const outcome of await outcomes(service, ['', fault, ''])) assert.match(outcome, expected);
    });
  }

  const oneItem: Readonly<Record<string, RegExp>> = {
    error: /^modelet_failed: this item only$/,
    'refusal-error': /^invalid_input: this value only$/,
    'key-error': /^modelet_failed: KeyError: 'size'$/,
    'bad-item': /^invalid_input: x must be positive$/,
    preprocess: /^modelet_failed: cannot be prepared$/,
    postprocess: /^modelet_failed: cannot be finished$/,
    function: /^modelet_failed: .*a value of type builtin_function_or_method/,
    'nested-function': /^modelet_failed: .*a value of type builtin_function_or_method/,
    'tuple-key': /^modelet_failed: .*a key of type tuple/,
    complex: /^modelet_failed: .*a value of type complex/,
    deep: /^modelet_failed: the value is nested deeper than 1000 levels$/,
  };
  for (const [fault, expected] of Object.entries(oneItem)) {
    test(`fails only the item that comes to "${fault}"`, async () => {
      const [first, second, third] = await outcomes(service, ['', fault, '']);
      assert.match(second ?? '', expected);
      assert.deepEqual([first, third], ['ok', 'ok']);
    });
  }

  test('fails an item whose result is too large alone, and says how large it is', async () => {
    const [, second, third] = await outcomes(service, ['', { fault: 'big', bytes: 1_000_000 }, '']);
    assert.match(second ?? '', /^modelet_failed: the result is 1000002 bytes; the limit is 1000000 bytes$/);
    assert.equal(third, 'ok');
  });

  test('reports its error with the traceback, own fields and the chain of causes', async () => {
    const asked = ['throw', '', ''].map((fault, n) => service.answer({ fault, n }));
    const [{ error } = { error: null }] = await Promise.all(asked);
    assert.ok(error);
    assert.equal(error.stage, 'model');
    assert.match(
      error.stack ?? '',
      /^Traceback \(most recent call last\):\n {2}File ".*faults\.py", line \d+, in predict/,
    );
    assert.match(error.stack ?? '', /ModelError: no such weights$/);
    assert.doesNotMatch(error.stack ?? '', /modelet_worker/);
    const cause = error.cause as Error & { layer: number };
    assert.deepEqual([cause.name, cause.message, cause.layer], ['ModelError', 'no such weights', 3]);
    const second = cause.cause as Error;
    assert.deepEqual([second.name, second.message], ['TypeError', 'shape 3x4 expected']);
    assert.equal((second.cause as Error).message, "KeyError: 'disk'");
  });

  test('may return tuples, None, and keys that are not strings', async () => {
    const asked = ['tuple', 'none', 'keys'].map((fault, n) => service.value({ fault, n }));
    assert.deepEqual(await Promise.all(asked), [
      [1, [2, Buffer.from('x')]],
      null,
      { 1: 'yes', null: 'none', 2.5: Buffer.from('x') },
    ]);
  });
});

describe('a batch in Python', { skip: WITHOUT_PYTHON }, () => {
  const batch = { policy: 'oldest', maxBatchSize: 3, maxWaitMs: 5000 } as const;

  function serveLines(t: TestContext, lines: string, stage: Partial<StageSpec>): Promise<TestService> {
    const python = join(folderFor(t), 'model.py');
    writeFileSync(python, lines);
    return serve(t, { stages: [{ id: 'model', python, batch, ...stage }] });
  }

  const PREDICTS = {
    'sorts its inputs': 'results = [value.upper() for value in values]; values.sort(key=len); return results',
    'empties its inputs': 'results = [value.upper() for value in values]; values.clear(); return results',
  };
  for (const [does, predict] of Object.entries(PREDICTS)) {
    test(`gives postprocess the input of the same request when predict ${does}`, async (t) => {
      const lines = `
class Model:
    batch = True
    def predict(self, values):
        ${predict}
    def postprocess(self, result, value):
        return f"{value}: {result}"`;
      const service = await serveLines(t, lines, {});
      const values = await Promise.all(['ccc', 'a', 'bb'].map((value) => service.value(value)));
      assert.deepEqual(values, ['ccc: CCC', 'a: A', 'bb: BB']);
    });
  }

  const SHARED = { bytearray: 'bytearray(1)', array: "array.array('f', [0])", list: '[0]' };
  for (const [kind, shared] of Object.entries(SHARED)) {
    test(`gives each request its own result when predict writes all of them into the same ${kind}`, async (t) => {
      const lines = `
import array
shared = ${shared}
def predict(value):
    shared[0] = value
    return shared`;
      const service = await serveLines(t, lines, { predict: 'item' });
      const values = await Promise.all([1, 2, 3].map((value) => service.value<ArrayLike<number>>(value)));
      assert.deepEqual(
        values.map((value) => value[0]),
        [1, 2, 3],
      );
    });
  }
});
