/** Schemas hold in Python as they do in JavaScript, by the package jsonschema. */

import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { folderFor } from '../fixtures/folder.ts';
import { until } from '../fixtures/polling.ts';
import { JSONSCHEMA, WITHOUT_JSONSCHEMA, WITHOUT_PYTHON } from '../fixtures/python.ts';
import { serve } from '../fixtures/service.ts';

const INPUT = {
  type: 'object',
  properties: { n: { type: 'integer', minimum: 0 }, tags: { type: 'array', items: { type: 'string' } } },
  required: ['n'],
  additionalProperties: false,
};
const BATCH = { policy: 'oldest', maxBatchSize: 4, maxWaitMs: 60_000 } as const;

describe('a schema of a stage in Python', { skip: WITHOUT_JSONSCHEMA }, () => {
  test('refuses an input that violates it, alone in its batch, and says where; a wrong result fails', async (t) => {
    const python = join(folderFor(t), 'model.py');
    const lines = `
class Model:
    batch = True
    output_schema = {"type": "array", "maxItems": 2}
    input_schema = {"type": "string"}
    def predict(self, values):
        return [(value["n"],) * value["n"] for value in values]`;
    writeFileSync(python, lines);
    const stage = { id: 'model', python, interpreter: JSONSCHEMA, inputSchema: INPUT, batch: BATCH };
    const service = await serve(t, { stages: [stage] });
    const inputs = [{ n: 2 }, { n: -1, tags: ['a', 7] }, { n: 3 }, { more: 1 }];
    const answers = await Promise.all(inputs.map((input) => service.answer(input)));
    assert.deepEqual(
      answers.map(({ code }) => code),
      ['ok', 'invalid_input', 'modelet_failed', 'invalid_input'],
    );
    assert.deepEqual(answers[0]?.value, [2, 2]);
    assert.deepEqual(answers[1]?.error?.details, [
      { path: '/n', message: 'must be valid by minimum: 0', keyword: 'minimum' },
      { path: '/tags/1', message: 'must be string', keyword: 'type' },
    ]);
    assert.match(
      answers[1]?.error?.message ?? '',
      /^input\/n must be valid by minimum: 0; input\/tags\/1 must be string$/,
    );
    assert.match(answers[2]?.error?.message ?? '', /^output must be valid by maxItems: 2$/);
    assert.match(answers[3]?.error?.message ?? '', /must have required property 'n'/);
  });

  test('that is invalid prevents the start of the worker', async (t) => {
    const service = await serve(t, {
      stages: [{ id: 'model', python: 'echo', interpreter: JSONSCHEMA, inputSchema: { type: 'whole' } }],
    });
    const error = await until('the error is shown', () => service.stage('model').workers[0]?.error);
    assert.match(error, /^inputSchema cannot be used: /);
  });
});

test('a worker without the package for schemas does not start, and the error says how to install it', {
  skip: WITHOUT_PYTHON,
}, async (t) => {
  const python = join(folderFor(t), 'model.py');
  writeFileSync(python, 'import sys\nsys.modules["jsonschema"] = None\ndef predict(value): return value');
  const service = await serve(t, { stages: [{ id: 'model', python, inputSchema: INPUT }] });
  const error = await until('the error is shown', () => service.stage('model').workers[0]?.error);
  assert.match(error, /^inputSchema needs the Python package jsonschema: .*python.* -m pip install jsonschema$/);
});
