/** Inputs and results held to schemas: who fails, with which code, and what the error says. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { type PayloadChecks, payloadChecks } from '../../src/config/payload-checks.ts';
import type { PayloadSchema } from '../../src/core/model.ts';
import { runBatch } from '../../src/runtime/worker/batch/run-batch.ts';
import { NO_STATICS } from '../../src/runtime/worker/modelet/modelet.ts';
import { errorOf, input, inputs, modelet, run, settings } from './rig.ts';

const IMAGE: PayloadSchema = {
  type: 'object',
  required: ['name', 'pixels'],
  additionalProperties: false,
  properties: {
    name: { type: 'string', format: 'date' },
    pixels: { type: 'array', items: { type: 'number', minimum: 0 } },
    kind: { enum: ['photo', 'scan'] },
  },
};

function checks(inputSchema: PayloadSchema | null, outputSchema: PayloadSchema | null = null): PayloadChecks {
  return payloadChecks({ inputSchema, outputSchema }, NO_STATICS);
}

const GOOD = { name: '2026-01-31', pixels: [1, 2] };

describe('an input schema', () => {
  test('fails the item that violates it, and the other items run as one batch', async () => {
    const batches: unknown[] = [];
    const counting = modelet({
      batch: true,
      predict: (values) => {
        batches.push(values);
        return (values as unknown[]).map(() => 'done');
      },
    });
    const replies = await runBatch(
      counting,
      inputs(GOOD, { ...GOOD, pixels: [1, 'two'] }, GOOD),
      settings({ checks: checks(IMAGE) }),
    );
    assert.deepEqual(
      replies.map(({ ok }) => ok),
      [true, false, true],
    );
    assert.deepEqual(batches, [[GOOD, GOOD]]);
    const error = errorOf(replies[1]);
    assert.equal(error.code, 'invalid_input');
    assert.equal(error.message, 'input/pixels/1 must be number');
    assert.equal(error.stage, 'digits');
    assert.deepEqual(error.details, [{ path: '/pixels/1', message: 'must be number', keyword: 'type' }]);
  });

  test('reports all problems, each with the expected value', async () => {
    const wrong = { name: 'Tuesday', kind: 'x', more: 1 };
    const [reply] = await runBatch(modelet(), inputs(wrong), settings({ checks: checks(IMAGE) }));
    assert.deepEqual(errorOf(reply).message.split('; ').sort(), [
      'input must NOT have additional properties: "more"',
      "input must have required property 'pixels'",
      'input/kind must be equal to one of the allowed values: "photo", "scan"',
      'input/name must match format "date"',
    ]);
  });

  test('reports at most ten problems, and only the first of a large input', async () => {
    const schema: PayloadSchema = { type: 'array', items: { type: 'number' } };
    const texts = (count: number): string[] => Array.from({ length: count }, () => 'x');
    const given = settings({ checks: checks(schema), maxPayloadBytes: 1 << 20 });
    const replies = await runBatch(modelet(), inputs(texts(12), texts(40_000)), given);
    assert.deepEqual(
      replies.map((reply) => (errorOf(reply).details as unknown[]).length),
      [10, 1],
    );
  });

  test('checks the input before preprocess, and changes nothing', async () => {
    const schema: PayloadSchema = { type: 'number', default: 3 };
    const textual = modelet({ preprocess: (value) => String(value), predict: (value) => value });
    assert.deepEqual(await run(textual, inputs(1, '1'), { checks: checks(schema) }), [
      { value: '1' },
      { code: 'invalid_input', message: 'input must be number' },
    ]);
  });

  test('does not replace the deadline error of an expired item', async () => {
    const late = [input('x', { deadline: -1 })];
    const [read] = await run(modelet(), late, { checks: checks({ type: 'number' }) });
    assert.deepEqual(read, { code: 'deadline_exceeded', message: 'deadline passed before predict' });
  });
});

describe('an output schema', () => {
  test('fails the item whose result violates it, after postprocess, as a fault of the modelet', async () => {
    const wrapping = modelet({ postprocess: async (output) => (output === 2 ? 'two' : output) });
    const given = { checks: checks(null, { type: 'number' }) };
    assert.deepEqual(await run(wrapping, inputs(1, 2, 3), given), [
      { value: 1 },
      { code: 'modelet_failed', message: 'output must be number' },
      { value: 3 },
    ]);
  });

  test('leaves an error unchanged', async () => {
    const failing = modelet({ predict: () => Object.assign(new Error('no'), { code: 'invalid_input' }) });
    const given = { checks: checks(null, { type: 'number' }) };
    assert.deepEqual(await run(failing, inputs(1), given), [{ code: 'invalid_input', message: 'no' }]);
  });

  test('fails a result that cannot be inspected alone', async () => {
    const trap = {
      get x(): never {
        throw new Error('trapped');
      },
    };
    const schema: PayloadSchema = { type: 'object', properties: { x: { type: 'number' } } };
    const given = { checks: checks(null, schema) };
    assert.deepEqual(await run(modelet({ predict: (value) => (value === 1 ? trap : { x: 1 }) }), inputs(1, 2), given), [
      { code: 'modelet_failed', message: 'trapped' },
      { value: { x: 1 } },
    ]);
  });
});

describe('schemas', () => {
  test('of a stage win over those of its modelet, one by one', async () => {
    const statics = { ...NO_STATICS, inputSchema: { type: 'string' }, outputSchema: { type: 'string' } };
    const mixed = payloadChecks({ inputSchema: { type: 'number' }, outputSchema: null }, statics);
    assert.deepEqual(await run(modelet(), inputs(1, 'a'), { checks: mixed }), [
      { code: 'modelet_failed', message: 'output must be string' },
      { code: 'invalid_input', message: 'input must be number' },
    ]);
  });

  test('true accepts any value, and false none', async () => {
    assert.deepEqual(await run(modelet(), inputs(1), { checks: checks(true) }), [{ value: 1 }]);
    const nothing = await run(modelet(), inputs(1), { checks: checks(false) });
    assert.equal((nothing[0] as { code: string }).code, 'invalid_input');
  });

  test('are read as draft-07 if they say so, others as draft 2020-12', async () => {
    const tuple = (more: object): PayloadSchema => ({ type: 'array', minItems: 1, maxItems: 1, ...more });
    const seventh = { $schema: 'http://json-schema.org/draft-07/schema#', items: [{ type: 'number' }] };
    const newest = { prefixItems: [{ type: 'number' }], items: false };
    for (const schema of [tuple({ ...seventh, additionalItems: false }), tuple(newest)]) {
      const [good, bad] = await run(modelet(), inputs([1], ['x']), { checks: checks(schema) });
      assert.deepEqual([good, bad], [{ value: [1] }, { code: 'invalid_input', message: 'input/0 must be number' }]);
    }
  });

  test('may have the same $id as others, also inside', async () => {
    const named = (type: string): PayloadSchema => ({
      $id: 'https://example.com/outer',
      type: 'array',
      items: { $ref: 'inner' },
      $defs: { inner: { $id: 'https://example.com/inner', type } },
    });
    for (const type of ['number', 'string', 'number'])
      assert.deepEqual(
        (await run(modelet(), inputs([1], ['x']), { checks: checks(named(type)) })).map((reply) => 'value' in reply),
        [type === 'number', type === 'string'],
      );
  });

  test('do not make each deploy compile the schema of schemas again', () => {
    const schemas = Array.from({ length: 20 }, (_, minimum) => ({ type: 'number', minimum }) as const);
    const cpuOf = (compile: (schema: PayloadSchema & object) => unknown): number => {
      const before = process.cpuUsage();
      for (const schema of schemas) compile(schema);
      const { user, system } = process.cpuUsage(before);
      return user + system;
    };
    checks(true);
    assert.ok(cpuOf(checks) < cpuOf((schema) => new Ajv2020().compile(schema)) / 2);
  });

  const UNUSABLE: readonly (readonly [string, PayloadSchema, RegExp])[] = [
    ['a type that there is not', { type: 'numbr' }, /inputSchema cannot be used: schema is invalid/],
    ['an unknown keyword', { type: 'object', propertys: {} }, /unknown keyword: "propertys"/],
    ['an unknown format', { type: 'string', format: 'dat' }, /unknown format "dat"/],
    ['properties of what need not be an object', { properties: { a: true } }, /missing type "object"/],
    ['a reference to nowhere', { $ref: '#/$defs/none' }, /can't resolve reference/],
    ['an unknown dialect', { $schema: 'https://example.org/mine' }, /no schema with key or ref/],
    ['an asynchronous schema', { $async: true, type: 'number' }, /\$async/],
  ];
  for (const [name, schema, message] of UNUSABLE) {
    test(`${name} is an error that names the problem`, () => {
      assert.throws(() => checks(schema), message);
    });
  }
});
