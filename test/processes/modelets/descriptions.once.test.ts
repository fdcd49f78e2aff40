/** Descriptions of modelets reach the server from each kind of worker, again after a change, and within a size limit. */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { folderFor } from '../../fixtures/folder.ts';
import { ISOLATIONS } from '../../fixtures/isolations.ts';
import { digitsModel } from '../../fixtures/onnx.ts';
import { until } from '../../fixtures/polling.ts';
import { pythonWith } from '../../fixtures/python.ts';
import { type StageSpec, serve, type TestService } from '../../fixtures/service.ts';

const [JSONSCHEMA, WITHOUT_JSONSCHEMA] = pythonWith('jsonschema');

interface Told {
  readonly input: unknown;
  readonly output: unknown;
  readonly examples: readonly unknown[];
}

function told({ service }: TestService, node: string): Told | null {
  const description = service.description(node);
  if (!description) return null;
  const parse = (text: string | null): unknown => (text === null ? null : JSON.parse(text));
  const { inputSchema, outputSchema, examples } = description;
  return { input: parse(inputSchema), output: parse(outputSchema), examples: examples.map(parse) };
}

const NUMBER = { type: 'number' };

function code(input: unknown, examples = '[1]'): string {
  return `const predict = (x) => x;
    predict.inputSchema = ${JSON.stringify(input)};
    predict.examples = ${examples};
    export default predict;`;
}

for (const isolation of ISOLATIONS) {
  test(`a modelet in a ${isolation}: its schemas, those of its stage first, and its examples`, async (t) => {
    const file = join(folderFor(t), 'model.mjs');
    writeFileSync(file, code(NUMBER, '[1, 2, 3, 4]'));
    const stages: StageSpec[] = [
      { id: 'own', file, isolation },
      { id: 'given', file, isolation, inputSchema: { type: 'integer' }, outputSchema: true },
      { id: 'inline', inline: 'return input;', isolation },
    ];
    const service = await serve(t, { stages });
    await service.ready();
    await until('all are told of', () => stages.every(({ id }) => told(service, id)));
    assert.deepEqual(told(service, 'own'), { input: NUMBER, output: null, examples: [1, 2, 3] });
    assert.deepEqual(told(service, 'given'), { input: { type: 'integer' }, output: true, examples: [1, 2, 3] });
    assert.deepEqual(told(service, 'inline'), { input: null, output: null, examples: [] });
    assert.deepEqual(told(service, 'in'), told(service, 'own'), 'an entry is known by its first stage');
    assert.equal(told(service, 'nobody'), null);
  });
}

test('new workers describe a changed file, also in a new engine, and a removed stage has no description', async (t) => {
  const file = join(folderFor(t), 'model.mjs');
  writeFileSync(file, code(NUMBER));
  const service = await serve(t, { stages: [{ id: 'model', file }] });
  await until('it is told of', () => told(service, 'model'));
  writeFileSync(file, code({ type: 'integer' }));
  service.service.actOnStage('model', 'restart');
  await until('the new code is told of', () => JSON.stringify(told(service, 'model')?.input) === '{"type":"integer"}');
  writeFileSync(file, code(false, '[]'));
  const { enginePid } = service;
  process.kill(enginePid, 'SIGKILL');
  assert.ok(told(service, 'model'), 'what was told holds meanwhile');
  await until('the new engine tells', () => told(service, 'model')?.input === false);
  service.apply({ stages: [{ id: 'other', file }] });
  assert.equal(told(service, 'model'), null);
});

const LONG = 'x'.repeat(300_000);

test('the stage omits a description that is too large or not JSON, and logs why it omits a schema', async (t) => {
  const folder = folderFor(t);
  const [large, odd] = [join(folder, 'large.mjs'), join(folder, 'odd.mjs')];
  writeFileSync(large, code({ description: LONG }));
  writeFileSync(odd, code(true, `[Buffer.from('a'), [new Date(0)], 'x'.repeat(5000), 1]`));
  const stages: StageSpec[] = [
    { id: 'large', file: large, outputSchema: NUMBER },
    { id: 'odd', file: odd },
  ];
  const service = await serve(t, { stages });
  await until('both are told of', () => told(service, 'large') && told(service, 'odd'));
  assert.deepEqual(told(service, 'large'), { input: null, output: NUMBER, examples: [1] });
  assert.deepEqual(told(service, 'odd'), { input: true, output: null, examples: [] });
  const warned = service.logs.filter(({ level }) => level === 'warn');
  assert.deepEqual(
    warned.map(({ stage, message }) => [stage, message.split(':')[0]]),
    [['large', 'inputSchema is checked, and not shown in the OpenAPI document']],
  );
});

describe('other sources', () => {
  test('an ONNX model: its ports and options describe its input and output', async (t) => {
    const labels = [...'0123456789'];
    const service = await serve(t, {
      stages: [
        { id: 'plain', onnx: digitsModel },
        { id: 'labelled', onnx: digitsModel, init: { labels } },
      ],
    });
    await until('both are told of', () => told(service, 'plain') && told(service, 'labelled'));
    const eight = (items: object) => ({ type: 'array', items, minItems: 8, maxItems: 8 });
    const image = [eight(eight(NUMBER)), { type: 'array', items: NUMBER }];
    const { input, output } = told(service, 'plain') as Told;
    assert.deepEqual((input as { anyOf: unknown }).anyOf, image);
    assert.deepEqual(output, { type: 'array', items: NUMBER, minItems: 10, maxItems: 10 });
    const { properties } = (told(service, 'labelled') as Told).output as { properties: object };
    assert.deepEqual(Object.keys(properties), ['label', 'index', 'score', 'scores']);
  });

  test('a modelet in Python describes its input, output and examples', { skip: WITHOUT_JSONSCHEMA }, async (t) => {
    const folder = folderFor(t);
    const stage = (id: string, input: string, examples: string): StageSpec => {
      const python = join(folder, `${id}.py`);
      const lines = [
        'class Model:',
        `input_schema = ${input}`,
        `examples = ${examples}`,
        'def predict(self, x): return x',
      ];
      writeFileSync(python, lines.join('\n    '));
      return { id, python, interpreter: JSONSCHEMA, outputSchema: true };
    };
    const stages = [
      stage('plain', '{"type": "array", "items": {"type": "number"}}', '((1, 2), [3])'),
      stage('large', `{"description": "${LONG}"}`, '[{"n": 1}]'),
      stage('odd', 'True', '[b"bytes", float("inf"), "x" * 5000]'),
    ];
    const service = await serve(t, { stages });
    await until('all are told of', () => stages.every(({ id }) => told(service, id)));
    const input = { type: 'array', items: NUMBER };
    assert.deepEqual(told(service, 'plain'), { input, output: true, examples: [[1, 2], [3]] });
    assert.deepEqual(told(service, 'large'), { input: null, output: true, examples: [{ n: 1 }] });
    assert.deepEqual(told(service, 'odd'), { input: true, output: true, examples: [] });
    assert.match(
      service.logs.find(({ level }) => level === 'warn')?.message ?? '',
      /^input_schema is checked, and not/,
    );
  });
});
