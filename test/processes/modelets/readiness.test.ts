/** A route is ready when each of its stages has a worker that serves; until then its requests wait. */
import assert from 'node:assert/strict';
import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import type { RouteSnapshot } from '../../../src/observe/views/snapshot.ts';
import { folderFor } from '../../fixtures/folder.ts';
import { until } from '../../fixtures/polling.ts';
import { kill9 } from '../../fixtures/processes.ts';
import { type StageSpec, serve, type TestService } from '../../fixtures/service.ts';

/** A stage whose workers become ready when the file is there. */
const waitsFor = (id: string, file: string): StageSpec => ({
  id,
  inline: {
    setup: `while (!require('fs').existsSync(${JSON.stringify(file)})) await new Promise((go) => setTimeout(go, 2));`,
    code: `return input + ${JSON.stringify(` ${id}`)};`,
  },
});

const route = (service: TestService, last: string): RouteSnapshot => {
  const found = service.service.snapshot().routes.find(({ stages }) => stages.at(-1) === last);
  assert.ok(found);
  return found;
};

test('a route says which stages keep it from being ready, and its requests wait for them', async (t) => {
  const folder = folderFor(t);
  const open = (id: string): string => join(folder, id);
  const service = await serve(t, {
    stages: [
      { id: 'first', file: 'echo' },
      waitsFor('second', open('second')),
      waitsFor('third', open('third')),
      { id: 'other', file: 'echo' },
    ],
    routes: { in: ['first', 'second', 'third'], other: ['first', 'other'] },
  });
  assert.deepEqual(route(service, 'third').missing, ['first', 'second', 'third'], 'before the engine has started');
  const asked = service.ask('waited');
  await until('the other route is ready', () => route(service, 'other').ready);
  assert.deepEqual(route(service, 'other').missing, []);
  assert.equal(await service.value('x', { entry: 'other' }), 'x', 'one route does not wait for another');
  await until('the request waits where no worker is ready', () => service.stage('second').queue === 1);
  assert.deepEqual(route(service, 'third'), {
    stages: ['first', 'second', 'third'],
    ready: false,
    missing: ['second', 'third'],
  });

  writeFileSync(open('second'), '');
  await until('the request has come further', () => service.stage('third').queue === 1);
  assert.deepEqual(route(service, 'third').missing, ['third']);
  assert.equal(asked.settled, null);
  writeFileSync(open('third'), '');
  assert.equal((await asked.answer).value, 'waited second third');
  await until('the route is ready', () => route(service, 'third').ready);
  assert.deepEqual(route(service, 'third').missing, []);
});

test('a route is not ready while a stage has lost its only worker, or the engine is gone', async (t) => {
  const folder = folderFor(t);
  const file = join(folder, 'open');
  writeFileSync(file, '');
  const service = await serve(t, { stages: [waitsFor('first', file), waitsFor('second', file)] });
  const { second } = await service.ready();
  await until('the route is ready', () => route(service, 'second').ready);

  rmSync(file);
  kill9(second?.[0]);
  await until('it is not ready any more', () => !route(service, 'second').ready);
  assert.deepEqual(route(service, 'second').missing, ['second']);
  kill9(service.enginePid);
  await until('without an engine no stage serves', () => route(service, 'second').missing.length === 2);
  writeFileSync(file, '');
  await until('it is ready again', () => route(service, 'second').ready);
});
