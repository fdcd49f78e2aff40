/** Endpoints and documents of tests, described tersely; a document is valid, or the test fails. */
import assert from 'node:assert/strict';
import { Validator } from '@seriousme/openapi-schema-validator';
import { buildDocument, type OpenApiDocument, type Operation } from '../../src/http/openapi/document.ts';
import type { ApiAnswer, ApiEndpoint, ApiInput, ApiStage } from '../../src/http/openapi/endpoint.ts';

const validator = new Validator();
const MEDIA_TYPES = ['application/json', 'application/msgpack'];

export function input(spec: Partial<ApiInput> = {}): ApiInput {
  const stage: ApiStage = { name: 'first', property: 'payload', schema: null, direct: true };
  return { ...stage, mediaTypes: MEDIA_TYPES, examples: [], ...spec };
}

export function result(spec: Partial<ApiStage> = {}, status = 200): ApiAnswer {
  const stage: ApiStage = { name: 'last', property: 'payload', schema: null, direct: true, ...spec };
  return { kind: 'result', status, contentType: null, stage };
}

export function endpoint(spec: Partial<ApiEndpoint> = {}): ApiEndpoint {
  return {
    method: 'post',
    url: '/digits',
    name: '',
    info: '',
    tab: { label: '', info: '' },
    inputs: [input()],
    answers: [result()],
    gates: 'none',
    baseUrl: '',
    needsKey: false,
    maxRows: 0,
    takesFiles: false,
    ...spec,
  };
}

/** As clients read it. */
export async function documentOf(...endpoints: Partial<ApiEndpoint>[]): Promise<OpenApiDocument> {
  const api = { title: 'tests', version: '1.2.3', root: '/', endpoints: endpoints.map(endpoint) };
  const document = JSON.parse(JSON.stringify(buildDocument(api))) as OpenApiDocument;
  await assertValid(document);
  return document;
}

export async function assertValid(document: object): Promise<void> {
  const { valid, errors } = await validator.validate(structuredClone(document) as Record<string, unknown>);
  assert.ok(valid, `${JSON.stringify(errors, null, 1)} in ${JSON.stringify(document, null, 1).slice(0, 20_000)}`);
  assert.equal((document as { openapi?: unknown }).openapi, '3.1.0');
  for (const reference of references(document)) at(document, reference);
}

/** All that are references, wherever they are. */
function references(value: unknown): string[] {
  if (value === null || typeof value !== 'object') return [];
  return Object.entries(value).flatMap(([key, part]) =>
    key === '$ref' && typeof part === 'string' ? [part] : references(part),
  );
}

/** The target of a reference; fails if it does not exist. */
export function at(document: object, reference: string): unknown {
  assert.match(reference, /^#\//);
  const keys = decodeURIComponent(reference.slice(2)).split('/');
  return keys.reduce<unknown>((part, key) => {
    const name = key.replaceAll('~1', '/').replaceAll('~0', '~');
    assert.ok(part !== null && typeof part === 'object' && Object.hasOwn(part, name), `${reference} leads nowhere`);
    return (part as Record<string, unknown>)[name];
  }, document);
}

/** The operation; fails if it is not there. */
export function operation(document: OpenApiDocument, method: string, path: string): Operation {
  const found = document.paths[path]?.[method];
  assert.ok(found, `${method} ${path} is not among ${Object.keys(document.paths).join()}`);
  return found;
}

interface Media {
  readonly content: Readonly<
    Record<string, { readonly schema?: { readonly $ref?: string }; readonly examples?: object }>
  >;
}

/** The schema of its JSON body, with a reference followed. */
export function bodySchema(document: OpenApiDocument, body: object | undefined): unknown {
  const schema = (body as Media | undefined)?.content['application/json']?.schema;
  return schema?.$ref ? at(document, schema.$ref) : schema;
}

export function contentOf(body: object | undefined): Media['content'] {
  return (body as Media).content;
}
