/**
 * Builds a shell command that tries an operation and works unchanged. `FILE` stands for the caller's own file. Every
 * other value is an example, or a sample that fits the schema. Pure.
 */
import type { JsonObject } from './endpoint.ts';
import { FORM_TYPE, isJson, JSON_TYPE, MULTIPART_TYPE } from './payloads.ts';
import { sampleOf } from './sample.ts';

export interface Address {
  readonly method: string;
  readonly path: string;
  readonly base: string;
}

interface MediaType {
  readonly schema?: unknown;
  readonly examples?: Readonly<Record<string, { readonly value: unknown }>>;
}

/** Returns the target of a `$ref`. */
type Resolve = (reference: JsonObject) => unknown;

/** Subtypes to send for a range such as `image/*`. Other ranges get `example`, which RFC 4735 reserves for examples. */
const SUBTYPES: Readonly<Record<string, string>> = {
  '*': 'application/octet-stream',
  application: 'application/octet-stream',
  audio: 'audio/wav',
  image: 'image/png',
  text: 'text/plain',
  video: 'video/mp4',
};

/** Node-RED accepts only objects and arrays as application/json; any other JSON type may hold any value. */
const ANY_JSON_TYPE = 'application/x.value+json';

export function curlOf(address: Address, parameters: readonly JsonObject[], body: unknown, resolve: Resolve): string {
  const { method } = address;
  return [
    'curl',
    ...(method === 'get' ? [] : ['-X', method.toUpperCase()]),
    quoted(urlOf(address, parameters, resolve)),
    ...(body === undefined ? [] : bodyWords((body as JsonObject)['content'], resolve)),
  ].join(' ');
}

function urlOf({ path, base }: Address, parameters: readonly JsonObject[], resolve: Resolve): string {
  const patterns = new Map(
    parameters
      .filter((parameter) => parameter['in'] === 'path')
      .map(({ name, schema }) => [name, (schema as { pattern?: string }).pattern]),
  );
  const filled = path.replaceAll(/\{(\w+)\}/g, (_, name: string) => segment(name, patterns.get(name)));
  const search = parameters
    .filter((parameter) => parameter['in'] === 'query' && parameter['required'] === true)
    .map(
      ({ name, schema }) =>
        `${encodeURIComponent(String(name))}=${encodeURIComponent(textOf(String(name), schema, resolve))}`,
    );
  return `${base}${filled}${search.length > 0 ? `?${search.join('&')}` : ''}`;
}

/** Returns the parameter's own name, or else a short text that matches its pattern. */
function segment(name: string, pattern: string | undefined): string {
  const takes = new RegExp(pattern ?? '', 'u');
  return [name, '1', '10', '100', '1000', 'a', 'abc', 'A'].find((text) => takes.test(text)) ?? name;
}

/** Returns a sample of a query's value as text. An array or object becomes the parameter's own name instead. */
function textOf(name: string, schema: unknown, resolve: Resolve): string {
  const value = sampleOf(schema, resolve);
  return value !== null && typeof value === 'object' ? name : String(value);
}

function bodyWords(content: unknown, resolve: Resolve): string[] {
  const chosen = choose(Object.entries((content ?? {}) as Readonly<Record<string, MediaType>>));
  if (!chosen) return [];
  const [range, { schema, examples }] = chosen;
  if (range === MULTIPART_TYPE) return ['-F', quoted('file=@FILE')];
  const [example] = Object.values(examples ?? {});
  const value = example ? example.value : sampleOf(schema, resolve);
  if (range === FORM_TYPE) return formWords(value);
  if (!isJson(range)) return ['-H', typeHeader(concrete(range)), '--data-binary', '@FILE'];
  const isTaken = range !== JSON_TYPE || (value !== null && typeof value === 'object');
  return ['-H', typeHeader(isTaken ? range : ANY_JSON_TYPE), '-d', quoted(JSON.stringify(value))];
}

/** Chooses JSON with an example that works, else a file if the endpoint takes files, else JSON that should work. */
function choose(types: readonly (readonly [string, MediaType])[]): readonly [string, MediaType] | undefined {
  const json = types.find(([type]) => type === JSON_TYPE);
  if (json?.[1].examples) return json;
  return types.find(([type]) => type === MULTIPART_TYPE) ?? json ?? types[0];
}

function concrete(range: string): string {
  const [type = '', subtype] = range.split('/');
  return subtype === '*' ? (SUBTYPES[type] ?? `${type}/example`) : range;
}

function typeHeader(type: string): string {
  return quoted(`Content-Type: ${type}`);
}

function formWords(value: unknown): string[] {
  const fields = Object.entries(value !== null && typeof value === 'object' ? value : {});
  if (fields.length === 0) return ['-d', quoted('name=value')];
  return fields.flatMap(([name, field]) => {
    const text = typeof field === 'string' ? field : JSON.stringify(field);
    return ['--data-urlencode', quoted(`${encodeURIComponent(name)}=${text}`)];
  });
}

function quoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}
