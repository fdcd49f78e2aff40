/** The admin routes for the dialog of a gate, their permissions, and the protection of secrets. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { type AddressInfo, createServer as createTcpServer } from 'node:net';
import { after, before, describe, test } from 'node:test';
import type { Reading } from '../../../src/gate/source.ts';
import type { GateSnapshot } from '../../../src/observe/views/gate-snapshot.ts';
import { free } from '../../fixtures/badges.ts';
import { collector, dispatchGate, httpIn, httpOut, node, runtime, sink, stage, TAB } from '../../fixtures/flow.ts';
import { type FlowNode, tokensOf, useNodeRed } from '../../fixtures/node-red.ts';
import { until } from '../../fixtures/polling.ts';

const PERMISSIONS: Readonly<Record<string, string>> = { reader: 'read', operator: 'modelets.write', owner: '*' };
const SECRET = 'a secret that stays secret';

/** Has the metric `load`, for who shows the secret. */
const presented: string[] = [];
const paths: Set<string> = new Set();
const server = createServer((request, response) => {
  paths.add(request.url ?? '');
  presented.push(request.headers.authorization ?? '');
  if (request.headers.authorization !== `Bearer ${SECRET}`) response.writeHead(401).end();
  else response.end('# TYPE load gauge\nload 0.25\n');
});

const red = useNodeRed({
  settings: { adminAuth: tokensOf(PERMISSIONS) },
  prepare: async () => {
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    address = `http://127.0.0.1:${(server.address() as AddressInfo).port}/metrics`;
    await deploy(FLOWS());
  },
});
let address: string;
after(() => {
  server.close();
});

const scrape = (): Record<string, unknown> => ({ source: 'scrape', url: address, metric: 'load' });

const FLOWS = (): FlowNode[] => [
  TAB,
  runtime(),
  httpIn('in', '/in', 'scraping'),
  dispatchGate('scraping', 'work', [], { ...scrape(), maxSys: '40', credentials: { token: SECRET, username: 'me' } }),
  stage('work', 'return input;', 'end'),
  collector('end', 'out'),
  httpOut('out'),
  dispatchGate('blind', 'nowhere', [], {
    ...scrape(),
    metric: 'none',
    whenClosed: 'refuse',
    credentials: { token: SECRET },
  }),
  httpIn('in blind', '/blind', 'blind'),
  sink('nowhere'),
];

async function deploy(flows: readonly FlowNode[]): Promise<void> {
  const started = new Promise<void>((resolve) => red.red.events.once('flows:started', resolve));
  const body = JSON.stringify({ flows });
  const headers = { 'Content-Type': 'application/json', 'Node-RED-API-Version': 'v2', Authorization: 'Bearer owner' };
  const response = await fetch(`${red.url}/admin/flows`, { method: 'POST', headers, body });
  assert.equal(response.status, 200);
  await started;
}

function ask(path: string, token?: string, body?: object): Promise<Response> {
  const headers: Record<string, string> = { 'Content-Type': 'application/json' };
  if (token) headers['Authorization'] = `Bearer ${token}`;
  const init = body ? { method: 'POST', body: JSON.stringify(body) } : {};
  return fetch(`${red.url}/admin/modelets${path}`, { headers, ...init });
}

async function read<T>(path: string): Promise<T> {
  const response = await ask(path, 'reader');
  assert.equal(response.status, 200, path);
  return (await response.json()) as T;
}

async function tryOut(form: object): Promise<Reading> {
  return (await (await ask('/gates/test', 'operator', form)).json()) as Reading;
}

test('only users with the permission to read get an answer, and only users with the permission to write can test', async () => {
  for (const [path, body, may] of [
    ['/gates/scraping', undefined, 'reader'],
    ['/nodes/scraping', undefined, 'reader'],
    ['/gates/test', { source: 'constant' }, 'operator'],
  ] as const) {
    assert.equal((await ask(path, undefined, body)).status, 401, path);
    const other = may === 'reader' ? 'operator' : 'reader';
    assert.equal((await ask(path, other, body)).status, 401, path);
    assert.equal((await ask(path, may, body)).status, 200, path);
  }
});

describe('the view of a gate', () => {
  test('has the numbers, their source, the counted workers and the reason', async () => {
    type Shown = GateSnapshot & { readonly stage: string; readonly warnings: string[] };
    const shown = await until('it was read', async () => {
      const now = await read<Shown>('/gates/scraping');
      return now.source.available && now;
    });
    const { name, open, budget, quota, maxSys, stage: counted, warnings } = shown;
    assert.deepEqual(
      { name, open, budget, quota, maxSys, counted, warnings },
      { name: 'scraping', open: true, budget: 0.75, quota: 30, maxSys: 40, counted: 'work', warnings: [] },
    );
    assert.match(shown.why, /^open: room for 30 requests/);
    assert.equal((await ask('/gates/unknown', 'reader')).status, 404);
    await until('the badge too', () => free(75).test(red.badges.get('scraping')?.text ?? ''));
  });

  test('shows a source that cannot be read, on its badge too', async () => {
    const { source, why, open } = await until('it was read', async () => {
      const now = await read<GateSnapshot>('/gates/blind');
      return now.source.error !== null && now;
    });
    assert.deepEqual([open, source.available], [false, false]);
    assert.match(source.error ?? '', /none/);
    assert.match(why, /^closed: /);
    await until('the badge too', () => red.badges.get('blind')?.fill === 'red');
    assert.match(red.badges.get('blind')?.text ?? '', /^closed: .*none/);
  });

  test('shows no secret', async () => {
    for (const path of ['/snapshot', '/gates/scraping', '/gates/blind', '/nodes/scraping', '/metrics']) {
      assert.ok(!(await (await ask(path, 'reader')).text()).includes(SECRET), path);
    }
    assert.ok(red.logs.every((line) => !line.includes(SECRET)));
    const flows = await (await fetch(`${red.url}/admin/flows`, { headers: { Authorization: 'Bearer owner' } })).text();
    assert.ok(!flows.includes(SECRET));
  });

  test('an error for a refused client does not name the source of the numbers', async () => {
    const response = await red.post('/blind', {});
    const text = await response.text();
    assert.equal(response.status, 429, text);
    assert.match(text, /the gate \\"blind\\" admits no request now/);
    assert.ok(!text.includes('127.0.0.1') && !text.includes('metric'), text);
  });
});

describe('the test of a source', () => {
  const form = (): object => ({ id: 'scraping', ...scrape() });

  test('reads settings that are not deployed, with the secret as typed or as kept', async () => {
    const { token: _, ...typed } = { token: 'unused', ...form() };
    for (const credentials of [{ token: SECRET }, { token: '__PWRD__', username: 'me', password: '' }]) {
      const reading = await tryOut({ ...typed, credentials });
      assert.ok(reading.ok, JSON.stringify(reading));
      assert.equal(reading.sample.budget, 0.75);
    }
    assert.equal(await tryOut({ ...form(), value: 'budget', credentials: { token: SECRET } }).then(budgetOf), 0.25);
  });

  test('says why there is no number, and which setting is unusable', async () => {
    const cases: readonly (readonly [object, RegExp])[] = [
      [{ ...form(), metric: 'other', credentials: { token: SECRET } }, /other/],
      [{ ...form(), credentials: { token: 'wrong' } }, /401/],
      [{ ...form(), credentials: {} }, /401/],
      [{ ...form(), url: 'http://127.0.0.1:9/' }, /ECONNREFUSED|refused/],
      [{ ...form(), url: 'ftp://x' }, /^Address: /],
      [{ ...form(), metric: '' }, /^Metric: is missing/],
      [{ ...form(), url: address.replace('http:', 'https:'), tls: 'gone' }, /TLS/],
      [{ source: 'composite', members: '["scraping"]' }, /composite/],
    ];
    for (const [settings, reason] of cases) {
      const reading = await tryOut(settings);
      assert.ok(!reading.ok, JSON.stringify(settings));
      assert.match(reading.reason, reason);
    }
  });

  test('sends a kept secret only to its present address', async (t) => {
    const thief = createServer((request, response) => {
      presented.push(`thief ${request.headers.authorization ?? ''}`);
      response.end('load 0.5\n');
    });
    t.after(() => thief.close());
    thief.listen(0, '127.0.0.1');
    await once(thief, 'listening');
    const url = `http://127.0.0.1:${(thief.address() as AddressInfo).port}/metrics`;
    const reading = await tryOut({ ...form(), url, credentials: { token: '__PWRD__' } });
    assert.ok(!reading.ok);
    assert.match(
      reading.reason,
      /^Bearer token: the saved one goes to the saved address only; deploy first, or type it again/,
    );
    assert.ok(!presented.some((shown) => shown.startsWith('thief')));
  });

  test('sends a kept secret to no other path of its server, because that path may show it', async () => {
    const { origin } = new URL(address);
    for (const url of [`${origin}/shows-its-headers`, `${address}/../shows`, `${address}?debug=1`, `${address}/`]) {
      const reading = await tryOut({ ...form(), url, credentials: { token: '__PWRD__' } });
      assert.ok(!reading.ok, url);
      assert.match(reading.reason, /^Bearer token: the saved one goes to the saved address only/);
      const { pathname, search } = new URL(url);
      assert.ok(!paths.has(pathname + search), 'nothing is sent there');
      const typed = await tryOut({ ...form(), url, credentials: { token: SECRET } });
      assert.ok(typed.ok && paths.has(pathname + search), 'a typed secret goes where its owner sends it');
    }
  });

  test('sends a kept password to no other Redis', async (t) => {
    const heard: string[] = [];
    const thief = createTcpServer((socket) => socket.on('data', (data) => heard.push(String(data))));
    t.after(() => thief.close());
    thief.listen(0, '127.0.0.1');
    await once(thief, 'listening');
    await deploy([
      ...FLOWS(),
      dispatchGate('redis', 'nowhere', [], {
        source: 'redis',
        url: 'redis://127.0.0.1:9/1',
        key: 'load',
        credentials: { username: 'me', password: SECRET },
      }),
    ]);
    const host = `127.0.0.1:${(thief.address() as AddressInfo).port}`;
    for (const url of [`redis://${host}/1`, 'redis://127.0.0.1:9/2', 'rediss://127.0.0.1:9/1']) {
      const credentials = { username: 'me', password: '__PWRD__' };
      const reading = await tryOut({ id: 'redis', source: 'redis', url, key: 'load', credentials });
      assert.ok(!reading.ok, url);
      assert.match(reading.reason, /^Password: the saved one goes to the saved address only/);
    }
    assert.deepEqual(heard, []);
  });
});

function budgetOf(reading: Reading): number {
  return reading.ok ? reading.sample.budget : Number.NaN;
}

describe('unusable and odd settings', () => {
  const gates: readonly FlowNode[] = [
    dispatchGate('in itself', 'end', [], { source: 'composite', members: '["over itself"]' }),
    dispatchGate('over itself', 'end', [], { source: 'composite', members: '["in itself"]' }),
    dispatchGate('of nothing', 'end', [], { source: 'composite', members: '["work"]' }),
    dispatchGate('of the useless', 'end', [], { source: 'composite', members: '["of nothing"]' }),
    dispatchGate('of bytes', 'end', [], { source: 'composite', members: '["bytes"]' }),
    dispatchGate('bytes', 'end', [], { unit: 'bytes' }),
    dispatchGate('no stage', 'end', [], { source: 'saturation' }),
    dispatchGate('gone stage', 'work', [], { stage: 'gone' }),
    dispatchGate('gone runtime', 'work', [], { runtime: 'gone' }),
    dispatchGate('durable', 'work2', [], { store: 'durable' }),
    stage('work2', 'return input;', []),
    dispatchGate('of two', 'work', [], { source: 'composite', members: '["scraping", "wide"]' }),
    dispatchGate('wide', 'work', [], { source: 'saturation', maxSys: '5000' }),
    dispatchGate('never', 'work', [], { baseline: 1 }),
    dispatchGate('zero', 'work', [], { maxSys: '0' }),
    dispatchGate('small', 'work', [], { maxSys: '0.5', atLeastOne: false }),
    dispatchGate('stale', 'work', [], { staleMs: 500, intervalMs: 1000 }),
    dispatchGate('hasty', 'work', [], { leaseMs: 1000 }),
    dispatchGate('endless', 'function'),
    node('function', 'function', [[]], { func: 'return msg;', outputs: 1, libs: [] }),
    dispatchGate('torn', ['work', 'work2'], [], { source: 'saturation' }),
  ];
  let invalid: Readonly<Record<string, string>>;
  before(async () => {
    await deploy([...FLOWS(), ...gates]);
    ({ invalid } = await read<{ invalid: Record<string, string> }>('/snapshot'));
  });

  const UNUSABLE: Readonly<Record<string, RegExp>> = {
    'in itself': /lead back to itself/,
    'over itself': /lead back to itself/,
    'of nothing': /member work is no gate/,
    'of the useless': /member of nothing cannot be used: member work/,
    'of bytes': /counts bytes/,
    'no stage': /no stage is selected/,
    'gone stage': /the stage .* does not exist/,
    'gone runtime': /its runtime does not exist/,
    // An older Node.js cannot have it at all.
    durable: /needs a result collector|22\.13/,
  };
  for (const [id, reason] of Object.entries(UNUSABLE)) {
    test(`the gate ${id} cannot be used`, async () => {
      assert.match(invalid[id] ?? '', reason);
      assert.match((await read<{ invalid: string }>(`/gates/${encodeURIComponent(id)}`)).invalid, reason);
      assert.ok(red.logs.some((line) => reason.test(line)));
    });
  }

  test('all other gates can be used', () =>
    assert.deepEqual(Object.keys(invalid).sort(), Object.keys(UNUSABLE).sort()));

  const ODD: Readonly<Record<string, RegExp>> = {
    never: /never opens: D is at most 1/,
    zero: /never opens: max_SYS is 0/,
    small: /never opens: N is at most 0\.5/,
    wide: /never closes: max_SYS is 5000, and stage work holds at most 1025/,
    stale: /stale after 500 ms/,
    hasty: /counts as gone after 1000 ms .* may take 30000 ms/,
    endless: /wire a result collector/,
    torn: /2 stages are equally near/,
  };
  for (const [id, warning] of Object.entries(ODD)) {
    test(`${id}: the dialog and the log have a warning`, async () => {
      const { warnings } = await read<{ warnings: string[] }>(`/nodes/${id}`);
      assert.equal(warnings.length, 1, warnings.join());
      assert.match(warnings[0] ?? '', warning);
      assert.ok(red.logs.some((line) => warning.test(line)));
    });
  }

  test('a composite admits as much as all of its members, and names the limiting one', async () => {
    const gate = await until('both were read', async () => {
      const now = await read<GateSnapshot>('/gates/of%20two');
      return now.open && now;
    });
    assert.deepEqual([gate.quota, gate.budget], [30, 0.75]);
    assert.match(gate.why, /"scraping"/);
  });
});
