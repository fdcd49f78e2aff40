/** Schemas of users within a document mean what they mean alone. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { Ajv } from 'ajv';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { default as addFormats } from 'ajv-formats';
import type { PayloadSchema } from '../../src/core/model.ts';
import { buildDocument } from '../../src/http/openapi/document.ts';
import { bodySchema, documentOf, endpoint, input, operation } from './api.ts';

const DRAFT_07 = 'http://json-schema.org/draft-07/schema#';
const NUMBER = { type: 'number' };

interface Case {
  readonly name: string;
  readonly schema: PayloadSchema;
  readonly valid: readonly unknown[];
  readonly invalid: readonly unknown[];
}

const CASES: readonly Case[] = [
  { name: 'true', schema: true, valid: [1], invalid: [] },
  { name: 'false', schema: false, valid: [], invalid: [1] },
  {
    name: 'its own definitions, by pointers',
    schema: {
      type: 'array',
      items: { $ref: '#/$defs/a~1b%20c' },
      $defs: { 'a/b c': { $ref: '#/$defs/n' }, n: NUMBER },
    },
    valid: [[1]],
    invalid: [['x']],
  },
  {
    name: 'a schema that refers to itself',
    schema: { type: 'object', properties: { next: { $ref: '#' } }, additionalProperties: false },
    valid: [{ next: { next: {} } }],
    invalid: [{ next: { last: {} } }],
  },
  {
    name: 'identifiers and anchors',
    schema: {
      $id: 'https://example.com/schemas/pair.json',
      $schema: 'https://json-schema.org/draft/2020-12/schema',
      type: 'array',
      prefixItems: [
        { $ref: 'point.json' },
        { $ref: '#number' },
        { $ref: 'https://example.com/schemas/pair.json#/$defs/n' },
      ],
      minItems: 3,
      items: false,
      $defs: {
        n: { $anchor: 'number', type: 'number' },
        point: {
          $id: 'point.json',
          type: 'object',
          properties: { x: { $ref: '#/$defs/inner' } },
          $defs: { inner: NUMBER },
        },
      },
    },
    valid: [[{ x: 1 }, 2, 3]],
    invalid: [
      [{ x: '1' }, 2, 3],
      [{}, 'a', 3],
      [{}, 2, 'b'],
    ],
  },
  {
    name: 'dynamic references',
    schema: { $dynamicAnchor: 'node', type: 'object', properties: { child: { $dynamicRef: '#node' }, n: NUMBER } },
    valid: [{ child: { child: { n: 1 } } }],
    invalid: [{ child: { child: { n: 'x' } } }],
  },
  {
    name: 'data that only looks like references',
    schema: { enum: [{ $id: 'x' }, { $anchor: 'y' }], default: { $schema: 'z' } },
    valid: [{ $id: 'x' }],
    invalid: [{}],
  },
  {
    name: 'properties that are called as keywords are',
    schema: { type: 'object', properties: { $id: NUMBER, items: NUMBER, $schema: NUMBER }, required: ['$id'] },
    valid: [{ $id: 1, items: 2 }],
    invalid: [{ $id: 'x' }, { items: 2 }],
  },
  {
    name: 'draft-07: tuples with references into them',
    schema: {
      $schema: DRAFT_07,
      type: 'array',
      items: [NUMBER, { $ref: '#/items/0' }, { $ref: '#/definitions/text' }],
      minItems: 3,
      additionalItems: { type: 'boolean' },
      definitions: { text: { type: 'string' } },
    },
    valid: [
      [1, 2, 'x'],
      [1, 2, 'x', true],
    ],
    invalid: [
      [1, 'x', 'x'],
      [1, 2, 3],
      [1, 2, 'x', 3],
    ],
  },
  {
    name: 'draft-07: dependencies, and a reference into them',
    schema: {
      $schema: DRAFT_07,
      type: 'object',
      properties: { c: { $ref: '#/dependencies/b' } },
      dependencies: { a: ['b'], b: { type: 'object', properties: { n: NUMBER } } },
    },
    valid: [{}, { a: 1, b: 2, n: 3 }, { c: { n: 1 } }],
    invalid: [{ a: 1 }, { b: 1, n: 'x' }, { c: { n: 'x' } }],
  },
  {
    name: 'draft-07: an anchor is an identifier',
    schema: {
      $schema: DRAFT_07,
      $ref: '#top',
      definitions: { top: { $id: '#top', type: 'object', required: ['a'] } },
    },
    valid: [{ a: 1 }],
    invalid: [{}],
  },
];

describe('schemas in a document', () => {
  for (const { name, schema, valid, invalid } of CASES) {
    test(name, async () => {
      const document = await documentOf(
        { url: '/first', inputs: [input({ schema: { description: 'another one' } })] },
        { inputs: [input({ schema })] },
      );
      const { requestBody } = operation(document, 'post', '/digits');
      const text = JSON.stringify(bodySchema(document, requestBody));
      assert.ok(!/\$(schema|anchor|dynamicAnchor|dynamicRef)":"/.test(text) || name.startsWith('data'), text);
      const ajv = new Ajv2020({ strict: false });
      (addFormats as unknown as (ajv: unknown) => void)(ajv);
      ajv.addSchema(document, 'doc:/');
      const within = ajv.compile({ $ref: 'doc:/#/components/schemas/first_input_2' });
      const own = JSON.stringify(schema).includes(DRAFT_07)
        ? new Ajv({ strict: false })
        : new Ajv2020({ strict: false });
      const alone = own.compile(schema);
      for (const value of valid) assert.deepEqual([alone(value), within(value)], [true, true], JSON.stringify(value));
      for (const value of invalid) {
        assert.deepEqual([alone(value), within(value)], [false, false], JSON.stringify(value));
      }
    });
  }

  test('a reference that leads elsewhere, or nowhere, becomes a comment', () => {
    const schema = { $ref: 'https://example.com/other.json#/a', items: { $ref: '#/nowhere' } };
    const endpoints = [endpoint({ inputs: [input({ schema })] })];
    const document = buildDocument({ title: '', version: '', root: '/', endpoints });
    const components = JSON.parse(JSON.stringify(document.components)) as { schemas: { first_input: unknown } };
    assert.deepEqual(components.schemas.first_input, {
      $comment: 'see https://example.com/other.json#/a',
      items: { $comment: 'see #/nowhere' },
    });
  });

  test('the document omits a schema that is nested too deeply', async () => {
    let schema: PayloadSchema = true;
    for (let depth = 0; depth < 100_000; depth += 1) schema = { not: schema };
    const document = await documentOf({ inputs: [input({ schema })] });
    assert.deepEqual(bodySchema(document, operation(document, 'post', '/digits').requestBody), {});
  });

  test('the key __proto__ is an ordinary key', async () => {
    const schema = JSON.parse('{"properties": {"__proto__": {"type": "number"}}, "$defs": {"__proto__": true}}');
    const document = await documentOf({ inputs: [input({ name: '__proto__', schema })] });
    assert.ok(JSON.stringify(document.components).includes('"properties":{"__proto__":{"type":"number"}}'));
  });
});
