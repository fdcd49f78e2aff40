/** The OpenAPI document of real flows: which endpoints are in it, with which schemas, and how it follows what changes. */
import assert from 'node:assert/strict';
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import type { OpenApiDocument } from '../../../src/http/openapi/document.ts';
import { instance, linkCall, linkIn, linkOut, linkReturn, on, streamOut, subflow, tab } from '../../fixtures/drawn.ts';
import {
  batcher,
  collector,
  dispatchGate,
  func,
  httpIn,
  httpOut,
  node,
  runtime,
  stage,
  TAB,
} from '../../fixtures/flow.ts';
import { type FlowNode, useNodeRed } from '../../fixtures/node-red.ts';
import { until } from '../../fixtures/polling.ts';
import { pythonWith } from '../../fixtures/python.ts';
import { repositoryRoot } from '../../fixtures/repository.ts';
import { assertValid, at, bodySchema, contentOf, operation } from '../../openapi/api.ts';

const [JSONSCHEMA, WITHOUT_JSONSCHEMA] = pythonWith('jsonschema');

const ADMIN = '/admin/modelets/openapi.json';
const PUBLIC = '/api/ops/openapi.json';
const PAIR = { type: 'object', required: ['a'], properties: { a: { type: 'number' }, b: { $ref: '#/$defs/text' } } };
const INPUT = { ...PAIR, $defs: { text: { type: 'string' } } };
const OUTPUT = { type: 'number', minimum: 0 };
const HOSTILE = '<script>alert(1)</script>';

const nodeRed = useNodeRed({
  settings: { httpNodeRoot: '/api' },
  prepare: async (nodeRed) => {
    await writeFile(join(nodeRed.userDir, files.js), modelet(3, OUTPUT));
    const lines = [
      'class Model:',
      'input_schema = {"type": "string"}',
      'examples = ["a"]',
      'def predict(self, x): return x',
    ];
    await writeFile(join(nodeRed.userDir, files.python), lines.join('\n    '));
  },
  flows: () => flows(),
});

/** `[http in] -> first`, and what is sent to `out ID` is answered. */
function web(id: string, method: string, url: string, first: string | string[], properties: object = {}): FlowNode[] {
  return [{ ...httpIn(`in ${id}`, url, first), method, ...properties }, httpOut(`out ${id}`)];
}

function echo(id: string, to: string | string[], schemas: { input?: unknown; output?: unknown } = {}): FlowNode {
  const text = (schema: unknown): string => (schema === undefined ? '' : JSON.stringify(schema));
  return stage(id, 'return input;', to, { inputSchema: text(schemas.input), outputSchema: text(schemas.output) });
}

function modelet(example: unknown, inputSchema: object): string {
  return `const predict = (x) => x;
    Object.assign(predict, ${JSON.stringify({ examples: [example], inputSchema, outputSchema: OUTPUT })});
    export default predict;`;
}

const files = { js: 'model.mjs', python: 'model.py' };

function flows(input: object = INPUT): FlowNode[] {
  const source = { code: '', runtime: 'runtime' };
  return [
    { ...TAB, label: 'All of them', info: `Some ${HOSTILE}` },
    runtime('runtime', { name: 'shown', publicPath: '/ops' }),
    runtime('hidden', { name: 'private' }),
    ...web('params', 'post', '/params/:id', 'params', { name: HOSTILE, info: 'Takes *pairs*.' }),
    echo('params', ['collector', 'aside'], { input, output: OUTPUT }),
    collector('collector', 'out params', 'error params'),
    httpOut('error params'),
    node('aside', 'debug', [], { active: false }),
    { ...httpIn('in query', '/query', 'query'), method: 'get' },
    { ...httpOut('out query'), statusCode: '203', headers: { 'content-type': 'Text/CSV; charset=utf-8' } },
    echo('query', 'out query', { input }),
    ...web('gated', 'put', '/gated', 'gate'),
    dispatchGate('gate', 'batch'),
    batcher('batch', 'gated'),
    echo('gated', 'second', { input: OUTPUT }),
    echo('second', 'collected', { output: INPUT }),
    collector('collected', 'out gated'),
    ...web('links', 'patch', '/links', 'link out'),
    linkOut('link out', 'link in'),
    linkIn('link in', 'link out', 'instance'),
    subflow('inside', 'within', 'within'),
    ...on({ z: 'inside' }, echo('within', [], { input, output: OUTPUT })),
    instance('instance', 'inside', 'out links'),
    ...web('call', 'post', '/call', 'call'),
    linkCall('call', 'called', 'out call'),
    linkIn('called', [], 'called stage'),
    echo('called stage', 'return', { input: OUTPUT, output: INPUT }),
    linkReturn('return'),
    { ...subflow('web', '', ''), in: [], out: [] },
    ...on({ z: 'web' }, ...web('own', 'post', '/own', 'own'), echo('own', 'out own', { output: OUTPUT })),
    instance('web instance', 'web', []),
    ...web('changed', 'post', '/changed', 'change'),
    func('change', 'return msg;', 'changed'),
    echo('changed', 'change again', { input, output: OUTPUT }),
    func('change again', 'return msg;', 'out changed'),
    ...web('file', 'post', '/file', 'file'),
    stage('file', '', 'out file', { ...source, source: 'file', path: files.js }),
    httpIn('in chat', '/chat', 'chat'),
    echo('chat', 'streamed', { output: OUTPUT }),
    streamOut('streamed', { format: 'openai' }),
    ...web('hidden', 'post', '/hidden', 'private'),
    stage('private', 'return input;', 'out hidden', { runtime: 'hidden' }),
    ...web('plain', 'post', '/plain', 'answer'),
    func('answer', 'return msg;', 'out plain'),
    { ...tab('off'), disabled: true },
    ...on({ z: 'off' }, ...web('off', 'post', '/off', 'off stage'), echo('off stage', 'out off')),
    ...(WITHOUT_JSONSCHEMA
      ? []
      : [
          ...web('python', 'post', '/python', 'python'),
          stage('python', '', 'out python', { ...source, source: 'python', path: files.python, python: JSONSCHEMA }),
        ]),
  ];
}

async function read(path = ADMIN): Promise<OpenApiDocument> {
  const document = await nodeRed.getJson<OpenApiDocument>(path);
  await assertValid(document);
  return document;
}

/** The schemas of input and output, once they are there. */
async function schemas(method: string, path: string): Promise<{ input: unknown; output: unknown }> {
  const document = await read();
  const { requestBody, responses } = operation(document, method, path);
  return { input: bodySchema(document, requestBody), output: bodySchema(document, responses['200']) };
}

/** The pair's schema as it is within the document. */
function embedded(name: string): object {
  const properties = { a: { type: 'number' }, b: { $ref: `#/components/schemas/${name}/$defs/text` } };
  return { ...INPUT, properties };
}

describe('OpenAPI document', () => {
  test('has each endpoint that leads to a pipeline, and no other', async () => {
    const { paths, info, servers, tags } = await read();
    const python = WITHOUT_JSONSCHEMA ? [] : ['post /python'];
    const all = Object.entries(paths).flatMap(([path, methods]) =>
      Object.keys(methods).map((method) => `${method} ${path}`),
    );
    const expected = [
      'post /params/{id}',
      'get /query',
      'put /gated',
      'patch /links',
      'post /call',
      'post /own',
      'post /changed',
      'post /chat',
      'post /file',
      'post /hidden',
    ];
    assert.deepEqual(all.sort(), [...expected, ...python].sort());
    assert.deepEqual(servers, [{ url: '/api' }]);
    assert.equal(info.title, 'All of them');
    assert.match(info.version, /^\d+\.\d+\.\d+/);
    assert.deepEqual(tags, [{ name: 'All of them', description: `Some ${HOSTILE}` }]);
  });

  test('describes the node and the parameters in its path', async () => {
    const { summary, description, parameters } = operation(await read(), 'post', '/params/{id}');
    assert.equal(summary, HOSTILE);
    assert.match(description ?? '', /^Takes \*pairs\*\.\n\nRuns the pipeline that begins with `params`/);
    assert.deepEqual(parameters[0], { name: 'id', in: 'path', required: true, schema: { type: 'string' } });
  });

  test('has the schemas of stages, through gates, batchers, links, link calls, subflows and collectors', async () => {
    assert.deepEqual(await schemas('post', '/params/{id}'), { input: embedded('params_input'), output: OUTPUT });
    assert.deepEqual(await schemas('put', '/gated'), { input: OUTPUT, output: embedded('second_result') });
    assert.deepEqual(await schemas('post', '/call'), { input: OUTPUT, output: embedded('called_stage_result') });
    assert.deepEqual((await schemas('post', '/own')).output, OUTPUT);
    const within = await schemas('patch', '/links');
    assert.deepEqual(within.output, OUTPUT);
    assert.deepEqual((within.input as { required: unknown }).required, ['a']);
  });

  test('says which status and media type an HTTP response node sets', async () => {
    const { responses } = operation(await read(), 'get', '/query');
    assert.ok(!('200' in responses));
    assert.deepEqual(Object.keys(contentOf(responses['203'])), ['text/csv']);
  });

  test('says which media types a stream response may set', async () => {
    const { responses } = operation(await read(), 'post', '/chat');
    assert.deepEqual(Object.keys(contentOf(responses['200'])), ['text/event-stream', 'application/json']);
  });

  test('has the input of a GET as query parameters', async () => {
    const document = await read();
    const parameters = operation(document, 'get', '/query').parameters as {
      name?: string;
      required?: boolean;
      schema: { $ref: string };
    }[];
    assert.deepEqual(
      parameters.slice(0, 2).map(({ name, required }) => [name, required]),
      [
        ['a', true],
        ['b', false],
      ],
    );
    assert.deepEqual(at(document, parameters[1]?.schema.$ref ?? ''), { type: 'string' });
  });

  test('does not claim schemas if a node between may change the message', async () => {
    const { input, output } = await schemas('post', '/changed');
    for (const schema of [input, output])
      assert.match((schema as { description: string }).description, /the flow may change it/);
  });

  test('has refusals by a gate only for endpoints behind a gate', async () => {
    const document = await read();
    const refused = (method: string, path: string): string => {
      const { $ref } = operation(document, method, path).responses['429'] ?? {};
      return JSON.stringify(at(document, String($ref)));
    };
    assert.match(refused('put', '/gated'), /gate_refused/);
    assert.doesNotMatch(refused('post', '/file'), /gate_refused/);
  });

  test('has the descriptions that modelets give, their examples too', async () => {
    assert.deepEqual(await schemas('post', '/file'), { input: OUTPUT, output: OUTPUT });
    const { requestBody } = operation(await read(), 'post', '/file');
    assert.deepEqual(contentOf(requestBody)['application/json']?.examples, { example1: { value: 3 } });
  });

  test('has the description that a modelet in Python gives', { skip: WITHOUT_JSONSCHEMA }, async () => {
    assert.deepEqual(await schemas('post', '/python'), { input: { type: 'string' }, output: {} });
  });
});

describe('OpenAPI document: in public', () => {
  test('the document below the path of a runtime has only the endpoints of that runtime', async () => {
    const document = await read(PUBLIC);
    assert.ok(!('/hidden' in document.paths));
    assert.ok('/params/{id}' in document.paths);
    assert.equal(document.info.title, 'shown');
    assert.equal((await fetch(`${nodeRed.url}/api/other/openapi.json`)).status, 404);
  });

  test('the page and the files that it loads are public, too', async () => {
    for (const path of ['/admin/modelets/openapi', '/api/ops/openapi']) {
      const response = await fetch(nodeRed.url + path);
      assert.match(response.headers.get('content-type') ?? '', /^text\/html/);
      assert.match(response.headers.get('content-security-policy') ?? '', /^default-src 'none'; script-src 'self';/);
      const files = [...(await response.text()).matchAll(/(?:src|href)="(openapi\/[^"]+)"/g)];
      const types = await Promise.all(
        files.map(async ([, file]) => {
          const { status, headers } = await fetch(new URL(String(file), response.url));
          return `${status} ${headers.get('content-type')}`;
        }),
      );
      assert.match(types.join('\n'), /^200 text\/css.*\n200 .*\/javascript.*\n200 .*\/javascript.*$/);
    }
  });
});

describe('OpenAPI document: what changes', () => {
  test('the document follows a deploy', async () => {
    await nodeRed.deploy(flows({ type: 'boolean' }), 'nodes');
    await until('the new schema serves', async () => {
      const { input } = await schemas('post', '/params/{id}');
      return JSON.stringify(input) === '{"type":"boolean"}';
    });
    assert.deepEqual(await schemas('post', '/file'), { input: OUTPUT, output: OUTPUT });
  });

  test('the document follows changed code', async () => {
    await writeFile(join(nodeRed.userDir, files.js), modelet(4, { type: 'integer' }));
    assert.equal((await nodeRed.post('/admin/modelets/stages/file/restart', {})).status, 204);
    await until('the new code serves', async () => {
      const { input } = await schemas('post', '/file');
      return JSON.stringify(input) === '{"type":"integer"}';
    });
  });

  test('each example flow has a document that says what it is about', async () => {
    const folder = join(repositoryRoot, 'examples');
    const names = (await readdir(folder)).filter((file) => file.endsWith('.json'));
    const examples = await Promise.all(
      names.map(async (file) => JSON.parse(await readFile(join(folder, file), 'utf8')) as FlowNode[]),
    );
    // Without their runtimes nothing needs to start for this; the dashboard's nodes are not installed here.
    const all = examples.flat().filter(({ type }) => type !== 'modelet-runtime' && !type.startsWith('ui-'));
    await nodeRed.deploy(all);
    const document = await read();
    const drawn = all.filter(({ type }) => type === 'http in').length;
    const said = Object.values(document.paths).flatMap((methods) => Object.keys(methods)).length;
    assert.ok(said >= 12 && said <= drawn, `${said} of ${drawn}`);
    const digits = operation(document, 'post', '/predict/digits');
    assert.ok('200' in digits.responses && digits.requestBody);
    assert.ok('202' in operation(document, 'post', '/examples/jobs').responses);
    assert.ok('404' in operation(document, 'get', '/examples/jobs/{id}').responses);
  });

  test('the document loses a removed endpoint', async () => {
    await nodeRed.deploy([TAB]);
    assert.deepEqual((await read()).paths, {});
    assert.equal((await fetch(nodeRed.url + PUBLIC)).status, 404);
  });
});
