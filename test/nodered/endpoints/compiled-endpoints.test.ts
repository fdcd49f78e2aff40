/** The HTTP-in nodes of running flows that are compiled to endpoints, and why others are not, where Node-RED itself decides. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { NodeAPI } from 'node-red';
import type { EndpointSpec } from '../../../src/core/endpoints.ts';
import { httpFacts } from '../../../src/node-red/deploy/http-facts.ts';
import { pipelineOf } from '../../../src/node-red/pipeline.ts';
import { instance, linkIn, linkOut, on, subflow, tab } from '../../fixtures/drawn.ts';
import {
  batcher,
  catchNode,
  collector,
  completeNode,
  endpoint,
  httpIn,
  httpOut,
  runtime,
  sink,
  stage,
  TAB,
} from '../../fixtures/flow.ts';
import { type FlowNode, NodeRed } from '../../fixtures/node-red.ts';
import { until } from '../../fixtures/polling.ts';

const CODE = 'return input;';
const PLAIN = [TAB, runtime(), httpIn('in', '/plain', 'a'), stage('a', CODE, 'out'), httpOut('out')];

function specs(red: NodeRed): readonly EndpointSpec[] {
  return pipelineOf(red.red as never).deployment.compiled.endpoints;
}

/** The reasons by HTTP-in node. */
function reasons(red: NodeRed): Readonly<Record<string, string>> {
  const { uncompiled } = pipelineOf(red.red as never).deployment.compiled;
  return Object.fromEntries(uncompiled.map(({ id, reason }) => [id, reason]));
}

async function reasonFor(red: NodeRed, nodes: readonly FlowNode[]): Promise<string | undefined> {
  await red.deploy(nodes);
  return reasons(red)['in'];
}

let red: NodeRed;
before(async () => {
  red = await NodeRed.start({ httpNodeRoot: '/api' });
});
after(() => red.stop());

test('a whole endpoint is compiled with the settings of its nodes', async () => {
  await red.deploy([
    TAB,
    runtime(),
    httpIn('in', '/whole', 'q'),
    batcher('q', 'a'),
    stage('a', CODE, 'b', { mediaTypes: 'application/json, image/*', overflow: 'wait' }),
    stage('b', CODE, ['seen', 'c']),
    collector('c', 'out', 'bad', { errorPayload: 'keep' }),
    { ...httpOut('out'), statusCode: '201', headers: { 'x-model': 'digits' } },
    httpOut('bad'),
    sink('seen'),
  ]);
  assert.deepEqual(specs(red), [
    {
      id: 'in',
      method: 'post',
      path: '/api/whole',
      runtime: 'runtime',
      entry: 'q',
      describedBy: { first: 'a', last: 'b' },
      mediaTypes: ['application/json', 'image/*'],
      maxRows: 0,
      patient: true,
      answer: { statusCode: 201, headers: { 'x-model': 'digits' } },
      failure: { statusCode: null, headers: {} },
      errorPayload: 'keep',
      copies: ['seen'],
      parts: null,
      sticky: null,
      key: null,
      cost: null,
      model: null,
    },
  ]);
  assert.deepEqual(reasons(red), {});
});

test('an endpoint is compiled through links, junctions and the borders of subflows', async () => {
  await red.deploy([
    TAB,
    tab('elsewhere'),
    runtime(),
    httpIn('in', '/links', 'to'),
    linkOut('to', 'from'),
    linkIn('from', 'to', 'use'),
    subflow('sub', 'inner', 'inner'),
    ...on({ z: 'sub' }, stage('inner', CODE, [])),
    instance('use', 'sub', 'out'),
    httpOut('out'),
  ]);
  assert.deepEqual(
    specs(red).map(({ id, entry }) => [id, entry]),
    [['in', 'use-inner']],
  );
});

test('HTTP-in nodes in a subflow are compiled in each instance that has a unique path', async () => {
  // biome-ignore lint/suspicious/noTemplateCurlyInString: Node-RED puts the instance's variable in its place
  const http = httpIn('in', '${NAME}', 'inner');
  const inside = on({ z: 'sub' }, http, stage('inner', CODE, 'out'), httpOut('out'));
  const named = (id: string, name: string): FlowNode => ({
    ...instance(id, 'sub', []),
    env: [{ name: 'NAME', type: 'str', value: name }],
  });
  await red.deploy([
    TAB,
    runtime(),
    { ...subflow('sub', 'inner', 'inner'), in: [], out: [] },
    ...inside,
    named('one', '/first'),
    named('two', '/second'),
  ]);
  assert.deepEqual(
    specs(red)
      .map(({ id, path }) => [id, path])
      .sort(),
    [
      ['one-in', '/api/first'],
      ['two-in', '/api/second'],
    ],
  );
});

test('the compiler ignores a disabled node', async () => {
  await red.deploy([
    ...PLAIN.slice(0, 2),
    httpIn('in', '/plain', ['a', 'd']),
    ...PLAIN.slice(3),
    { ...sink('d'), d: true },
  ]);
  assert.equal(specs(red).length, 1);
});

const against: readonly (readonly [name: string, reason: RegExp | undefined, nodes: readonly FlowNode[]])[] = [
  ['code that reads the topic', /^stage a reads msg\.topic$/, [...PLAIN, stage('a', 'return msg.topic;', 'out')]],
  ['code that reads the id', /^stage a reads msg\._msgid$/, [...PLAIN, stage('a', 'return msg._msgid;', 'out')]],
  ['a Complete node', /^a Complete node watches stage a$/, [...PLAIN, completeNode('done', ['a'], [])]],
  ['a Catch node', /^a Catch node handles the errors of stage a$/, [...PLAIN, catchNode('catch', [])]],
  ['a Catch node for the rest', /^a Catch node/, [...PLAIN, catchNode('catch', [], { uncaught: true })]],
  ['a Catch node for it', /^a Catch node/, [...PLAIN, catchNode('catch', [], { scope: ['a'] })]],
  ['a Catch node for another node', undefined, [...PLAIN, catchNode('catch', [], { scope: ['other'] })]],
  ['a Catch node on another tab', undefined, [...PLAIN, tab('away'), ...on({ z: 'away' }, catchNode('catch', []))]],
  [
    'a Catch node of another group',
    undefined,
    [
      ...PLAIN,
      { id: 'group', type: 'group', z: TAB.id, nodes: ['catch'], x: 0, y: 0, w: 9, h: 9 },
      { ...catchNode('catch', [], { scope: 'group' }), g: 'group' },
    ],
  ],
  [
    'a runtime that is missing',
    /^stage a cannot be used: no runtime is selected/,
    PLAIN.filter(({ id }) => id !== 'runtime'),
  ],
  [
    'raw bodies',
    /^the HTTP-in node leaves bodies as they came$/,
    [...PLAIN, { ...httpIn('in', '/plain', 'a'), skipBodyParsing: true }],
  ],
];
for (const [name, reason, nodes] of against) {
  test(name, async () => {
    // Later nodes replace earlier ones of the same id.
    const found = await reasonFor(red, [...new Map(nodes.map((one) => [one.id, one])).values()]);
    if (reason) assert.match(found ?? 'it was compiled', reason);
    else assert.equal(found, undefined);
  });
}

test('a Catch node around a subflow gets the errors inside it', async () => {
  await red.deploy([
    TAB,
    runtime(),
    httpIn('in', '/sub', 'use'),
    subflow('sub', 'inner', 'inner'),
    ...on({ z: 'sub' }, stage('inner', CODE, [])),
    instance('use', 'sub', 'out'),
    httpOut('out'),
    catchNode('catch', [], { scope: ['use'] }),
  ]);
  assert.match(reasons(red)['in'] ?? '', /^a Catch node handles the errors of stage use-inner$/);
});

test('the snapshot and the view of stages say which endpoints are compiled, and why others are not', async () => {
  await red.deploy([...PLAIN, { ...httpIn('get', '/x/:id', 'a'), method: 'get' }]);
  const { endpoints } = await red.snapshot();
  const common = { stages: ['a'], runtimes: ['runtime'], isDeadEnd: false, isSecond: false };
  assert.deepEqual(endpoints, [
    { id: 'in', method: 'POST', path: '/api/plain', ...common, reason: null },
    {
      id: 'get',
      method: 'GET',
      path: '/api/x/:id',
      ...common,
      reason: 'the HTTP-in node takes GET requests; only POST, PUT and PATCH can be',
    },
  ]);
  const answer = await fetch(`${red.url}/admin/modelets/nodes/a`);
  assert.deepEqual(((await answer.json()) as { endpoints: unknown }).endpoints, endpoints);
});

test('a hook that sees messages prevents compiled endpoints', async () => {
  const { hooks } = red.red as unknown as {
    hooks: { add(name: string, hook: object): void; remove(name: string): void };
  };
  hooks.add('preRoute.test', () => {});
  assert.match((await reasonFor(red, PLAIN)) ?? '', /^a message hook or a debugger looks at messages$/);
  hooks.remove('preRoute.test');
  assert.equal(await reasonFor(red, PLAIN), undefined);
});

test('a hook that comes after the deploy sees the next requests, until it goes', async () => {
  const { hooks } = red.red as unknown as {
    hooks: { add(name: string, hook: object): void; remove(name: string): void };
  };
  await red.deployReady(PLAIN);
  const seen: string[] = [];
  const told = async (): Promise<unknown> => (await red.snapshot()).endpoints[0]?.reason;
  const answers = async (n: number): Promise<unknown> => (await red.post('/api/plain', { n })).json();
  assert.deepEqual(await answers(1), { n: 1 });
  hooks.add('onReceive.test', ({ destination }: { destination: { id: string } }) => void seen.push(destination.id));
  await until('a request goes through the flow', async () => {
    assert.deepEqual(await answers(2), { n: 2 });
    return seen.length > 0;
  });
  assert.equal(await told(), 'a message hook or a debugger looks at messages');
  assert.deepEqual(await answers(3), { n: 3 });
  assert.deepEqual(new Set(seen), new Set(['a', 'out']));
  hooks.remove('onReceive.test');
  await until('the snapshot says that the endpoint is compiled again', async () => (await told()) === null);
  seen.length = 0;
  assert.deepEqual(await answers(4), { n: 4 });
  assert.deepEqual(seen, []);
  const lines = red.logs.filter((line) => line.includes('compiled endpoints:'));
  assert.match(lines[0] ?? '', /requests go through the flow, because a message hook or a debugger looks/);
  assert.match(lines[1] ?? '', /requests bypass the flow again/);
});

test('the endpoints of the test fixtures compile', async () => {
  await red.deploy([TAB, runtime(), ...endpoint('/e', 'e'), stage('e', CODE, 'collector /e')]);
  assert.equal(specs(red).length, 1);
});

const settings: readonly (readonly [setting: object, reason: RegExp | null])[] = [
  [{}, null],
  [{ httpNodeAuth: { user: 'u', pass: 'p' } }, /httpNodeAuth/],
  [{ httpNodeMiddleware: () => {} }, /httpNodeMiddleware/],
  [{ httpNodeCors: { origin: () => {} } }, /httpNodeCors/],
];
for (const [setting, reason] of settings) {
  test(`the setting ${Object.keys(setting).join() || 'that is usual'}`, () => {
    const { barred } = factsWith(red, setting);
    if (reason) assert.match(barred ?? '', reason);
    else assert.equal(barred, null);
  });
}

test('the editor answers its own paths first', async () => {
  const paths = ['/flows', '/modelets/stages/x/flush', '/free'];
  await red.deploy([...PLAIN.slice(0, 2), ...paths.map((path) => httpIn(path, path, 'a')), ...PLAIN.slice(3)]);
  const { taken } = factsWith(red, { httpNodeRoot: '/', httpAdminRoot: '/' });
  assert.deepEqual([...taken.keys()], ['/flows', '/modelets/stages/x/flush']);
  assert.equal(taken.get('/flows'), "the editor's server answers /flows itself");
  assert.deepEqual([...factsWith(red, { httpNodeRoot: '/', httpAdminRoot: '/admin' }).taken.keys()], []);
  assert.deepEqual(
    [...factsWith(red, { httpNodeRoot: '/admin', httpAdminRoot: '/admin' }).taken.keys()],
    ['/flows', '/modelets/stages/x/flush'],
  );
});

test('a handler of another module comes first, unless it stands behind the HTTP-in node', async () => {
  const app = red.red.httpNode as { use(path: string, handler: object): void };
  const flows = (url: string): FlowNode[] => [...PLAIN.slice(0, 2), httpIn('in', url, 'a'), ...PLAIN.slice(3)];
  assert.equal(await reasonFor(red, flows('/guarded/x')), undefined);
  app.use('/guarded', (_request: unknown, _response: unknown, next: () => void) => next());
  await red.deploy(flows('/guarded/x'), 'nodes');
  assert.equal(reasons(red)['in'], undefined);
  assert.match((await reasonFor(red, flows('/guarded/y'))) ?? '', /^another module handles requests/);
  assert.equal(await reasonFor(red, flows('/free')), undefined);
});

/** The facts that Node-RED would give with other settings. */
function factsWith(red: NodeRed, changed: object): ReturnType<typeof httpFacts> {
  const { RED, deployment } = pipelineOf(red.red as never);
  const other = Object.assign(Object.create(RED) as NodeAPI, { settings: { ...RED.settings, ...changed } });
  return httpFacts(other, deployment.graph);
}
