/** Builds the OpenAPI 3.1 document of the endpoints that lead to pipelines. Pure; it runs again for every request. */
import { withoutTrailing } from '../../core/text.ts';
import { LINES_TYPE } from '../streaming/stream-form.ts';
import { Components } from './components.ts';
import type { Api, ApiEndpoint, JsonObject } from './endpoint.ts';
import { ERROR_BODY, errorResponses, REQUEST_ID_HEADER } from './errors.ts';
import { type PathParameter, templatesOf } from './path-template.ts';
import { orRows, queryParameters, requestBody, resultSchema, STRUCTURED, usualTypes } from './payloads.ts';

/** An endpoint that exists but is not among the paths, and the reason. */
export interface Unsaid {
  readonly method: string;
  readonly url: string;
  readonly why: string;
}

export interface Operation extends JsonObject {
  readonly operationId: string;
  readonly summary?: string;
  readonly description?: string;
  readonly parameters: readonly JsonObject[];
  readonly requestBody?: JsonObject;
  readonly responses: Readonly<Record<string, JsonObject>>;
}

interface Server {
  readonly url: string;
  readonly description?: string;
}

export interface OpenApiDocument extends JsonObject {
  readonly openapi: '3.1.0';
  readonly info: { readonly title: string; readonly version: string; readonly description?: string };
  readonly servers: readonly Server[];
  readonly tags: readonly { readonly name: string; readonly description?: string }[];
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
  readonly components: JsonObject;
  readonly 'x-modelet-unsaid'?: readonly Unsaid[];
}

/** Methods that both an HTTP-in node and OpenAPI have. */
const METHODS: ReadonlySet<string> = new Set(['get', 'post', 'put', 'patch', 'delete']);
const WITH_BODY: ReadonlySet<string> = new Set(['post', 'put', 'patch']);

interface Building {
  readonly root: string;
  /** The base URL of all endpoints; '': they have none, or different ones. */
  readonly baseUrl: string;
  readonly components: Components;
  /** Paths, keyed without the names of their parameters: OpenAPI treats paths that differ only in these as the same. */
  readonly paths: Map<string, { readonly path: string; readonly operations: Map<string, Operation> }>;
  readonly operationIds: Set<string>;
  readonly unsaid: Unsaid[];
}

export function buildDocument({ title, version, root, endpoints }: Api): OpenApiDocument {
  const [first = '', ...others] = new Set(endpoints.map(({ baseUrl }) => baseUrl));
  const building: Building = {
    ...{ root, baseUrl: others.length === 0 ? first : '' },
    ...{ components: new Components(), paths: new Map(), operationIds: new Set(), unsaid: [] },
  };
  for (const endpoint of endpoints) addEndpoint(endpoint, building);
  const { paths, components, unsaid } = building;
  return {
    openapi: '3.1.0',
    info: { title, version, ...(unsaid.length > 0 ? { description: describeUnsaid(unsaid) } : {}) },
    servers: serversOf(building.baseUrl, root),
    tags: tagsOf(endpoints),
    paths: Object.fromEntries(
      [...paths.values()].map(({ path, operations }) => [path, Object.fromEntries(operations)]),
    ),
    components: components.toJSON(),
    ...(unsaid.length > 0 ? { 'x-modelet-unsaid': unsaid } : {}),
  };
}

/** Returns where a client finds an endpoint. The page of the document can always ask the server that it is from. */
function serversOf(baseUrl: string, root: string): Server[] {
  if (baseUrl === '') return [{ url: root }];
  return [{ url: baseUrl }, { url: root, description: 'The server of this document, without the proxy' }];
}

function describeUnsaid(unsaid: readonly Unsaid[]): string {
  const lines = unsaid.map(({ method, url, why }) => `- \`${method.toUpperCase()} ${url}\`: ${why}`);
  return ['Also there, and not among the paths:', '', ...lines].join('\n');
}

function tagsOf(endpoints: readonly ApiEndpoint[]): { name: string; description?: string }[] {
  const tags = new Map<string, { name: string; description?: string }>();
  for (const { tab } of endpoints) {
    if (tab.label === '' || tags.has(tab.label)) continue;
    tags.set(tab.label, { name: tab.label, ...(tab.info === '' ? {} : { description: tab.info }) });
  }
  return [...tags.values()];
}

function addEndpoint(endpoint: ApiEndpoint, building: Building): void {
  const { url, paths, unsaid } = { ...building, ...endpoint };
  const method = endpoint.method.toLowerCase();
  const templates = METHODS.has(method) ? templatesOf(url) : { why: 'OpenAPI has no such method' };
  if ('why' in templates) {
    unsaid.push({ method, url, why: templates.why });
    return;
  }
  for (const { path, parameters } of templates) {
    const key = path.replaceAll(/\{\w+\}/g, '{}');
    const known = paths.get(key) ?? { path, operations: new Map<string, Operation>() };
    paths.set(key, known);
    if (known.operations.has(method)) {
      unsaid.push({ method, url, why: 'another one with the same method and path is asked first' });
      continue;
    }
    // A path can appear only once, so it keeps the parameter names that it got first.
    const names = [...known.path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name as string);
    const named = parameters.map((parameter, index) => ({ ...parameter, name: names[index] ?? parameter.name }));
    known.operations.set(method, operationOf({ ...endpoint, method }, known.path, named, building));
  }
}

function operationOf(
  endpoint: ApiEndpoint,
  path: string,
  parameters: readonly PathParameter[],
  { components, operationIds, root, baseUrl }: Building,
): Operation {
  const { method, name, tab } = endpoint;
  const hasBody = WITH_BODY.has(method);
  const description = describe(endpoint);
  if (endpoint.needsKey)
    for (const [scheme, how] of Object.entries(KEY_SCHEMES)) components.refer('securitySchemes', scheme, how);
  return {
    operationId: uniqueId(`${method}${path}`, operationIds),
    ...(tab.label === '' ? {} : { tags: [tab.label] }),
    ...(name === '' ? {} : { summary: name }),
    ...(description === '' ? {} : { description }),
    ...(endpoint.baseUrl === baseUrl ? {} : { servers: serversOf(endpoint.baseUrl, root) }),
    parameters: [
      ...parameters.map(pathParameter),
      ...(method === 'get' ? queryParameters(endpoint, components) : []),
      components.refer('parameters', 'timeout', TIMEOUT),
      components.refer('parameters', 'X-Request-Id', CALLERS_ID),
    ],
    ...(hasBody ? { requestBody: requestBody(endpoint, components) } : {}),
    ...(endpoint.needsKey ? { security: [{ [BEARER]: [] }, { [HEADER]: [] }] } : {}),
    responses: { ...answers(endpoint, components), ...errorResponses(endpoint, hasBody, components) },
  };
}

function describe({ info, inputs }: ApiEndpoint): string {
  const stages = inputs.map(({ name }) => `\`${name}\``).join(', ');
  return [info, ...(stages === '' ? [] : [`Runs the pipeline that begins with ${stages}.`])]
    .filter((text) => text !== '')
    .join('\n\n');
}

function uniqueId(text: string, taken: Set<string>): string {
  const base = withoutTrailing(text.replaceAll(/\W+/g, '_'), '_');
  let id = base;
  for (let count = 2; taken.has(id); count += 1) id = `${base}_${count}`;
  taken.add(id);
  return id;
}

function pathParameter({ name, pattern }: PathParameter): JsonObject {
  return { name, in: 'path', required: true, schema: { type: 'string', ...(pattern === null ? {} : { pattern }) } };
}

const BEARER = 'bearerKey';
const HEADER = 'apiKey';

/** The two ways to send a key. */
const KEY_SCHEMES: Readonly<Record<string, JsonObject>> = {
  [BEARER]: { type: 'http', scheme: 'bearer' },
  [HEADER]: { type: 'apiKey', in: 'header', name: 'X-API-Key' },
};

const TIMEOUT: JsonObject = {
  name: 'timeout',
  in: 'header',
  description: 'Longest time until the answer, in ms. It can only shorten what the runtime allows.',
  schema: { type: 'number', exclusiveMinimum: 0 },
};

const CALLERS_ID: JsonObject = {
  name: 'X-Request-Id',
  in: 'header',
  description: 'By which the request is to be known: 1 to 128 visible ASCII characters.',
  schema: { type: 'string', pattern: '^[\\x21-\\x7e]{1,128}$' },
};

/** Schema of an item of a durable gate, with its state. */
const ITEM: JsonObject = {
  type: 'object',
  required: ['id', 'state'],
  properties: {
    id: { type: 'string' },
    state: { type: 'string', enum: ['pending', 'running', 'done', 'failed', 'dead', 'cancelled', 'unknown'] },
    attempts: { type: 'integer' },
    result: { description: 'What came of it, once it is done.' },
    error: { type: 'object', properties: { code: { type: 'string' }, message: { type: 'string' } } },
  },
};

const STATES: Readonly<Record<string, string>> = {
  200: 'It is done, or cancelled now.',
  202: 'It waits or runs.',
  404: 'There is no such item.',
  409: 'It runs or has ended: it cannot be cancelled.',
  410: 'It was cancelled.',
};

const FAILED_ROWS: JsonObject = {
  description: 'How many rows have failed, if each row of the body has its own result.',
  schema: { type: 'integer', minimum: 0 },
};

function answers(
  { answers: given, maxRows }: Pick<ApiEndpoint, 'answers' | 'maxRows'>,
  components: Components,
): Record<string, JsonObject> {
  const responses: Record<string, JsonObject> = {};
  const headers = {
    'X-Request-Id': components.refer('headers', 'X-Request-Id', REQUEST_ID_HEADER),
    ...(maxRows > 0 ? { 'X-Failed-Rows': components.refer('headers', 'X-Failed-Rows', FAILED_ROWS) } : {}),
  };
  const json = (description: string, schema: JsonObject): JsonObject => ({
    description,
    headers,
    content: { 'application/json': { schema }, 'application/msgpack': { schema } },
  });
  const item = (description: string): JsonObject => json(description, components.refer('schemas', 'Item', ITEM));
  if (given.some(({ kind }) => kind === 'state')) {
    for (const [status, description] of Object.entries(STATES)) responses[status] = item(description);
  }
  if (given.some(({ kind }) => kind === 'stored')) {
    const location = { Location: { description: 'Where to ask for it.', schema: { type: 'string' } } };
    responses['202'] = { ...item('It is stored, and will be done.'), headers: { ...headers, ...location } };
  }
  if (given.some(({ kind }) => kind === 'parts')) {
    const description = 'The result in parts, as they are made. The flow decides how it sends them.';
    responses['200'] = { description, headers, content: { '*/*': {} } };
  }
  for (const { status, contentTypes } of given.filter((answer) => answer.kind === 'stream')) {
    const content = Object.fromEntries(contentTypes.map((type) => [type, {}]));
    responses[String(status)] = { description: 'The result in parts, as they are made.', headers, content };
  }
  const results = given.filter((answer) => answer.kind === 'result');
  for (const status of new Set(results.map((result) => result.status))) {
    const same = results.filter((result) => result.status === status);
    const result = resultSchema(
      same.map(({ stage }) => stage),
      components,
    );
    const row = { type: 'object', required: ['result'], properties: { result } };
    const error = maxRows > 0 ? components.refer('schemas', 'Error', ERROR_BODY) : {};
    const schema = orRows(result, { anyOf: [row, error] }, maxRows);
    const lines = maxRows > 0 ? [LINES_TYPE] : [];
    const types = new Set(
      same.flatMap(({ contentType }) => [contentType ?? usualTypes(result, components), lines].flat(2)),
    );
    const content = Object.fromEntries([...types].map((type) => [type, STRUCTURED.has(type) ? { schema } : {}]));
    responses[String(status)] = { description: 'The result.', headers, content };
  }
  return Object.keys(responses).length > 0 ? responses : { 200: { description: 'The flow answers.', headers } };
}
