/** The page of a document: what it shows, and that nothing of what it shows is more than text. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { pageOf } from '../../src/openapi/page.ts';
import { documentOf, input, result } from './api.ts';

const ORIGIN = 'http://localhost:1880';
const HOSTILE = `</pre><script>alert('"1"')</script>&`;

test('each endpoint has its address, schemas, a command to try it, and its errors', async () => {
  const schema = { type: 'array', items: { type: 'number' } };
  const document = await documentOf(
    {
      name: 'classify',
      info: 'Tells digits.',
      inputs: [input({ schema, examples: [["it's"]] })],
      answers: [result({ schema })],
    },
    { method: 'get', url: '/find/:id', inputs: [input({ schema: { properties: { q: true }, required: ['q'] } })] },
    { url: '/image', inputs: [input({ mediaTypes: ['image/png'] })] },
    { url: '/files/*' },
  );
  const page = pageOf(document, ORIGIN);
  assert.match(page, /^<!doctype html>/);
  const texts = [
    'classify',
    'Tells digits.',
    '/find/{id}',
    'its path is a pattern that OpenAPI cannot say',
    `curl -X POST 'http://localhost:1880/digits' -H 'Content-Type: application/json' -d '["it'\\''s"]'`,
    `curl 'http://localhost:1880/find/id?q=q'`,
    `curl -X POST 'http://localhost:1880/image' -H 'Content-Type: image/png' --data-binary @FILE`,
    '{"type":"array",',
  ].map((text) => text.replace(/["']/g, (mark) => `&#${mark.charCodeAt(0)};`));
  for (const part of [...texts, 'href="openapi.json"', '<code>modelet_failed</code>: the model failed']) {
    assert.ok(page.includes(part), `${part} is not in ${page}`);
  }
  assert.equal(page.match(/<section/g)?.length, 4);
});

test('whatever things are called, and schemas say, is text', async () => {
  const hostile = { description: HOSTILE, properties: { [HOSTILE]: { const: HOSTILE } }, required: [HOSTILE] };
  const spec = { name: HOSTILE, info: HOSTILE, tab: { label: HOSTILE, info: HOSTILE } };
  const inputs = [input({ name: HOSTILE, schema: hostile, examples: [HOSTILE] })];
  const document = await documentOf(
    { ...spec, url: '/a', inputs },
    { ...spec, url: '/b', method: 'get', inputs },
    { ...spec, url: `/${HOSTILE}` },
  );
  const page = pageOf({ ...document, info: { title: HOSTILE, version: HOSTILE } }, `http://${HOSTILE}`);
  const tags = new Set([...page.matchAll(/<\/?([\w!]+)/g)].map(([, tag]) => tag));
  assert.ok(!tags.has('script'), [...tags].join());
  assert.ok(page.includes('alert(&#39;'));
  // Within what is text there is no quote either that could end an attribute.
  assert.ok(!page.includes(`'"1"'`));
});

test('it loads nothing, and says so where there is nothing', async () => {
  const page = pageOf(await documentOf(), ORIGIN);
  assert.ok(page.includes('No endpoint leads to a pipeline.'));
  assert.doesNotMatch(page, /src=|@import|url\(|<link/);
});
