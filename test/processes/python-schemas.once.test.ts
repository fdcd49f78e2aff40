/** Schemas of stages in Python: the engine checks inputs as for JavaScript, and the package jsonschema checks results. */

import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import { folderFor } from '../fixtures/folder.ts';
import { until } from '../fixtures/polling.ts';
import { JSONSCHEMA, PANDAS, WITHOUT_JSONSCHEMA, WITHOUT_PANDAS, WITHOUT_PYTHON } from '../fixtures/python.ts';
import { type StageSpec, serve } from '../fixtures/service.ts';

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
      { path: '/n', message: 'must be >= 0', keyword: 'minimum' },
      { path: '/tags/1', message: 'must be string', keyword: 'type' },
    ]);
    assert.equal(answers[1]?.error?.message, 'input/n must be >= 0; input/tags/1 must be string');
    assert.equal(answers[1]?.error?.stage, 'model');
    assert.match(answers[2]?.error?.message ?? '', /^output must be valid by maxItems: 2$/);
    assert.match(answers[3]?.error?.message ?? '', /must have required property 'n'/);
    await until('the batch is counted', () => service.stage('model').items === 2);
  });
});

describe('a schema of inputs of a stage in Python', { skip: WITHOUT_PYTHON }, () => {
  /** Returns why a worker with this file does not start. */
  async function refusal(t: TestContext, lines: string, stage: Partial<StageSpec> = {}): Promise<string> {
    const python = join(folderFor(t), 'model.py');
    writeFileSync(python, lines);
    const service = await serve(t, { stages: [{ id: 'model', python, ...stage }] });
    return until('the error is shown', () => service.stage('model').workers[0]?.error);
  }
  const ECHO = 'def predict(value): return value\n';

  test('needs no package, and fails each request that breaks it, also of a stage that keeps results', async (t) => {
    const python = join(folderFor(t), 'model.py');
    writeFileSync(python, `${ECHO}predict.input_schema = {"type": "integer"}\npredict.examples = [1, 2]`);
    const service = await serve(t, { stages: [{ id: 'model', python, cache: { entries: 10 } }] });
    await service.ready();
    const inputs = [1, 'a', 'a', 2.5, 1, null];
    const answers = await Promise.all(inputs.map((input) => service.answer(input)));
    const refused = 'invalid_input: input must be integer';
    assert.deepEqual(
      answers.map(({ code, value, error }) => (code === 'ok' ? value : `${code}: ${error?.message}`)),
      [1, refused, refused, refused, 1, refused],
    );
    // An input of half a million items has its first problem told only.
    const [many, few] = await Promise.all([service.answer(Array(100_000).fill('a')), service.answer('b')]);
    assert.deepEqual([many.code, few.code], ['invalid_input', 'invalid_input']);
    assert.equal(service.stage('model').queue, 0);
  });

  test('may be a pydantic model', { skip: WITHOUT_PANDAS }, async (t) => {
    const python = join(folderFor(t), 'model.py');
    const lines = `
from typing import List, Literal, Union
from pydantic import BaseModel, Field

class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int = Field(ge=0)

class Dog(BaseModel):
    kind: Literal["dog"]
    name: str = ""

class Request(BaseModel):
    pet: Union[Cat, Dog] = Field(discriminator="kind")
    tags: List[str] = []

class Model:
    input_schema = Request
    def predict(self, value):
        return value["pet"]["kind"]`;
    writeFileSync(python, lines);
    const service = await serve(t, { stages: [{ id: 'model', python, interpreter: PANDAS }] });
    await service.ready();
    assert.equal(await service.value({ pet: { kind: 'dog', name: 'Rex' }, tags: ['a'] }), 'dog');
    const { code, error } = await service.answer({ pet: { kind: 'cat', lives: -1 } });
    assert.equal(code, 'invalid_input');
    assert.match(error?.message ?? '', /input\/pet\/lives must be >= 0/);
  });

  test('keeps a worker from starting if it cannot be used, or if an example breaks it', async (t) => {
    assert.match(
      await refusal(t, ECHO, { inputSchema: { type: 'whole' } }),
      /^inputSchema cannot be used: schema is invalid/,
    );
    assert.match(
      await refusal(t, `${ECHO}predict.input_schema = {"const": object()}`),
      /^inputSchema cannot be used: Object of type object is not JSON serializable$/,
    );
    assert.match(
      await refusal(t, `${ECHO}predict.examples = [1, "a"]\npredict.input_schema = {"type": "number"}`),
      /^the warm-up failed at example 1: input must be number$/,
    );
  });
});

test('without the package for schemas of results a worker does not start, and the error says how to install it', {
  skip: WITHOUT_PYTHON,
}, async (t) => {
  const python = join(folderFor(t), 'model.py');
  writeFileSync(python, 'import sys\nsys.modules["jsonschema"] = None\ndef predict(value): return value');
  const service = await serve(t, { stages: [{ id: 'model', python, outputSchema: INPUT }] });
  const error = await until('the error is shown', () => service.stage('model').workers[0]?.error);
  assert.match(error, /^outputSchema needs the Python package jsonschema: .*python.* -m pip install jsonschema$/);
});
