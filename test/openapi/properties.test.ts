/** The document is valid for any names and shapes of flows. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import type { PayloadSchema } from '../../src/core/model.ts';
import { buildDocument } from '../../src/http/openapi/document.ts';
import type { ApiAnswer, ApiEndpoint, ApiInput } from '../../src/http/openapi/endpoint.ts';
import { assertValid } from './api.ts';

// The validator decodes a reference before it looks for its fragment: a name with # would be another one to it.
const text = fc
  .oneof(fc.string({ maxLength: 12 }), fc.constantFrom('', '__proto__', '<script>alert(1)</script>', 'a b/c~d'))
  .map((any) => any.replaceAll('#', ''));
const { schema } = fc.letrec<{ schema: PayloadSchema }>((tie) => ({
  schema: fc.oneof(
    { maxDepth: 4, withCrossShrink: true },
    fc.boolean(),
    fc.constantFrom<PayloadSchema>({}, { type: 'number' }, { $ref: '#' }, { enum: [1, null] }),
    fc.record({
      type: fc.constant('object'),
      properties: fc.dictionary(text, tie('schema')),
      required: fc.array(text),
    }),
    fc.record({ $id: fc.constantFrom('a.json', 'urn:x:y', 'https://e.org/'), anyOf: fc.array(tie('schema')) }),
    fc.record({ $defs: fc.record({ d: tie('schema') }), not: fc.constant({ $ref: '#/$defs/d' }) }),
  ),
}));
const old = fc.record({
  $schema: fc.constant('http://json-schema.org/draft-07/schema#'),
  items: fc.array(schema),
  definitions: fc.dictionary(text, schema),
  dependencies: fc.dictionary(text, fc.oneof(schema, fc.array(text))),
});
const stage = {
  name: text,
  property: fc.oneof(fc.constantFrom('payload', 'payload.a', 'req.body', 'req.query.q', 'req.body.a.b', 'topic'), text),
  schema: fc.option(fc.oneof(schema, old), { nil: null }),
  direct: fc.boolean(),
};
const input: fc.Arbitrary<ApiInput> = fc.record({
  ...stage,
  mediaTypes: fc.uniqueArray(fc.constantFrom('application/json', 'application/msgpack', 'image/*', '*/*')),
  examples: fc.array(fc.jsonValue({ maxDepth: 2 }), { maxLength: 2 }),
});
const answer: fc.Arbitrary<ApiAnswer> = fc.oneof(
  fc.constantFrom<ApiAnswer>({ kind: 'stored' }, { kind: 'state' }, { kind: 'parts' }),
  fc.record({
    kind: fc.constant('result' as const),
    status: fc.constantFrom(200, 201, 429, 500),
    contentType: fc.constantFrom(null, 'text/csv', 'application/json'),
    stage: fc.option(fc.record(stage), { nil: null }),
  }),
);
const endpoint: fc.Arbitrary<ApiEndpoint> = fc.record({
  method: fc.constantFrom('get', 'post', 'put', 'patch', 'delete', 'options'),
  url: fc.oneof(
    fc
      .array(fc.constantFrom('/', 'a', ':id', ':n', '?', '(\\d+)', '*', '{', '-', 'ü', '.'), { maxLength: 6 })
      .map((parts) => parts.join('')),
    text,
  ),
  name: text,
  info: text,
  tab: fc.record({ label: text, info: text }),
  inputs: fc.array(input, { maxLength: 2 }),
  answers: fc.array(answer, { maxLength: 3 }),
  gates: fc.constantFrom('none', 'memory', 'durable'),
  baseUrl: fc.constantFrom('', 'https://one.example/v1', 'https://two.example'),
  needsKey: fc.boolean(),
  maxRows: fc.nat({ max: 2 }),
  takesFiles: fc.boolean(),
});

test('any endpoints give a valid document', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(endpoint, { maxLength: 3 }), text, async (endpoints, title) => {
      const document = JSON.parse(JSON.stringify(buildDocument({ title, version: '1', root: '/', endpoints })));
      await assertValid(document);
      const said = Object.values(document.paths as Record<string, object>).flatMap((methods) => Object.keys(methods));
      assert.ok(said.length + (document['x-modelet-unsaid'] ?? []).length >= endpoints.length);
    }),
    { numRuns: 100 },
  );
});
