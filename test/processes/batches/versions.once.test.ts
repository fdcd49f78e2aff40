/** Live shares of versions stay in force whatever dies or is deployed, until a deploy changes the list of versions. */
import assert from 'node:assert/strict';
import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import type { VersionStatus } from '../../../src/core/versions.ts';
import { folderFor } from '../../fixtures/folder.ts';
import { numberIn, type Serving, serveFlows } from '../../fixtures/headless.ts';
import { until } from '../../fixtures/polling.ts';
import { kill9 } from '../../fixtures/processes.ts';
import { type PlanSpec, serve, type TestService } from '../../fixtures/service.ts';

const NEW = "if (input.bad) throw new Error('the new one cannot'); return 'new';";

/** The stage old, on a route, whose version new answers a share of its requests. */
function plan(share: number, code: string = NEW, rollbackAbove: number | null = null): PlanSpec {
  const versions = { list: [{ stage: 'new', share, mode: 'answer' }], rollbackAbove } as const;
  return {
    stages: [
      { id: 'old', inline: "return 'old';", versions },
      { id: 'new', inline: code },
    ],
    routes: { in: ['old'] },
  };
}

/** Asserts the share of the version new, in the engine's own words and in its answers. */
async function assertShare(service: TestService, share: number, cause: VersionStatus['cause']): Promise<void> {
  await service.ready();
  const told = (): VersionStatus | undefined => service.stage('old').versions[0];
  await until('the engine has told the shares', () => told() !== undefined);
  assert.deepEqual([told()?.share, told()?.cause], [share, cause]);
  const answers = new Set<unknown>();
  for (let requests = 0; requests < 4; requests += 1) answers.add(await service.value({}));
  const expected = share === 0 ? ['old'] : share === 100 ? ['new'] : ['new', 'old'];
  assert.deepEqual([...answers].sort(), expected);
}

async function whenShare(service: TestService, share: number): Promise<void> {
  await until(`the share is ${share}`, () => service.stage('old').versions[0]?.share === share);
}

/** Starts the service; the version is rolled back when this resolves. */
async function rolledBack(t: TestContext): Promise<TestService> {
  const service = await serve(t, plan(50));
  await service.ready();
  service.service.actOnStage('new', 'rollback');
  await whenShare(service, 0);
  return service;
}

/** Kills the engine, and acts before the next one is ready. */
async function killEngine(service: TestService, act: () => void = () => {}): Promise<void> {
  const { restarts } = service.service.snapshot().engine;
  kill9(service.enginePid);
  // Not by polling: the next engine starts at once.
  while (service.service.snapshot().engine.state === 'ready') await new Promise((resolve) => setImmediate(resolve));
  act();
  await until('another engine has started', () => service.service.snapshot().engine.restarts > restarts);
}

describe('the live share of a version', () => {
  test('outlives several engines', async (t) => {
    const service = await rolledBack(t);
    for (const _ of [1, 2]) {
      await killEngine(service);
      await service.ready();
    }
    await assertShare(service, 0, 'asked');
  });

  test('outlives an engine while a deploy comes that changes other stages', async (t) => {
    const service = await rolledBack(t);
    const { stages, ...rest } = plan(50);
    await killEngine(service, () => service.apply({ ...rest, stages: [...stages, { id: 'beside' }] }));
    await assertShare(service, 0, 'asked');
  });

  test('is what was ordered while no engine ran', async (t) => {
    const service = await serve(t, plan(50));
    await service.ready();
    await killEngine(service, () => service.service.actOnStage('new', 'promote'));
    await assertShare(service, 100, 'asked');
    await killEngine(service, () => service.service.actOnStage('new', 'restore'));
    await assertShare(service, 50, 'drawn');
  });

  test('after failures outlives an engine and a deploy in between', async (t) => {
    const service = await serve(t, plan(50, NEW, 20));
    await service.ready();
    for (let requests = 0; requests < 60; requests += 1) await service.answer({ bad: true });
    await whenShare(service, 0);
    await killEngine(service, () => service.apply(plan(50, NEW, 20)));
    await assertShare(service, 0, 'failures');
  });

  test('ends with a deploy that changes the list or the code, also where the engine dies at once', async (t) => {
    const service = await rolledBack(t);
    service.apply(plan(100));
    await killEngine(service);
    await assertShare(service, 100, 'drawn');
    service.service.actOnStage('new', 'rollback');
    await whenShare(service, 0);
    await killEngine(service, () => service.apply(plan(100, `${NEW} // corrected`)));
    await assertShare(service, 100, 'drawn');
  });

  test('outlives a deploy without the stage', async (t) => {
    const service = await rolledBack(t);
    service.apply({ stages: [{ id: 'beside' }] });
    await service.value('any');
    service.apply(plan(50));
    await assertShare(service, 0, 'asked');
  });
});

describe('modelet serve', () => {
  const at = { z: 'a', x: 1, y: 1 };
  const inline = { type: 'modelet-stage', ...at, runtime: 'rt' };
  const versions = { versions: ['new'], shares: [{ share: '50', mode: 'answer' }], rollback: '20' };
  const code = 'ctx.state.n = (ctx.state.n ?? 0) + 1; return String(ctx.state.n);';
  const counting = { code, keyBy: 'req.headers.x-key', keySnapshotMb: 1 };
  const flow = JSON.stringify([
    { id: 'a', type: 'tab', label: 'a' },
    { id: 'rt', type: 'modelet-runtime', name: 'rt' },
    { id: 'in', type: 'http in', ...at, method: 'post', url: '/ask', wires: [['old']] },
    { id: 'old', name: 'old', code: "return 'old';", ...inline, ...versions, wires: [['out']] },
    { id: 'new', name: 'new', code: NEW, ...inline, wires: [] },
    { id: 'out', type: 'http response', ...at, wires: [] },
    { id: 'in 2', type: 'http in', ...at, method: 'post', url: '/count', wires: [['count']] },
    { id: 'count', name: 'count', ...inline, ...counting, wires: [['out']] },
  ]);
  const hasLogged = ({ log }: Serving, form: RegExp): boolean => log().some((one) => form.test(String(one['message'])));

  /** The addresses of its engines so far: port 0 gives each its own. */
  const urls = ({ log }: Serving): string[] =>
    log().flatMap(({ message }) => /^listening at (.*)/.exec(String(message))?.[1] ?? []);

  async function post(serving: Serving, body: object, path = '/ask'): Promise<string> {
    const headers = { 'Content-Type': 'application/json', 'X-Key': 'a' };
    const init = { method: 'POST', headers, body: JSON.stringify(body) };
    return (await fetch(`${urls(serving).at(-1)}${path}`, init)).text();
  }

  test('keeps a roll-back over a dead engine, and over a restart in the file that it is given, and states of keys', async (t) => {
    const folder = folderFor(t);
    const [flows, file] = [join(folder, 'flows.json'), join(folder, 'versions.json')];
    writeFileSync(flows, flow);
    const kept = ['--versions-file', file, '--states-folder', join(folder, 'states')];
    const first = await serveFlows(t, flows, ...kept);
    for (let requests = 0; requests < 60; requests += 1) await post(first, { bad: true });
    await until('it is rolled back', () => hasLogged(first, /^rolled back version new/));
    await until('the file has it', () => existsSync(file));
    kill9(numberIn(first.log(), /^engine ready, pid (\d+)/));
    await until('another engine listens', () => urls(first).length === 2);
    for (const _ of [1, 2, 3]) assert.equal(await post(first, {}), 'old');
    for (const count of ['1', '2']) assert.equal(await post(first, {}, '/count'), count);
    first.child.kill('SIGTERM');
    await first.ended;

    const second = await serveFlows(t, flows, ...kept);
    assert.equal(await post(second, {}, '/count'), '3');
    assert.ok(hasLogged(second, /its versions keep the shares that they had before the restart: new answer 0 %/));
    for (const _ of [1, 2, 3]) assert.equal(await post(second, {}), 'old');
    assert.ok(!hasLogged(second, /no --versions-file/));
    const without = await serveFlows(t, flows);
    assert.ok(hasLogged(without, /ends with this process, because no --versions-file keeps it/));
  });
});
