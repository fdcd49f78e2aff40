/** Requests that wait on the server's side finish on the route on which they began, whatever is deployed meanwhile. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { PlannedRoute } from '../../../src/runtime/service/planner.ts';
import { folderFor } from '../../fixtures/folder.ts';
import { until } from '../../fixtures/polling.ts';
import {
  type Answer,
  type Asked,
  callsIn,
  release,
  type StageSpec,
  serve,
  type TestService,
} from '../../fixtures/service.ts';
import { planned } from '../../fixtures/stage-spec.ts';

const LAST: StageSpec = { id: 'last', inline: 'return { ...input, last: true };' };

/** Holds what is called `held...`, and has room for three with those that run. */
function gate(folder: string): StageSpec {
  return { id: 'gate', file: 'gate', init: { folder }, capacity: 1 };
}

/** One request held in the gate, and five behind it, three of which wait on the server's side. */
async function six(service: TestService, folder: string): Promise<Asked[]> {
  const asked = ['held', 'b', 'c', 'd', 'e', 'f'].map((name) => service.ask(name, { patient: true }));
  await until('one is held', () => callsIn(folder).includes('held'));
  return asked;
}

/** By each answer: what became of the request, or in which stages it was. */
async function ways(service: TestService, asked: readonly Asked[]): Promise<string[]> {
  const answers: Answer[] = [];
  for (const { answer } of asked) answers.push(await answer);
  return answers.map(({ code, error, timings }) =>
    code === 'ok' ? timings.map(({ stage }) => service.service.stage(stage)?.name).join('>') : `${error}`,
  );
}

test('requests before a full stage wait over deploys that extend, tap and reverse its route', async (t) => {
  const folder = folderFor(t);
  const stages = [gate(folder), LAST];
  const service = await serve(t, { stages, routes: { in: ['gate'] } });
  const asked = await six(service, folder);
  service.apply({ stages, routes: { in: ['gate', 'last'] } });
  asked.push(service.ask('g', { patient: true }));
  const tapped: PlannedRoute = { entry: 'in', stages: ['gate', 'last'], taps: new Map([['gate', ['debug']]]) };
  service.service.apply(stages.map(planned), [tapped]);
  asked.push(service.ask('h', { patient: true }));
  service.apply({ stages, routes: { in: ['last'], other: ['gate'] } });
  release(folder, 'held');
  assert.deepEqual(await ways(service, asked), [...Array(6).fill('gate'), 'gate>last', 'gate>last']);
  assert.deepEqual(await ways(service, [service.ask({})]), ['last']);
});

test('requests without a ready engine wait over several deploys, until the next one is ready', async (t) => {
  const folder = folderFor(t);
  const stages = [gate(folder), LAST];
  const service = await serve(t, { stages, routes: { in: ['gate'] } });
  const [held, ...behind] = await six(service, folder);
  service.apply({ stages, routes: { in: ['gate', 'last'] } });
  process.kill(service.enginePid, 'SIGKILL');
  assert.equal((await held?.answer)?.code, 'engine_lost');
  assert.notEqual(service.service.snapshot().state, 'ready');
  const late = service.ask('late', { patient: true });
  service.apply({ stages, routes: { in: ['last', 'gate'] } });
  service.apply({ stages, routes: { in: ['last'] } });
  assert.deepEqual(await ways(service, [...behind.slice(2), late]), ['gate', 'gate', 'gate', 'gate>last']);
});

test('requests whose route has lost a stage fail, unless a deploy has restored it', async (t) => {
  const folder = folderFor(t);
  const stages = [gate(folder), LAST];
  const service = await serve(t, { stages });
  const asked = await six(service, folder);
  service.apply({ stages: [gate(folder)] });
  service.apply({ stages });
  service.apply({ stages, routes: { in: ['gate'] } });
  release(folder, 'held');
  assert.deepEqual(await ways(service, asked), Array(6).fill('gate>last'));

  const others = ['held2', 'b', 'c', 'd'].map((name) => service.ask(name, { patient: true }));
  await until('one is held', () => callsIn(folder).includes('held2'));
  service.apply({ stages: [LAST] });
  release(folder, 'held2');
  const [, , , last] = await ways(service, others);
  assert.match(last ?? '', /the pipeline was changed before the request arrived/);
});
