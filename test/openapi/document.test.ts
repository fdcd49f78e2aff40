/** The OpenAPI document of endpoints: each validated, and read as a client would. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { ERROR_CODES, HTTP_STATUS } from '../../src/core/errors.ts';
import type { PayloadSchema } from '../../src/core/model.ts';
import { at, bodySchema, contentOf, documentOf, type endpoint, input, operation, result } from './api.ts';

const NUMBER = { type: 'number' };
const PAIR = { type: 'object', required: ['a'], properties: { a: NUMBER, b: { type: 'string' } } };

function names(parameters: readonly object[], place: string): unknown[] {
  return parameters.flatMap((one) => ((one as { in?: string }).in === place ? [(one as { name: string }).name] : []));
}

describe('document', () => {
  test('the document has the input of the first stage and the output of the last', async () => {
    const first = input({ name: 'Prüf stage', schema: PAIR, examples: [{ a: 1 }] });
    const document = await documentOf({
      name: 'classify',
      info: 'Tells digits.',
      tab: { label: 'Digits', info: 'All of them.' },
      inputs: [first],
      answers: [result({ schema: NUMBER })],
    });
    assert.deepEqual(document.info, { title: 'tests', version: '1.2.3' });
    assert.deepEqual(document.servers, [{ url: '/' }]);
    assert.deepEqual(document.tags, [{ name: 'Digits', description: 'All of them.' }]);
    const { requestBody, responses, ...rest } = operation(document, 'post', '/digits');
    assert.equal(rest.operationId, 'post_digits');
    assert.equal(rest.summary, 'classify');
    assert.match(rest.description ?? '', /^Tells digits\.\n\nRuns the pipeline that begins with `Prüf stage`/);
    assert.deepEqual(bodySchema(document, requestBody), PAIR);
    assert.deepEqual(contentOf(requestBody)['application/json']?.examples, { example1: { value: { a: 1 } } });
    assert.equal(contentOf(requestBody)['application/msgpack']?.examples, undefined);
    assert.deepEqual(bodySchema(document, responses['200']), NUMBER);
  });

  test('the base URL is the first server, or that of each operation if there are several', async () => {
    const own = { url: '/', description: 'The server of this document, without the proxy' };
    const [one, two] = ['https://one.example/v1', 'https://two.example'];
    const alike = await documentOf({ baseUrl: one }, { url: '/other', baseUrl: one });
    assert.deepEqual(alike.servers, [{ url: one }, own]);
    assert.equal(operation(alike, 'post', '/other')['servers'], undefined);
    const mixed = await documentOf({ baseUrl: one }, { url: '/two', baseUrl: two }, { url: '/none' });
    assert.deepEqual(mixed.servers, [{ url: '/' }]);
    const servers = ['/digits', '/two', '/none'].map((url) => operation(mixed, 'post', url)['servers']);
    assert.deepEqual(servers, [[{ url: one }, own], [{ url: two }, own], undefined]);
  });

  test('without schemas the document allows any input and output', async () => {
    const document = await documentOf({});
    const { requestBody, responses } = operation(document, 'post', '/digits');
    assert.deepEqual([bodySchema(document, requestBody), bodySchema(document, responses['200'])], [{}, {}]);
  });

  test('the document has no paths without endpoints', async () => {
    assert.deepEqual((await documentOf()).paths, {});
  });

  test('the document describes an input within the body at its place', async () => {
    const answers = [result({ property: 'payload.digit.value', schema: NUMBER })];
    const document = await documentOf({
      inputs: [input({ property: 'req.body.pixels', schema: NUMBER, examples: [3] })],
      answers,
    });
    const { requestBody, responses } = operation(document, 'post', '/digits');
    const nested = (key: string, schema: object) => ({
      type: 'object',
      required: [key],
      properties: { [key]: schema },
    });
    const reference = (name: string) => ({ $ref: `#/components/schemas/${name}` });
    assert.deepEqual(bodySchema(document, requestBody), nested('pixels', reference('first_input')));
    assert.deepEqual(
      bodySchema(document, responses['200']),
      nested('digit', nested('value', reference('last_result'))),
    );
    assert.deepEqual(contentOf(requestBody)['application/json']?.examples, { example1: { value: { pixels: 3 } } });
  });

  test('the document names an input in the body even if nothing more is known of it', async () => {
    const inputs = [input({ property: 'payload.image' })];
    const document = await documentOf({ inputs }, { method: 'get', url: '/find', inputs });
    const { requestBody } = operation(document, 'post', '/digits');
    assert.deepEqual(bodySchema(document, requestBody), { type: 'object', properties: { image: {} } });
    const [parameter] = operation(document, 'get', '/find').parameters;
    assert.deepEqual(parameter, { name: 'image', in: 'query', required: false, schema: {} });
  });

  test('the document names a schema without requiring it if the flow may change the message', async () => {
    for (const spec of [{ direct: false }, { property: 'topic' }, { property: 'payload[0].x' }]) {
      const document = await documentOf({ inputs: [input({ ...spec, schema: PAIR, examples: [{ a: 1 }] })] });
      const { requestBody } = operation(document, 'post', '/digits');
      assert.deepEqual(bodySchema(document, requestBody), {
        description: 'See #/components/schemas/first_input: the flow may change it.',
      });
      assert.equal(contentOf(requestBody)['application/json']?.examples, undefined);
      assert.deepEqual(at(document, '#/components/schemas/first_input'), PAIR);
    }
  });

  test('a result that is a string or a number may have the type text', async () => {
    const types = async (schema: PayloadSchema): Promise<string[]> => {
      const { responses } = operation(await documentOf({ answers: [result({ schema })] }), 'post', '/digits');
      return Object.keys(contentOf(responses['200']));
    };
    assert.deepEqual(await types(NUMBER), ['application/json', 'application/msgpack', 'text/html']);
    assert.deepEqual(await types(PAIR), ['application/json', 'application/msgpack']);
  });

  test('several first or last stages: the document allows any of their schemas, unless one takes anything', async () => {
    const two = [input({ schema: NUMBER }), input({ name: 'second', schema: PAIR })];
    const one = await documentOf({ inputs: two, answers: [result({ schema: NUMBER }), result({ name: 'open' })] });
    const { requestBody, responses } = operation(one, 'post', '/digits');
    const schemas = [{ $ref: '#/components/schemas/first_input' }, { $ref: '#/components/schemas/second_input' }];
    assert.deepEqual(bodySchema(one, requestBody), { anyOf: schemas });
    assert.deepEqual(bodySchema(one, responses['200']), {});
  });

  test('the media types are those of the first stage, and only structured ones have the schema', async () => {
    const inputs = [input({ schema: PAIR, mediaTypes: ['image/*', 'application/json', 'application/ld+json'] })];
    const content = contentOf(operation(await documentOf({ inputs }), 'post', '/digits').requestBody);
    assert.deepEqual(Object.keys(content), ['image/*', 'application/json', 'application/ld+json']);
    assert.ok(content['application/ld+json']?.schema);
    assert.deepEqual(content['image/*'], {});
    assert.ok(content['application/json']?.schema);
  });

  test('an endpoint that takes rows takes arrays of its input, lines and tables, and answers each row', async () => {
    const mediaTypes = ['application/json', 'application/jsonl', 'text/csv'];
    const inputs = [input({ schema: PAIR, mediaTypes })];
    const document = await documentOf({ inputs, answers: [result({ schema: NUMBER })], maxRows: 9 });
    const { requestBody, responses } = operation(document, 'post', '/digits');
    const taken = contentOf(requestBody);
    const pair = { $ref: '#/components/schemas/first_input' };
    assert.deepEqual(taken['application/json']?.schema, { anyOf: [pair, { type: 'array', maxItems: 9, items: pair }] });
    assert.deepEqual(Object.keys(taken), mediaTypes);
    const given = contentOf(responses['200']);
    const number = { $ref: '#/components/schemas/last_result' };
    const row = { type: 'object', required: ['result'], properties: { result: number } };
    const each = { anyOf: [row, { $ref: '#/components/schemas/Error' }] };
    assert.deepEqual(given['application/json']?.schema, {
      anyOf: [number, { type: 'array', maxItems: 9, items: each }],
    });
    assert.ok('application/x-ndjson' in given);
    assert.ok('X-Failed-Rows' in (responses['200'] as { headers: object }).headers);
  });

  test('a form with files is among the media types if it can reach a stage', async () => {
    const typesFor = async (spec: Parameters<typeof input>[0]): Promise<string[]> => {
      const mediaTypes = ['image/*', 'application/json'];
      const document = await documentOf({ inputs: [input({ mediaTypes, ...spec })], takesFiles: true });
      return Object.keys(contentOf(operation(document, 'post', '/digits').requestBody));
    };
    assert.deepEqual(await typesFor({ property: 'req.files[0].buffer' }), ['multipart/form-data']);
    assert.deepEqual(await typesFor({ direct: false }), ['application/json', 'multipart/form-data']);
    assert.deepEqual(await typesFor({ property: 'picture' }), ['application/json', 'multipart/form-data']);
    assert.deepEqual(await typesFor({}), ['application/json'], 'the stage would refuse it');
    assert.deepEqual(await typesFor({ mediaTypes: ['*/*'] }), ['multipart/form-data']);
  });

  test('with GET, the properties of an object are query parameters', async () => {
    const document = await documentOf(
      { method: 'get', inputs: [input({ schema: PAIR })] },
      { method: 'get', url: '/one', inputs: [input({ property: 'req.query.n', schema: NUMBER })] },
      { method: 'get', url: '/no', inputs: [input({ schema: NUMBER })] },
      { method: 'get', url: '/changed', inputs: [input({ schema: PAIR, direct: false })] },
    );
    const { parameters, requestBody } = operation(document, 'get', '/digits');
    assert.equal(requestBody, undefined);
    assert.deepEqual(parameters.slice(0, 2), [
      { name: 'a', in: 'query', required: true, schema: NUMBER },
      { name: 'b', in: 'query', required: false, schema: { type: 'string' } },
    ]);
    assert.deepEqual(names(operation(document, 'get', '/one').parameters, 'query'), ['n']);
    assert.deepEqual(names(operation(document, 'get', '/no').parameters, 'query'), []);
    assert.deepEqual(names(operation(document, 'get', '/changed').parameters, 'query'), []);
  });

  test('a parameter keeps the reference of its schema', async () => {
    const schema = { type: 'object', properties: { a: { $ref: '#/$defs/n' } }, $defs: { n: NUMBER } };
    const document = await documentOf({ method: 'get', inputs: [input({ schema })] });
    const [parameter] = operation(document, 'get', '/digits').parameters as { schema: { $ref: string } }[];
    assert.deepEqual(at(document, parameter?.schema.$ref ?? ''), NUMBER);
  });

  test('the document has the headers for timeout and request id, and the id in answers and errors', async () => {
    const document = await documentOf({});
    const { parameters, responses } = operation(document, 'post', '/digits');
    const referred = parameters.map(
      (parameter) => at(document, String(parameter['$ref'])) as { name: string; in: string },
    );
    assert.deepEqual(
      referred.map(({ name, in: place }) => [name, place]),
      [
        ['timeout', 'header'],
        ['X-Request-Id', 'header'],
      ],
    );
    for (const [status, response] of Object.entries(responses)) {
      const { headers } = (response['$ref'] ? at(document, String(response['$ref'])) : response) as { headers: object };
      assert.ok('X-Request-Id' in headers, status);
    }
  });

  test('the document has the answers of a durable gate and of a flow that answers itself', async () => {
    const document = await documentOf(
      { url: '/jobs', answers: [{ kind: 'stored' }] },
      { method: 'get', url: '/jobs/:id', answers: [{ kind: 'state' }], gates: 'durable' },
      { url: '/none', answers: [] },
      { url: '/plain', answers: [{ kind: 'result', status: 201, contentType: 'text/csv', stage: null }] },
      { url: '/tokens', answers: [{ kind: 'parts' }] },
      {
        url: '/events',
        answers: [{ kind: 'stream', status: 201, contentTypes: ['text/event-stream', 'application/x-ndjson'] }],
      },
    );
    const statuses = (method: string, path: string) =>
      Object.keys(operation(document, method, path).responses).filter((status) => Number(status) < 400);
    assert.deepEqual(statuses('post', '/jobs'), ['202']);
    assert.deepEqual(statuses('get', '/jobs/{id}'), ['200', '202']);
    assert.ok(['404', '410'].every((status) => status in operation(document, 'get', '/jobs/{id}').responses));
    assert.deepEqual(statuses('post', '/none'), ['200']);
    assert.deepEqual(statuses('post', '/plain'), ['201']);
    assert.deepEqual(contentOf(operation(document, 'post', '/plain').responses['201']), { 'text/csv': {} });
    assert.deepEqual(contentOf(operation(document, 'post', '/events').responses['201']), {
      'text/event-stream': {},
      'application/x-ndjson': {},
    });
    assert.deepEqual(contentOf(operation(document, 'post', '/tokens').responses['200']), { '*/*': {} });
  });
});

describe('document: errors', () => {
  async function codesAt(spec: Parameters<typeof endpoint>[0]): Promise<Record<string, string[]>> {
    const document = await documentOf(spec ?? {});
    const [methods = {}] = Object.values(document.paths);
    const [{ responses } = { responses: {} }] = Object.values(methods);
    return Object.fromEntries(
      Object.entries<Readonly<Record<string, unknown>>>(responses).flatMap(([status, { $ref }]) => {
        if ($ref === undefined) return [];
        const { description, content, headers } = at(document, String($ref)) as Record<
          'content' | 'headers',
          object
        > & {
          description: string;
        };
        assert.deepEqual(Object.keys(content), ['application/json', 'application/msgpack']);
        assert.equal('Retry-After' in headers, ['429', '503'].includes(status), status);
        return [[status, [...description.matchAll(/^- `(\w+)`/gm)].map(([, code]) => code as string)]];
      }),
    );
  }

  test('the document lists each possible code below its status, and no other', async () => {
    const all = ERROR_CODES.filter((code) => code !== 'cancelled');
    const shown = await codesAt({ gates: 'durable', needsKey: true });
    for (const code of all) assert.ok(shown[HTTP_STATUS[code]]?.includes(code), code);
    assert.equal(Object.values(shown).flat().length, all.length);
  });

  test('the document has no body errors without a body, no gate errors without a gate, and none of keys without keys', async () => {
    const get = Object.values(await codesAt({ method: 'get', gates: 'memory', needsKey: true })).flat();
    assert.deepEqual(
      ERROR_CODES.filter((code) => !get.includes(code)),
      ['unsupported_media', 'cancelled', 'store_unavailable'],
    );
    const post = Object.values(await codesAt({})).flat();
    assert.deepEqual(
      ERROR_CODES.filter((code) => !post.includes(code)),
      ['gate_refused', 'cancelled', 'store_unavailable', 'unauthorized', 'forbidden', 'rate_limited'].sort(
        (a, b) => ERROR_CODES.indexOf(a as never) - ERROR_CODES.indexOf(b as never),
      ),
    );
  });

  test('endpoints with the same errors share their description', async () => {
    const document = await documentOf({}, { url: '/b' }, { url: '/c', gates: 'memory' });
    const refused = ['/digits', '/b', '/c'].map((path) => operation(document, 'post', path).responses['429']?.['$ref']);
    assert.deepEqual(
      refused,
      ['Error429', 'Error429', 'Error429_2'].map((name) => `#/components/responses/${name}`),
    );
  });
});

describe('document: paths', () => {
  test('Express parameters become OpenAPI parameters', async () => {
    const cases: [string, Record<string, string[]>][] = [
      ['/a/:id', { '/a/{id}': ['id'] }],
      ['no-slash', { '/no-slash': [] }],
      ['/', { '/': [] }],
      ['/a/:one-:two.png', { '/a/{one}-{two}.png': ['one', 'two'] }],
      ['/a/:id?', { '/a': [], '/a/{id}': ['id'] }],
      ['/:id?', { '/': [], '/{id}': ['id'] }],
      ['/:id?.png', { '/{id}.png': ['id'] }],
      ['/a/:n(\\d+)', { '/a/{n}': ['n'] }],
    ];
    for (const [url, expected] of cases) {
      const document = await documentOf({ url });
      const paths = Object.entries(document.paths).map(([path, methods]) => [
        path,
        names(methods['post']?.parameters ?? [], 'path'),
      ]);
      assert.deepEqual(Object.fromEntries(paths), expected, url);
    }
    const [{ schema } = {}] = operation(await documentOf({ url: '/:n(\\d+)' }), 'post', '/{n}').parameters;
    assert.deepEqual(schema, { type: 'string', pattern: '^(?:\\d+)$' });
  });

  test('the document lists endpoints that OpenAPI cannot describe beside the paths', async () => {
    const urls = ['/a/*', '/a/:rest*', '/a+', '/(a|b)', '/{x}', '/:a/:a', '/:a?/:b?/:c?/:d?'];
    const document = await documentOf(...urls.map((url) => ({ url })), { method: 'options' }, { url: '/said' });
    assert.deepEqual(Object.keys(document.paths), ['/said']);
    const unsaid = document['x-modelet-unsaid'] ?? [];
    assert.deepEqual(
      unsaid.map(({ url }) => url),
      [...urls, '/digits'],
    );
    for (const { why } of unsaid) assert.ok(why.length > 10);
    assert.match(document.info.description ?? '', /- `POST \/a\/\*`: its path is a pattern/);
  });

  test('paths that differ only in parameter names become one, with the first names', async () => {
    const document = await documentOf({ url: '/a/:id' }, { url: '/a/:name', method: 'get' }, { url: '/a/:other' });
    assert.deepEqual(Object.keys(document.paths), ['/a/{id}']);
    assert.deepEqual(names(operation(document, 'get', '/a/{id}').parameters, 'path'), ['id']);
    assert.deepEqual(document['x-modelet-unsaid'], [
      { method: 'post', url: '/a/:other', why: 'another one with the same method and path is asked first' },
    ]);
  });

  test('each operation has a unique id', async () => {
    const document = await documentOf(
      { url: '/a-b' },
      { url: '/a.b' },
      { url: '/a_b' },
      { url: '/a_b', method: 'get' },
    );
    const ids = Object.values(document.paths).flatMap((methods) =>
      Object.values(methods).map((one) => one.operationId),
    );
    assert.deepEqual(ids, ['post_a_b', 'post_a_b_2', 'post_a_b_3', 'get_a_b']);
  });
});
