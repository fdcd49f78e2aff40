/**
 * The keys of a runtime in Node-RED: which requests they reach, and what a deploy changes.
 * Shows: node modelet-keys.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { endpoint, func, httpIn, httpOut, keysNode, node, runtime, stage, TAB } from '../../fixtures/flow.ts';
import { type FlowNode, useNodeRed } from '../../fixtures/node-red.ts';
import { until } from '../../fixtures/polling.ts';

const red = useNodeRed();
const [APP, BATCH] = ['the-key-of-the-app', 'the-key-of-the-batch'];
const KEYS = keysNode('keys', [
  { name: 'app', key: APP },
  { name: 'batch', key: BATCH },
]);

function flows(...more: readonly FlowNode[]): FlowNode[] {
  return [
    TAB,
    runtime('runtime', { keys: 'keys' }),
    ...endpoint('/compiled', 'double'),
    stage('double', 'return { n: input.n * 2 };', 'collector /compiled'),
    ...more,
  ];
}

async function ask(path: string, key?: string): Promise<number> {
  const headers = { 'Content-Type': 'application/json', ...(key === undefined ? {} : { 'X-API-Key': key }) };
  const answer = await fetch(`${red.url}${path}`, { method: 'POST', headers, body: '{"n":1}' });
  await answer.text();
  return answer.status;
}

test('a deploy that removes a key refuses it at once, and the clients are counted', async () => {
  await red.deployReady([...flows(), KEYS]);
  assert.deepEqual(
    [await ask('/compiled'), await ask('/compiled', APP), await ask('/compiled', BATCH)],
    [401, 200, 200],
  );
  const metrics = await (await fetch(`${red.url}/admin/modelets/metrics`)).text();
  assert.match(metrics, /modelet_client_requests_total\{[^}]*client="app",status="200"\} 1/);
  assert.match(metrics, /modelet_client_requests_total\{[^}]*client="none",status="401"\} 1/);
  const { pid } = (await red.snapshot()).runtimes[0]?.engine ?? {};
  await red.deploy([...flows(), keysNode('keys', [{ name: 'batch', key: BATCH }])], 'nodes');
  await until('the key has ended', async () => (await ask('/compiled', APP)) === 401);
  assert.equal(await ask('/compiled', BATCH), 200);
  assert.equal((await red.snapshot()).runtimes[0]?.engine.pid, pid, 'the engine went on');
});

test('keys that cannot be used admit no client', async () => {
  const unkeyed = { ...KEYS, credentials: { hashes: '{}' } };
  const doubled = keysNode('keys', [
    { name: 'app', key: APP },
    { name: 'app', key: BATCH },
  ]);
  for (const keys of [[], [unkeyed], [doubled], [{ ...KEYS, d: true }]] as FlowNode[][]) {
    await red.deploy([...flows(), ...keys]);
    assert.equal(await ask('/compiled', APP), 401);
    await until('the badge says so', () => red.badges.get('double')?.fill === 'red');
  }
});

test('no way through the flow leads around the key', async () => {
  const more = [
    KEYS,
    httpIn('in changed', '/changed', 'change'),
    func('change', 'return msg;', 'first'),
    stage('first', 'return input;', 'again', { runtime: 'open' }),
    runtime('open'),
    func('again', 'return msg;', 'second'),
    stage('second', 'return input;', 'out changed'),
    httpOut('out changed'),
    httpIn('in called', '/called', 'name'),
    func('name', "msg.target = 'subroutine'; return msg;", 'call'),
    node('call', 'link call', ['out called'], { linkType: 'dynamic', links: [] }),
    node('subroutine', 'link in', ['third'], { name: 'subroutine', links: [] }),
    stage('third', 'return input;', 'back'),
    node('back', 'link out', [], { mode: 'return', links: [] }),
    httpOut('out called'),
    node('catch', 'catch', ['out called'], { scope: null, uncaught: false }),
  ];
  await red.deployReady([...flows(), ...more]);
  for (const path of ['/changed', '/called']) {
    assert.equal(await ask(path, APP), 200, path);
    assert.equal(await ask(path), 401, path);
    assert.equal(await ask(`${path}/`), 401, path);
    assert.equal(await ask(path.toUpperCase(), 'wrong'), 401, path);
  }
});

test('the document says how to send a key', async () => {
  await red.deployReady([...flows(), KEYS]);
  const document = await red.getJson<{
    readonly components: { readonly securitySchemes?: object };
    readonly paths: Record<string, { readonly post: { readonly security?: object; readonly responses: object } }>;
  }>('/admin/modelets/openapi.json');
  const { security, responses } = document.paths['/compiled']?.post ?? {};
  assert.deepEqual(security, [{ bearerKey: [] }, { apiKey: [] }]);
  assert.ok(['401', '403', '429'].every((status) => status in (responses ?? {})));
  assert.deepEqual(Object.keys(document.components.securitySchemes ?? {}).sort(), ['apiKey', 'bearerKey']);
});
