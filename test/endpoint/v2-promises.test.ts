/** Outputs of the KServe v2 protocol as the metadata of a model promise them: by an ONNX model, or by an output schema. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { ModeletError } from '../../src/core/errors.ts';
import type { ModeletDescription } from '../../src/core/model.ts';
import type { HttpCall, Input } from '../../src/http/exchange.ts';
import type { RowItems } from '../../src/http/rows/rows.ts';
import { prepareAnswer } from '../../src/http/served-endpoint.ts';
import { inferAnswer } from '../../src/http/v2/infer-answer.ts';
import { InferForm } from '../../src/http/v2/infer-form.ts';
import type { InferRequest } from '../../src/http/v2/infer-request.ts';
import { outputsOf as metadataOf, promisedOutputs } from '../../src/http/v2/metadata.ts';
import { Chunks } from '../../src/wire/codec/chunks.ts';
import { encodePayload } from '../../src/wire/codec/codec.ts';

interface AnsweredOutput {
  readonly name: string;
  readonly datatype: string;
  readonly shape: number[];
}

const ALL: InferRequest = { id: undefined, input: {}, outputs: null, binary: false, timeoutMs: 0, sequence: undefined };
const BOXES: InferRequest = { ...ALL, outputs: [{ name: 'boxes', binary: false }] };

function outputsOf(result: unknown, request: InferRequest = ALL, schema?: object): AnsweredOutput[] {
  const outputSchema = schema ? JSON.stringify(schema) : null;
  const promised = promisedOutputs({ inputSchema: null, outputSchema, examples: [] });
  const { body } = inferAnswer('m', request, result, promised);
  return (JSON.parse(body.toString()) as { outputs: AnsweredOutput[] }).outputs;
}

describe('the outputs of a model', () => {
  const promised = (type: string, shape: (number | string)[]): ModeletDescription => ({
    ...{ inputSchema: null, outputSchema: null, examples: [] },
    outputs: [{ name: 'scores', type, shape }],
  });
  const given = (result: unknown, description: ModeletDescription): unknown => {
    const { body } = inferAnswer('m', ALL, result, promisedOutputs(description));
    return (JSON.parse(body.toString()) as { outputs: [unknown] }).outputs[0];
  };

  test('keep their name and type, also as plain values', () => {
    for (const [type, datatype, values, data] of [
      ['float32', 'FP32', [[0.1, 2]], [Math.fround(0.1), 2]],
      ['float16', 'FP16', [[0.5, 2]], [0.5, 2]],
      ['int64', 'INT64', [[7, 2n ** 60n]], [7, 2 ** 60]],
      ['uint64', 'UINT64', [[7, 2n ** 63n]], [7, 2 ** 63]],
      ['uint8', 'UINT8', [[7, 255]], [7, 255]],
      ['bool', 'BOOL', [[true, false]], [true, false]],
      ['string', 'BYTES', [['a', 'b']], ['a', 'b']],
    ] as const) {
      assert.deepEqual(given(values, promised(type, ['', 2])), { name: 'scores', datatype, shape: [1, 2], data });
    }
    const numbers = given([[Number.NaN, 1]], promised('float32', ['', 2]));
    assert.deepEqual(numbers, { name: 'scores', datatype: 'FP32', shape: [1, 2], data: [null, 1] });
  });

  test('are what they are if another stage answers in the place of the model', () => {
    for (const [type, value, datatype] of [
      ['float32', ['1', '2'], 'BYTES'],
      ['int32', [0.5, 2], 'FP64'],
      ['int64', [0.5, 2], 'FP64'],
      ['bool', ['a', 'b'], 'BYTES'],
      ['string', [1, 2], 'FP64'],
    ] as const) {
      assert.deepEqual(given(value, promised(type, ['n'])), { name: 'scores', datatype, shape: [2], data: value });
    }
  });

  test('keep their rank, with one row or none', () => {
    assert.deepEqual(given(7, promised('float32', [])), { name: 'scores', datatype: 'FP32', shape: [], data: [7] });
    assert.deepEqual(given(7, promised('float32', ['n'])), { name: 'scores', datatype: 'FP32', shape: [1], data: [7] });
    const row = { name: 'scores', datatype: 'FP32', shape: [1, 2], data: [1, 2] };
    assert.deepEqual(given([1, 2], promised('float32', ['n', 2])), row);
    assert.deepEqual(given(Float32Array.of(1, 2), promised('float32', ['n', 2])), row);
    const none = { name: 'scores', datatype: 'FP32', shape: [0, 2], data: [] };
    assert.deepEqual(given([], promised('float32', ['n', 2])), none);
  });
});

describe('the outputs that a schema promises', () => {
  const box = { type: 'array', minItems: 4, maxItems: 4, items: { type: 'number' } };
  const found = {
    type: 'object',
    properties: {
      labels: { type: 'array', items: { type: 'string' } },
      boxes: { type: 'array', items: box },
      seen: { type: 'array', items: { type: 'boolean' } },
      maps: { type: 'array', items: { type: 'array', items: { type: 'array', items: { type: 'integer' } } } },
    },
  };

  test('keep type and rank when nothing is found', () => {
    const nothing = { labels: [], boxes: [], seen: [], maps: [[], []] };
    const shapes = outputsOf(nothing, ALL, found).map(({ name, datatype, shape }) => [name, datatype, shape]);
    assert.deepEqual(shapes, [
      ['labels', 'BYTES', [0]],
      ['boxes', 'FP64', [0, 4]],
      ['seen', 'BOOL', [0]],
      ['maps', 'FP64', [2, 0, 0]],
    ]);
    const [lone] = outputsOf([], ALL, { type: 'array', items: box });
    assert.deepEqual([lone?.name, lone?.datatype, lone?.shape], ['output', 'FP64', [0, 4]]);
    const [typed] = outputsOf({ ...nothing, boxes: new Float32Array(0) }, BOXES, found);
    assert.deepEqual([typed?.datatype, typed?.shape], ['FP32', [0, 4]], 'a typed array keeps its type');
  });

  test('must come, unless the schema leaves them out of its required ones', () => {
    const message = /lacks outputs that the model promises: "labels", "boxes", "seen", "maps"$/;
    assert.throws(() => outputsOf({}, ALL, found), { code: 'modelet_failed', message });
    const asked = BOXES;
    assert.throws(() => outputsOf({ labels: [] }, asked, found), { code: 'modelet_failed', message: /: "boxes"$/ });
    const some = { ...found, required: ['labels'] };
    assert.deepEqual(
      outputsOf({ labels: ['a'] }, ALL, some).map(({ name }) => name),
      ['labels'],
    );
    assert.throws(() => outputsOf({}, ALL, some), { code: 'modelet_failed', message: /: "labels"$/ });
  });

  const tree = { type: 'array', items: { $ref: '#/$defs/Tree' } };
  const item = { $defs: { Score: { type: 'number' }, Loop: { $ref: '#/$defs/Loop' }, Tree: tree } };
  const pairs = { type: 'array', minItems: 2, maxItems: 2, items: { type: 'boolean' } };
  const rows: readonly (readonly [schema: unknown, result: unknown, shape: readonly number[][]])[] = [
    [{ type: 'number' }, 1.5, [[1]]],
    [{ enum: ['cat', 'dog'] }, 'dog', [[1]]],
    [{ type: 'array', items: { type: 'integer' } }, [1, 2, 3], [[-1]]],
    [{ type: 'array', items: pairs }, [[true, false]], [[-1, 2]]],
    [
      { type: 'object', properties: { label: { type: 'string' }, score: { $ref: '#/$defs/Score' } }, ...item },
      { label: 'a', score: 0.5 },
      [[1], [1]],
    ],
  ];
  test('are those of the result', () => {
    for (const [schema, result, shapes] of rows) {
      const told = metadataOf({ inputSchema: null, outputSchema: JSON.stringify(schema), examples: [] });
      const given = outputsOf(result);
      const kinds = (tensors: readonly { name: string; datatype: string }[]): string[][] =>
        tensors.map(({ name, datatype }) => [name, datatype]);
      assert.deepEqual(kinds(told), kinds(given), JSON.stringify(schema));
      assert.deepEqual(
        told.map(({ shape }) => shape),
        shapes,
      );
    }
  });

  test('are empty if it does not declare them', () => {
    const loops = ['Loop', 'Tree'].map((name) => ({ $ref: `#/$defs/${name}`, ...item }));
    for (const schema of [true, {}, { type: 'object' }, { type: 'array' }, ...loops]) {
      const text = JSON.stringify(schema);
      assert.deepEqual(metadataOf({ inputSchema: null, outputSchema: text, examples: [] }), [], text);
    }
    assert.deepEqual(metadataOf(null), []);
  });
});

test('a result that is no tensor is told to the runtime, and an output that does not exist only to the client', () => {
  const told: string[] = [];
  const runtime = {
    described: () => ({ first: null, last: null, mostRows: 0 }),
    unwritten: ({ code }: ModeletError, stage: string) => told.push(`${code} at ${stage}`),
  };
  const direct = prepareAnswer({ statusCode: null, headers: {} });
  const endpoint = { direct, runtime, limits: { maxBytes: 1000 }, spec: { key: null }, stageNames: ['one', 'last'] };
  const call = { endpoint, request: { headers: {} }, response: { headersSent: true }, requestId: 'asked' };
  const settle = (result: unknown, outputs?: object): void => {
    const inputs = [{ name: 'x', shape: [1], datatype: 'FP32', data: [1] }];
    const form = new InferForm('model', call as unknown as HttpCall, { inputs, outputs });
    const value = encodePayload(result, { blame: 'modelet_failed', maxBytes: 1000 });
    const input = form.input(new Chunks([])) as Exclude<Input, RowItems>;
    input.onSettled({ outcome: { ok: true, value }, timings: [], gathered: null });
  };
  settle({ y: [1, 2] });
  settle({ y: [1, 2] }, [{ name: 'z' }]);
  settle({ y: { no: 'tensor' } });
  assert.deepEqual(told, ['modelet_failed at last']);
});
