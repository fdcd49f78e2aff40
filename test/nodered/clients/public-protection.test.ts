/** Node-RED's settings protect the routes of `publicPath` like the endpoints beside them. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { after, before, describe, test } from 'node:test';
import { func, httpIn, httpOut, runtime, stage, TAB } from '../../fixtures/flow.ts';
import { type FlowNode, useNodeRed } from '../../fixtures/node-red.ts';
import { NodeRedProcess } from '../../fixtures/node-red-process.ts';

const OPENAPI = ['/openapi.json', '/openapi', '/openapi/viewer.js'];
const PUBLIC = ['/metrics', '/health/live', '/health/ready', '/health/ready?deep=1', ...OPENAPI];
const PATHS = ['/endpoint', ...PUBLIC.map((path) => `/ops${path}`)];

const FLOWS: readonly FlowNode[] = [
  TAB,
  runtime('runtime', { publicPath: '/ops' }),
  { ...httpIn('in', '/endpoint', 'stage'), method: 'get' },
  stage('stage', 'return { served: true };', 'out'),
  httpOut('out'),
  httpIn('in post', '/posted', 'between'),
  func('between', 'return msg;', 'stage'),
];

type Cookies = IncomingMessage & { readonly cookies?: Readonly<Record<string, string>> };
type Next = (error?: unknown) => void;

/** Lets in who has the cookie, as a login would; a broken one is a separate fault. */
function login({ cookies }: Cookies, response: ServerResponse, next: Next): void {
  if (cookies?.['key'] === 'broken') next(new Error('the login is broken'));
  else if (cookies?.['key'] === 'right') next();
  else response.writeHead(401).end('who are you?');
}

function sign(_request: IncomingMessage, response: ServerResponse, next: Next): void {
  response.setHeader('X-Signed', 'yes');
  setImmediate(next);
}

describe('with httpNodeMiddleware and httpNodeCors', () => {
  const CORS = { origin: 'https://a.example', credentials: true };
  const red = useNodeRed({
    settings: { httpNodeRoot: '/api', httpNodeMiddleware: [login, sign], httpNodeCors: CORS },
    flows: FLOWS,
  });

  const get = (path: string, key?: string, init: RequestInit = {}): Promise<Response> =>
    fetch(`${red.url}/api${path}`, { ...(key ? { headers: { Cookie: `a=b; key=${key}` } } : {}), ...init });

  test('a body is read only for clients that the middleware lets in', async () => {
    const posted = { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: '{"a":' };
    assert.equal((await get('/posted', undefined, posted)).status, 401);
    const Cookie = 'key=right';
    const refused = await get('/posted', undefined, { ...posted, headers: { ...posted.headers, Cookie } });
    assert.equal(refused.status, 400);
    assert.equal(refused.headers.get('Access-Control-Allow-Origin'), CORS.origin);
    assert.equal(((await refused.json()) as { error: { code: string } }).error.code, 'bad_request');
  });

  for (const path of PATHS) {
    test(`${path} is only for clients that the middleware lets in`, async () => {
      const [nobody, wrong, somebody] = [await get(path), await get(path, 'wrong'), await get(path, 'right')];
      for (const refused of [nobody, wrong]) {
        assert.deepEqual([refused.status, await refused.text()], [401, 'who are you?']);
      }
      assert.equal(somebody.status, 200);
      assert.equal(somebody.headers.get('x-signed'), 'yes');
      assert.equal(somebody.headers.get('access-control-allow-origin'), 'https://a.example');
      assert.equal(somebody.headers.get('access-control-allow-credentials'), 'true');
    });

    test(`${path} answers 500 if the middleware fails`, async () => {
      const failed = await get(path, 'broken');
      assert.deepEqual([failed.status, await failed.text()], [500, 'Internal Server Error']);
    });
  }

  test('HEAD requests and preflight requests are answered as at an endpoint', async () => {
    for (const path of ['/ops/metrics', '/endpoint']) {
      assert.equal((await get(path, undefined, { method: 'HEAD' })).status, 401);
      assert.equal((await get(path, undefined, { method: 'OPTIONS' })).status, 204);
    }
  });

  test('a path that no runtime has bypasses the middleware and is not found', async () => {
    assert.equal((await get('/other/metrics')).status, 404);
  });

  test('the admin side uses its own permissions', async () => {
    assert.equal((await fetch(`${red.url}/admin/modelets/metrics`)).status, 200);
  });
});

describe('with httpNodeAuth, in Node-RED as its own command starts it', () => {
  let red: NodeRedProcess;
  before(async () => {
    const pass = createHash('md5').update('secret').digest('hex');
    red = await NodeRedProcess.start(FLOWS, { httpNodeAuth: { user: 'me', pass } });
  });
  after(() => red.end());

  for (const path of PATHS) {
    test(`${path} is only for clients with the password`, async () => {
      const Authorization = `Basic ${Buffer.from('me:secret').toString('base64')}`;
      assert.equal((await fetch(red.url + path)).status, 401);
      assert.equal((await fetch(red.url + path, { headers: { Authorization } })).status, 200);
    });
  }
});
