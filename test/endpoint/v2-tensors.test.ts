/** Tensors of the KServe v2 protocol: from a request to the value that a stage gets, and from a result to the answer. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { inferAnswer } from '../../src/http/v2/infer-answer.ts';
import { type InferRequest, readInferRequest } from '../../src/http/v2/infer-request.ts';
import { decodePayload, encodePayload } from '../../src/wire/codec/codec.ts';

interface AnsweredOutput {
  readonly name: string;
  readonly datatype: string;
  readonly shape: number[];
  readonly data?: unknown[];
}

const ALL: InferRequest = { id: undefined, input: {}, outputs: null, binary: false, timeoutMs: 0, sequence: undefined };

/** JSON.stringify writes -0 without its sign. */
function jsonOf(request: object): string {
  return JSON.stringify(request, (_, value: unknown) => (Object.is(value, -0) ? '-0.0' : value)).replaceAll(
    '"-0.0"',
    '-0.0',
  );
}

function read(request: object, bytes?: Buffer): InferRequest {
  const json = Buffer.from(jsonOf(request));
  return readInferRequest(Buffer.concat([json, bytes ?? Buffer.alloc(0)]), bytes ? json.length : null);
}

function outputsOf(result: unknown, request: InferRequest = ALL): AnsweredOutput[] {
  const { body, jsonLength } = inferAnswer('m', request, result, []);
  return (JSON.parse(body.subarray(0, jsonLength ?? body.length).toString()) as { outputs: AnsweredOutput[] }).outputs;
}

/** Returns the result of a stage that repeats its input. */
function throughTheRuntime({ input }: InferRequest): unknown {
  return decodePayload(encodePayload(input, { blame: 'invalid_input', maxBytes: 1024 * 1024 }));
}

const whole = (min: number, max: number): fc.Arbitrary<number> => fc.integer({ min, max });
const ELEMENTS: Readonly<Record<string, fc.Arbitrary<unknown>>> = {
  BOOL: fc.boolean(),
  UINT8: whole(0, 2 ** 8 - 1),
  UINT16: whole(0, 2 ** 16 - 1),
  UINT32: whole(0, 2 ** 32 - 1),
  UINT64: fc.maxSafeNat(),
  INT8: whole(-(2 ** 7), 2 ** 7 - 1),
  INT16: whole(-(2 ** 15), 2 ** 15 - 1),
  INT32: whole(-(2 ** 31), 2 ** 31 - 1),
  INT64: fc.maxSafeInteger(),
  // Half floats hold these exactly.
  FP16: fc.oneof(
    fc.constant(-0),
    whole(-2048, 2048).map((value) => value / 8),
  ),
  FP32: fc.float({ noNaN: true, noDefaultInfinity: true }),
  FP64: fc.double({ noNaN: true, noDefaultInfinity: true }),
  BYTES: fc.string({ unit: 'grapheme' }),
};

describe('v2: a tensor that a stage repeats comes back as it was', () => {
  for (const [datatype, element] of Object.entries(ELEMENTS)) {
    test(`${datatype}, as JSON and as bytes`, () => {
      fc.assert(
        fc.property(fc.array(element, { maxLength: 12 }), fc.boolean(), (data, isNested) => {
          const shape = [1, data.length];
          const x = { name: 'x', shape, datatype };
          const first = throughTheRuntime(read({ inputs: [{ ...x, data: isNested ? [data] : data }] }));
          assert.deepEqual(outputsOf(first), [{ ...x, data }]);
          const binary = inferAnswer('m', { ...ALL, binary: true }, first, []);
          const bytes = binary.body.subarray(binary.jsonLength as number);
          const again = read({ inputs: [{ ...x, parameters: { binary_data_size: bytes.length } }] }, bytes);
          assert.deepEqual(outputsOf(throughTheRuntime(again)), [{ ...x, data }]);
        }),
      );
    });
  }

  test('BYTES that are no text arrive as bytes, all of them', () => {
    const jpeg = Buffer.from([0xff, 0xd8, 0xff, 0xe0]);
    const bytes = Buffer.concat([Buffer.from([4, 0, 0, 0]), jpeg, Buffer.from([1, 0, 0, 0, 0x61])]);
    const x = { name: 'x', shape: [2], datatype: 'BYTES', parameters: { binary_data_size: bytes.length } };
    const asked = read({ inputs: [x] }, bytes);
    assert.deepEqual(asked.input['x']?.data, [jpeg, Buffer.from('a')]);
    const result = throughTheRuntime(asked);
    const binary = inferAnswer('m', { ...ALL, binary: true }, result, []);
    assert.deepEqual(binary.body.subarray(binary.jsonLength as number), bytes);
    assert.throws(() => outputsOf(result), { code: 'bad_request', message: /ask for it with binary_data/ });
    const list = outputsOf({ list: [Buffer.from('a'), Buffer.from('é')] });
    assert.deepEqual(list, [{ name: 'list', datatype: 'BYTES', shape: [2], data: ['a', 'é'] }]);
  });

  test('64-bit integers keep all digits in bytes, and in the JSON of an answer', () => {
    const bytes = Buffer.alloc(16);
    bytes.writeBigInt64LE(-(2n ** 63n));
    bytes.writeBigInt64LE(2n ** 63n - 1n, 8);
    const x = { name: 'x', shape: [2], datatype: 'INT64', parameters: { binary_data_size: 16 } };
    const { body } = inferAnswer('m', ALL, throughTheRuntime(read({ inputs: [x] }, bytes)), []);
    assert.match(body.toString(), /"data":\[-9223372036854775808,9223372036854775807\]/);
  });
});

const X = { name: 'x', shape: [2], datatype: 'FP32', data: [1, 2] };
const B = { name: 'x', shape: [2], datatype: 'FP32', parameters: { binary_data_size: 8 } };

const REFUSED: readonly (readonly [name: string, request: object, text: RegExp, bytes?: Buffer])[] = [
  ['no object', [], /the request must be an object/],
  ['no inputs', {}, /inputs must be a list/],
  ['an input without a name', { inputs: [{ ...X, name: '' }] }, /input 0 needs a name/],
  ['two inputs of one name', { inputs: [X, X] }, /two inputs "x"/],
  ['an id that is no text', { id: 1, inputs: [X] }, /the id must be a text/],
  ['an unknown datatype', { inputs: [{ ...X, datatype: 'BF16' }] }, /needs one of these as its datatype/],
  ['a shape of fractions', { inputs: [{ ...X, shape: [0.5] }] }, /needs a shape/],
  ['a shape with too many dimensions', { inputs: [{ ...X, shape: Array(65).fill(1) }] }, /needs a shape/],
  ['fewer elements than the shape has', { inputs: [{ ...X, shape: [2, 2] }] }, /shape \[2,2\] has 4 elements/],
  ['arrays nested deeper than the shape', { inputs: [{ ...X, data: [[1], [2]] }] }, /element 0 of the data is no FP32/],
  [
    'arrays of other lengths than the shape has',
    { inputs: [{ ...X, shape: [2, 2], data: [[1], [3, 4, 5]] }] },
    /input "x": at depth 1 the data must be lists of 2, as in its shape \[2,2\]/,
  ],
  [
    'arrays that are nested half',
    {
      inputs: [
        {
          ...X,
          shape: [2, 2, 1],
          data: [
            [1, 2],
            [3, 4],
          ],
        },
      ],
    },
    /at depth 2 the data/,
  ],
  ['arrays beside numbers', { inputs: [{ ...X, data: [1, [2]] }] }, /element 1 of the data is no FP32/],
  [
    'too many arrays',
    {
      inputs: [
        {
          ...X,
          shape: [1, 2],
          data: [
            [1, 2],
            [3, 4],
          ],
        },
      ],
    },
    /at depth 0 the data must be lists of 1/,
  ],
  ['half a surrogate pair', { inputs: [{ ...X, datatype: 'BYTES', data: ['a', '\ud83d'] }] }, /element 1 of the data/],
  ['an output twice', { inputs: [X], outputs: [{ name: 'y' }, { name: 'y' }] }, /output "y" is asked for twice/],
  ['a text in place of a number', { inputs: [{ ...X, data: [1, '2'] }] }, /element 1 of the data is no FP32/],
  ['a number beyond the type', { inputs: [{ ...X, datatype: 'UINT8', data: [1, 256] }] }, /element 1 of the data/],
  ['digits that JSON loses', { inputs: [{ ...X, datatype: 'INT64', data: [0, 2 ** 60] }] }, /element 1 of the data/],
  [
    'a number beyond a 32-bit float',
    { inputs: [{ ...X, data: [1, 3.5e38] }] },
    /input "x": element 1 of the data is no FP32/,
  ],
  [
    'a number beyond a half float',
    { inputs: [{ ...X, datatype: 'FP16', data: [-65520, 0] }] },
    /element 0 of the data is no FP16/,
  ],
  ['neither data nor bytes', { inputs: [{ ...X, data: undefined }] }, /needs data, or a binary_data_size/],
  ['data and bytes', { inputs: [{ ...X, ...B }] }, /both data and a binary_data_size/, Buffer.alloc(8)],
  ['fewer bytes than announced', { inputs: [B] }, /not a number of bytes that came/, Buffer.alloc(7)],
  ['bytes that belong to nothing', { inputs: [B] }, /4 bytes came that belong to no input/, Buffer.alloc(12)],
  ['bytes that do not fit the shape', { inputs: [{ ...B, shape: [3] }] }, /is not 8 bytes long/, Buffer.alloc(8)],
  ['a text beyond its bytes', { inputs: [{ ...B, datatype: 'BYTES' }] }, /longer than the bytes/, Buffer.alloc(8, 9)],
  ['shared memory', { inputs: [{ ...X, parameters: { shared_memory_region: 'r' } }] }, /shared memory/],
  ['a sequence by a fraction', { inputs: [X], parameters: { sequence_id: 4.5 } }, /sequence_id must be a whole number/],
  [
    'a sequence without end',
    { inputs: [X], parameters: { sequence_id: 4, sequence_end: 1 } },
    /sequence_end must be true/,
  ],
  ['a classification', { inputs: [X], outputs: [{ name: 'y', parameters: { classification: 3 } }] }, /classification/],
];

describe('v2: a request is refused with the reason', () => {
  for (const [name, request, message, bytes] of REFUSED) {
    test(name, () => assert.throws(() => read(request, bytes), { code: 'bad_request', message }));
  }

  test('a number beyond any float', () => {
    const text = JSON.stringify({ inputs: [{ ...X, datatype: 'FP64', data: [0, 7] }] }).replace('7', '1e400');
    const message = /a number beyond 1.8e308/;
    assert.throws(() => readInferRequest(Buffer.from(text), null), { code: 'bad_request', message });
  });

  test('a text that is no UTF-8', () => {
    const body = Buffer.from('{"id":"?"}').fill(0xff, 7, 8);
    assert.throws(() => readInferRequest(body, null), { code: 'bad_request', message: /it is not UTF-8/ });
  });

  test('the largest number of a type is not', () => {
    for (const [datatype, data] of [
      ['FP16', [65504, -65519]],
      ['FP32', [3.4028235e38, -3.4028235e38]],
    ] as const)
      assert.equal(read({ inputs: [{ ...X, datatype, data }] }).input['x']?.data.length, 2);
  });
});

const float = (data: readonly number[], dims: readonly number[]): object => ({
  data: Float32Array.from(data),
  dims,
  type: 'float32',
});

const RESULTS: readonly (readonly [name: string, result: unknown, outputs: readonly object[]])[] = [
  ['a tensor', float([1, 2], [2, 1]), [{ name: 'output', datatype: 'FP32', shape: [2, 1], data: [1, 2] }]],
  ['a typed array', Uint8Array.of(1, 2), [{ name: 'output', datatype: 'UINT8', shape: [2], data: [1, 2] }]],
  ['a number', 7, [{ name: 'output', datatype: 'FP64', shape: [1], data: [7] }]],
  ['nested arrays', [[1], [2.5]], [{ name: 'output', datatype: 'FP64', shape: [2, 1], data: [1, 2.5] }]],
  ['an empty array', [], [{ name: 'output', datatype: 'FP64', shape: [0], data: [] }]],
  [
    'an object',
    { label: 'cat', sure: true, big: 2n ** 60n },
    [
      { name: 'label', datatype: 'BYTES', shape: [1], data: ['cat'] },
      { name: 'sure', datatype: 'BOOL', shape: [1], data: [true] },
      { name: 'big', datatype: 'INT64', shape: [1], data: [2 ** 60] },
    ],
  ],
  [
    'rows',
    [
      { label: 'a', scores: [1, 0] },
      { scores: [0, 1], label: 'b' },
    ],
    [
      { name: 'label', datatype: 'BYTES', shape: [2], data: ['a', 'b'] },
      { name: 'scores', datatype: 'FP64', shape: [2, 2], data: [1, 0, 0, 1] },
    ],
  ],
  [
    'small integers beside large ones',
    [[1, 2n ** 60n]],
    [{ name: 'output', datatype: 'INT64', shape: [1, 2], data: [1, 2 ** 60] }],
  ],
  [
    'a property __proto__',
    JSON.parse('{"__proto__":1}'),
    [{ name: '__proto__', datatype: 'FP64', shape: [1], data: [1] }],
  ],
];

describe('v2: a result becomes outputs', () => {
  for (const [name, result, outputs] of RESULTS) {
    test(name, () => assert.deepEqual(outputsOf(result), outputs));
  }

  test('outputs are selected and ordered as the client asks', () => {
    const asked = read({ inputs: [X], outputs: [{ name: 'b' }, { name: 'a', parameters: { binary_data: true } }] });
    const [b, a] = outputsOf({ a: 1, b: 2, c: null }, asked);
    assert.deepEqual([b?.name, b?.data, a?.name, a?.data], ['b', [2], 'a', undefined]);
  });

  test('an empty list asks for no output in particular', () => {
    assert.equal(outputsOf({ a: 1, b: 2 }, read({ inputs: [X], outputs: [] })).length, 2);
  });

  for (const [name, result, message] of [
    ['an integer of 65 bits', 2n ** 63n, /"output" has an integer of more than 64 bits/],
    ['null', null, /"output" has a null in it/],
    ['an object in an object', { a: { b: 1 } }, /"a" has an object in it/],
    ['rows of different columns', [{ a: 1 }, { b: 1 }], /"output" has an object in it/],
    ['a fraction beside a large integer', { a: [0.5, 2n ** 60n] }, /"a" mixes a number with a bigint/],
    ['texts beside numbers', { a: [1, 'x'] }, /"a" mixes a number with a string/],
    ['null beside numbers', { a: [1, null] }, /"a" mixes a number with null/],
    ['a time', new Date(0), /"output" has an object in it/],
    ['a set', new Set([1]), /"output" has an object in it/],
    ['a hole in an array', { a: [1, undefined] }, /"a" mixes a number/],
    ['arrays of different lengths', [[1], [1, 2]], /nested arrays of different lengths/],
    ['arrays of different depths', [[1], 2], /nested arrays of different lengths/],
  ] as const) {
    test(`${name}: modelet_failed`, () => {
      assert.throws(() => outputsOf(result), { code: 'modelet_failed', message });
    });
  }
});
