/** Schemas of stages in Python: the engine checks inputs as for JavaScript, and the package jsonschema checks results. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import { folderFor } from '../../fixtures/folder.ts';
import { until } from '../../fixtures/polling.ts';
import { pythonWith, WITHOUT_PYTHON } from '../../fixtures/python.ts';
import { repositoryRoot } from '../../fixtures/repository.ts';
import { type StageSpec, serve } from '../../fixtures/service.ts';

const [PANDAS, WITHOUT_PANDAS] = pythonWith('pandas', 'pydantic');
const [JSONSCHEMA, WITHOUT_JSONSCHEMA] = pythonWith('jsonschema');
const [PYDANTIC, WITHOUT_PYDANTIC] = pythonWith('jsonschema', 'pydantic');

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
    assert.match(answers[2]?.error?.message ?? '', /^output must NOT have more than 2 items$/);
    assert.match(answers[3]?.error?.message ?? '', /must have required property 'n'/);
    await until('the batch is counted', () => service.stage('model').items === 2);
  });
});

describe('a schema of results of a stage in Python', () => {
  test('has the messages of JavaScript', { skip: WITHOUT_JSONSCHEMA }, async (t) => {
    const folder = folderFor(t);
    const outputSchema = {
      type: 'object',
      properties: {
        least: { type: 'number', minimum: 1 },
        most: { type: 'number', exclusiveMaximum: 1 },
        even: { type: 'number', multipleOf: 2 },
        short: { type: 'string', maxLength: 1 },
        items: { type: 'array', minItems: 1 },
        kind: { enum: ['a', 2] },
        same: { const: 1 },
        text: { type: ['string', 'null'], pattern: '^a' },
        day: { type: 'string', format: 'date' },
        other: { not: { type: 'number' } },
        some: { type: 'object', required: ['a'] },
        few: { type: 'object', minProperties: 1 },
      },
      patternProperties: { '^x': {} },
      additionalProperties: false,
    };
    const [python, file] = [join(folder, 'model.py'), join(folder, 'model.mjs')];
    writeFileSync(python, 'def predict(value): return value');
    writeFileSync(file, 'export default (value) => value;');
    const stages = [{ python, interpreter: JSONSCHEMA }, { file }].map((source, at) => ({
      id: `s${at}`,
      outputSchema,
      ...source,
    }));
    const service = await serve(t, { stages, routes: { s0: ['s0'], s1: ['s1'] } });
    for (const [value, message] of [
      [{ least: 0 }, '/least must be >= 1'],
      [{ most: 1 }, '/most must be < 1'],
      [{ even: 3 }, '/even must be multiple of 2'],
      [{ short: 'ab' }, '/short must NOT have more than 1 characters'],
      [{ items: [] }, '/items must NOT have fewer than 1 items'],
      [{ kind: 'b' }, '/kind must be equal to one of the allowed values: "a", 2'],
      [{ same: 2 }, '/same must be equal to constant'],
      [{ text: 3 }, '/text must be string,null'],
      [{ text: 'b' }, '/text must match pattern "^a"'],
      [{ day: 'a' }, '/day must match format "date"'],
      [{ other: 3 }, '/other must NOT be valid'],
      [{ few: {} }, '/few must NOT have fewer than 1 properties'],
      [{ some: { b: 1 } }, "/some must have required property 'a'"],
      [{ x1: 1, odd: 1 }, ' must NOT have additional properties: "odd"'],
    ] as const) {
      const [ofPython, ofJavaScript] = await Promise.all(['s0', 's1'].map((entry) => service.answer(value, { entry })));
      assert.equal(ofJavaScript?.error?.message, `output${message}`);
      assert.equal(ofPython?.error?.message, ofJavaScript?.error?.message);
    }
  });

  test('may be a pydantic model, and sees values as they are in JSON', { skip: WITHOUT_PYDANTIC }, async (t) => {
    const python = join(folderFor(t), 'model.py');
    const lines = `
import array
from datetime import datetime, timezone
from typing import List, Set
from uuid import UUID
from pydantic import BaseModel, Field

class Result(BaseModel):
    score: float = Field(le=1, alias="rating")
    scores: List[float]
    at: datetime
    id: UUID
    tags: Set[str]

def predict(kind):
    made = {"score": 2 if kind == "wrong" else 0.5, "at": datetime.fromtimestamp(0, timezone.utc), "tags": {"a"}}
    made.update(scores=array.array("d", [0.5, 1]), id=UUID(int=1))
    return Result(rating=made.pop("score"), **made) if kind == "model" else made

predict.output_schema = Result`;
    writeFileSync(python, lines);
    const service = await serve(t, { stages: [{ id: 'model', python, interpreter: PYDANTIC }] });
    await service.ready();
    const rest = { score: 0.5, at: new Date(0), id: '00000000-0000-0000-0000-000000000001', tags: new Set(['a']) };
    assert.deepEqual(await service.value('model'), { ...rest, scores: [0.5, 1] });
    assert.deepEqual(await service.value('dict'), { ...rest, scores: Float64Array.of(0.5, 1) });
    const { error } = await service.answer('wrong');
    assert.equal(error?.message, 'output/score must be <= 1');
  });

  test('sees arrays and frames as they are in JSON', { skip: WITHOUT_PANDAS }, () => {
    const code = `
import json
import numpy as np
import pandas as pd
from modelet_worker.objects import json_form_of
frame = pd.DataFrame({"at": pd.to_datetime(["1970-01-01"]), "n": [1]})
print(json.dumps(json_form_of([np.float32(0.5), np.ones((1, 2)), np.ma.array([1, 2], mask=[0, 1]), frame, frame["at"]])))`;
    const folder = join(repositoryRoot, 'src', 'runtime', 'worker', 'python');
    const printed = execFileSync(PANDAS, ['-B', '-c', code], { cwd: folder, encoding: 'utf8' });
    const at = '1970-01-01T00:00:00.000Z';
    assert.deepEqual(JSON.parse(printed), [0.5, [[1, 1]], [1, null], [{ at, n: 1 }], [at]]);
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
from pathlib import Path
from typing import List, Literal, Optional, Union
from pydantic import UUID4, BaseModel, Field

class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int = Field(ge=0)

class Dog(BaseModel):
    kind: Literal["dog"]
    name: str = ""

class Request(BaseModel):
    pet: Union[Cat, Dog] = Field(discriminator="kind")
    tags: List[str] = []
    format: Optional[Path] = None
    id: Optional[UUID4] = None

class Model:
    input_schema = Request
    def predict(self, value):
        return value["pet"]["kind"]`;
    writeFileSync(python, lines);
    const service = await serve(t, { stages: [{ id: 'model', python, interpreter: PANDAS }] });
    await service.ready();
    assert.equal(await service.value({ pet: { kind: 'dog', name: 'Rex' }, tags: ['a'] }), 'dog');
    const more = { format: '/a', id: '3b241101-e2bb-4255-8caf-4136c566a962' };
    assert.equal(await service.value({ pet: { kind: 'cat', lives: 1 }, ...more }), 'cat');
    const misspelt = await service.answer({ pet: { kind: 'cat', lives: 1 }, id: 'x' });
    assert.match(misspelt.error?.message ?? '', /input\/id must match format "uuid"/);
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
