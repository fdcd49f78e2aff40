/** The package's files are replaced under a running Node-RED: what runs serves on, what is started then serves nothing. */
import assert from 'node:assert/strict';
import { cpSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import type { ModeletError } from '../../../src/core/errors.ts';
import { folderFor } from '../../fixtures/folder.ts';
import { until } from '../../fixtures/polling.ts';
import { kill9 } from '../../fixtures/processes.ts';
import { repositoryRoot } from '../../fixtures/repository.ts';
import type { StageSpec, TestService } from '../../fixtures/service.ts';

const UPDATED = /package updated: restart Node-RED/;

interface Installed {
  readonly service: TestService;
  /** Folder of the compiled code that runs. */
  readonly code: string;
}

/** A service of a copy of this package: this process stands for Node-RED, its engine and workers are the copy's. */
async function installed(t: TestContext, stage: Partial<StageSpec> = {}): Promise<Installed> {
  const root = folderFor(t);
  for (const part of ['package.json', join('dist', 'src'), join('dist', 'test', 'fixtures')]) {
    cpSync(join(repositoryRoot, part), join(root, part), { recursive: true });
  }
  symlinkSync(join(repositoryRoot, 'node_modules'), join(root, 'node_modules'));
  const fixture = pathToFileURL(join(root, 'dist', 'test', 'fixtures', 'service.js')).href;
  const { serve } = (await import(fixture)) as typeof import('../../fixtures/service.ts');
  const file = join(repositoryRoot, 'test', 'fixtures', 'modelets', 'die.js');
  const service = await serve(t, { stages: [{ id: 'model', file, ...stage }] });
  await service.ready();
  return { service, code: join(root, 'dist', 'src') };
}

/** The error of a request that gets no result, at once or later. */
async function refusal(service: TestService): Promise<ModeletError | null> {
  try {
    return (await service.answer('x')).error;
  } catch (thrown) {
    return thrown as ModeletError;
  }
}

const WAYS: readonly [way: string, update: (code: string) => void][] = [
  ['another build takes its place', (code) => writeFileSync(join(code, 'runtime', 'build-id.txt'), 'another\n')],
  ['the file that workers start from is gone', (code) => rmSync(join(code, 'runtime', 'worker', 'main.js'))],
  ['all is gone', (code) => rmSync(code, { recursive: true })],
];

describe('the package is updated', () => {
  for (const [way, update] of WAYS) {
    test(`${way}: the worker to be replaced reports the update, and the other one serves on`, async (t) => {
      const { service, code } = await installed(t, { workers: 2 });
      const [one, two] = service.pids('model') as [number, number];
      update(code);
      kill9(one);
      const lost = await until('the worker says so', () => service.stage('model').workers[0]?.error?.match(UPDATED));
      assert.ok(lost);
      for (let times = 0; times < 20; times += 1) assert.equal(await service.value('x'), two);
      assert.deepEqual([service.stage('model').ready, service.service.snapshot().engine.restarts], [1, 0]);
    });
  }

  test('a stage without a worker answers stage_unavailable, and serves again when the files are back', async (t) => {
    const { service, code } = await installed(t);
    const id = join(code, 'runtime', 'build-id.txt');
    const build = readFileSync(id);
    writeFileSync(id, 'another\n');
    kill9(service.pids('model')[0]);
    await until('the worker says so', () => service.stage('model').workers[0]?.error?.match(UPDATED));
    const { code: answer, error } = await service.answer('x');
    assert.equal(answer, 'stage_unavailable');
    assert.match(error?.message ?? '', UPDATED);
    writeFileSync(id, build);
    await service.ready();
    assert.equal(typeof (await service.value('x')), 'number');
  });

  test('an engine that died does not start again, and requests get engine_lost with the reason', async (t) => {
    const { service, code } = await installed(t);
    writeFileSync(join(code, 'runtime', 'build-id.txt'), 'another\n');
    kill9(service.enginePid);
    await until('the engine says so', () => service.service.snapshot().engine.error?.match(UPDATED));
    const error = await refusal(service);
    assert.equal(error?.code, 'engine_lost');
    assert.match(error?.message ?? '', UPDATED);
    assert.ok((error?.retryAfterSeconds ?? 0) >= 1, 'it is told when to come again');
  });
});
