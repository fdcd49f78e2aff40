/** Versions of a stage, drawn and deployed: shares, keys, shadows, errors, live changes, roll-backs. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { instance, on, subflow } from '../../fixtures/drawn.ts';
import { Scrape } from '../../fixtures/exposition.ts';
import { endpoint, func, httpIn, runtime, sink, stage, TAB } from '../../fixtures/flow.ts';
import { engineUrl, type FlowNode, useNodeRed } from '../../fixtures/node-red.ts';
import { until } from '../../fixtures/polling.ts';

const red = useNodeRed();

type Row = { readonly stage: string; readonly share: string; readonly mode: 'answer' | 'shadow' };

function row(id: string, share: number, mode: Row['mode'] = 'answer'): Row {
  return { stage: id, share: `${share}`, mode };
}

/** The rows as the properties of a stage. */
function listed(rows: readonly Row[]): object {
  return { versions: rows.map(({ stage: id }) => id), shares: rows.map(({ share, mode }) => ({ share, mode })) };
}

const OLD = "return { by: 'old', input };";
const NEW = "if (input.bad) throw new Error('the new one cannot'); return { by: 'new', input };";

/** `/ask` leads to the stage old, whose version is new. `more`: settings of old. */
function flows(versions: readonly Row[], more: object = {}, ...others: readonly FlowNode[]): FlowNode[] {
  return [
    TAB,
    runtime('runtime', { listen: '127.0.0.1:0' }),
    ...endpoint('/ask', 'old'),
    stage('old', OLD, 'collector /ask', { ...listed(versions), ...more }),
    stage('new', NEW, []),
    ...others,
  ];
}

interface Answer {
  readonly status: number;
  readonly by?: string;
  readonly code?: string;
  readonly stage?: string;
}

async function ask(body: object = {}, headers: Record<string, string> = {}, url = red.url): Promise<Answer> {
  const init = { method: 'POST', headers: { 'Content-Type': 'application/json', ...headers } };
  const response = await fetch(`${url}/ask`, { ...init, body: JSON.stringify(body) });
  const { by, error } = (await response.json()) as { by?: string; error?: { code: string; stage: string } };
  return { status: response.status, ...(by ? { by } : {}), ...error };
}

/** Number of answers by version. */
async function count(requests: number, ...rest: Parameters<typeof ask>): Promise<Record<string, number>> {
  const counts: Record<string, number> = {};
  for (let index = 0; index < requests; index += 1) {
    const { by = 'none' } = await ask(...rest);
    counts[by] = (counts[by] ?? 0) + 1;
  }
  return counts;
}

function act(id: string, action: string): Promise<Response> {
  return red.post(`/admin/modelets/stages/${id}/${action}`, {});
}

async function versionsOf(id: string): Promise<readonly { name: string; share: number; cause: string }[]> {
  const { runtimes } = await red.snapshot();
  const found = runtimes.flatMap(({ stages }) => stages).find((one) => one.id === id);
  return (
    (found as unknown as { versions: { name: string; share: number; cause: string }[] } | undefined)?.versions ?? []
  );
}

async function whenShared(id: string, share: number, cause: string): Promise<void> {
  await until(`${id} has versions with a share of ${share}`, async () =>
    (await versionsOf(id)).some((version) => version.share === share && version.cause === cause),
  );
}

async function metrics(): Promise<Scrape> {
  return new Scrape(await (await fetch(`${red.url}/admin/modelets/metrics`)).text());
}

describe('versions over HTTP', () => {
  test('divide the requests of a compiled endpoint, of the listener, and of messages', async () => {
    await red.deployReady(
      flows([row('new', 25)], {}, httpIn('in', '/flow', 'pass'), func('pass', 'return msg;', 'old')),
    );
    const compiled = (await red.snapshot()).endpoints.map(({ path, reason }) => [path, reason === null]);
    assert.deepEqual(compiled, [
      ['/ask', true],
      ['/flow', false],
    ]);
    assert.deepEqual(await count(20), { old: 15, new: 5 });
    assert.deepEqual(await count(20, {}, {}, await engineUrl(red)), { old: 15, new: 5 });
    const through = await Promise.all(Array.from({ length: 20 }, () => red.post('/flow', { a: 1 })));
    const answers = (await Promise.all(through.map((answer) => answer.json()))) as { by: string }[];
    assert.equal(answers.filter(({ by }) => by === 'new').length, 5);
  });

  test('stay with a client by a header, in compiled endpoints and in messages alike', async () => {
    const sticky = { sticky: 'req.headers["x-user"]' };
    const users = Array.from({ length: 30 }, (_, index) => `user ${index}`);
    const chosen = async (): Promise<(string | undefined)[]> => {
      const answers = await Promise.all(users.map((user) => ask({}, { 'X-User': user })));
      return answers.map(({ by }) => by);
    };
    await red.deployReady(flows([row('new', 50)], sticky));
    assert.equal((await red.snapshot()).endpoints[0]?.reason, null);
    const first = await chosen();
    assert.deepEqual([...new Set(first)].sort(), ['new', 'old']);
    assert.deepEqual(await chosen(), first);
    // A debug node that gets the whole message makes Node-RED handle the requests.
    const watched = flows([row('new', 50)], sticky, sink('seen')).map((one) =>
      one.id === 'in /ask' ? { ...one, wires: [['old', 'seen']] } : one,
    );
    await red.deployReady(watched);
    assert.notEqual((await red.snapshot()).endpoints[0]?.reason, null);
    assert.deepEqual(await chosen(), first);
  });

  test('a property that is no header keeps the endpoint in the flow', async () => {
    await red.deployReady(flows([row('new', 100)], { sticky: 'payload.user' }));
    const [endpoint] = (await red.snapshot()).endpoints;
    assert.match(endpoint?.reason ?? '', /chosen by msg\.payload\.user, which is no header/);
    assert.equal((await ask({ user: 'ada' })).by, 'new');
  });

  test('the error of a version has its name, and goes to the handler of its base', async () => {
    await red.deployReady(flows([row('new', 100)]));
    const { status, code, stage: failed } = await ask({ bad: true });
    assert.deepEqual([status, code, failed], [500, 'modelet_failed', 'new']);
    const watched = flows([row('new', 100)], {}, sink('errors')).map((one) =>
      one.id === 'collector /ask' ? { ...one, wires: [['out /ask'], ['errors', 'error /ask']] } : one,
    );
    await red.deployReady(watched);
    const errors = red.inputs('errors');
    assert.equal((await ask({ bad: true })).status, 500);
    await until('the collector has sent the error', () => errors.length === 1);
    const [{ error } = {}] = errors;
    assert.deepEqual([error?.stage, error?.source?.id], ['new', 'old']);
  });

  test('a shadow gets copies, and its errors are dropped', async () => {
    await red.deployReady(flows([row('quiet', 100, 'shadow')], {}, stage('quiet', NEW, [])));
    const logged = red.logs.length;
    assert.deepEqual(await count(5, { bad: true }), { old: 5 });
    await until('the errors are counted', async () => {
      const found = (await metrics()).find('modelet_items_failed_total', { stage: 'quiet', code: 'modelet_failed' });
      return found[0]?.value === 5;
    });
    assert.equal(
      (await metrics()).value('modelet_version_share', { stage: 'old', version: 'quiet', mode: 'shadow' }),
      1,
    );
    assert.deepEqual(red.logs.slice(logged), []);
  });
});

describe('the shares of versions', () => {
  test('change with a deploy, and no worker is replaced', async () => {
    const pids = async (): Promise<(number | null)[]> =>
      (await red.snapshot()).runtimes.flatMap(({ stages }) =>
        stages.flatMap(({ workers }) => workers.map(({ pid }) => pid)),
      );
    await red.deployReady(flows([row('new', 0)]));
    const before = await pids();
    assert.deepEqual(await count(4), { old: 4 });
    await red.deployReady(flows([row('new', 100)]), 'nodes');
    assert.deepEqual(await count(4), { new: 4 });
    assert.deepEqual((await pids()).sort(), before.sort());
  });

  test('change by an order, until a deploy changes the stage; a dead engine does not forget it', async () => {
    const drawn = flows([row('new', 50)]);
    await red.deployReady(drawn);
    assert.equal((await act('new', 'promote')).status, 204);
    await whenShared('old', 100, 'asked');
    assert.deepEqual(await count(4), { new: 4 });
    await red.deployReady([...drawn, sink('beside')], 'nodes');
    assert.deepEqual(await count(4), { new: 4 });
    const { pid } = (await red.snapshot()).runtimes[0]?.engine ?? {};
    process.kill(pid as number, 'SIGKILL');
    await until('another engine runs', async () => {
      const [found] = (await red.snapshot()).runtimes;
      return found?.engine.state === 'ready' && found.engine.pid !== pid;
    });
    await red.whenReady();
    await whenShared('old', 100, 'asked');
    assert.deepEqual(await count(4), { new: 4 });
    assert.equal((await act('new', 'rollback')).status, 204);
    await whenShared('old', 0, 'asked');
    assert.deepEqual(await count(4), { old: 4 });
    assert.equal((await act('new', 'restore')).status, 204);
    await whenShared('old', 50, 'drawn');
    for (const action of ['promote', 'rollback', 'restore']) assert.equal((await act('old', action)).status, 404);
    assert.equal((await act('new', 'restart')).status, 204);
  });

  test('a version whose requests fail is rolled back, and badge, log and metrics say so', async () => {
    await red.deployReady(flows([row('new', 50)], { rollback: '20' }));
    for (let requests = 0; requests < 60; requests += 1) await ask({ bad: true });
    await until('the badge says it', () => /^rolled back new, /.test(red.badges.get('old')?.text ?? ''));
    assert.equal(red.badges.get('old')?.fill, 'yellow');
    assert.deepEqual(await count(4), { old: 4 });
    const [version] = await versionsOf('old');
    assert.deepEqual([version?.share, version?.cause], [0, 'failures']);
    assert.ok(red.logs.some((line) => /rolled back version new: 20 of its last 20 requests failed/.test(line)));
    assert.equal((await metrics()).value('modelet_version_rollbacks_total', { version: 'new' }), 1);
  });

  test('a version that does not start leaves its requests to the stage, and the runtime is ready', async () => {
    await red.deploy(flows([row('broken', 100)], {}, stage('broken', 'return (;', [])));
    await until('the runtime is ready', async () => {
      return (await fetch(`${red.url}/admin/modelets/health/ready`)).status === 200;
    });
    assert.deepEqual(await count(3), { old: 3 });
    await until('the badge of the version says why', () => red.badges.get('broken')?.fill === 'red');
    assert.notEqual(red.badges.get('old')?.fill, 'red');
  });
});

test('a stage with a wrong version says why, and answers no request', async () => {
  await red.deploy(flows([row('gone', 10)]));
  await until('the badge says why', () => /^Versions: the stage gone does/.test(red.badges.get('old')?.text ?? ''));
  assert.equal((await ask()).code, 'config_invalid');
  await red.deploy(flows([row('new', 101)]));
  await until('the badge says why', () => /^Versions: shares must be numbers/.test(red.badges.get('old')?.text ?? ''));
});

test('inside a subflow, versions are the stages of the same instance', async () => {
  const inside = on({ z: 'subflow' }, stage('old', OLD, [], { ...listed([row('new', 100)]) }), stage('new', NEW, []));
  await red.deployReady([
    TAB,
    runtime(),
    httpIn('in', '/ask', ['instance']),
    subflow('subflow', 'old', 'old'),
    ...inside,
    instance('instance', 'subflow', 'out /ask'),
    ...endpoint('/other', 'instance').slice(1),
    { ...(endpoint('/ask', 'old')[2] as FlowNode) },
  ]);
  assert.equal((await ask()).by, 'new');
});
