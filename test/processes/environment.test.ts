/** The `env` of a stage is the environment of its workers alone: one that is impossible, or hides programs, harms no other. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ISOLATIONS } from '../fixtures/isolations.ts';
import { folderFor, grantedCpus, type StageSpec, serve } from '../fixtures/service.ts';

const granted = await grantedCpus();

const IMPOSSIBLE: readonly StageSpec[] = [
  { id: 'large', inline: 'return input;', env: { A: 'x'.repeat(140_000) } },
  { id: 'nul', inline: 'return input;', env: { A: '\0' } },
];

test('stages whose workers cannot be started with their env are unavailable, and others serve on', async (t) => {
  const good: StageSpec = { id: 'good', inline: 'return input * 2;' };
  const service = await serve(t, {
    stages: [good, ...IMPOSSIBLE],
    routes: { good: ['good'], large: ['large'], nul: ['nul'] },
  });
  assert.equal(await service.value(1, { entry: 'good' }), 2);
  const engine = service.enginePid;
  for (const id of ['large', 'nul', 'large']) {
    const { code, error } = await service.answer(1, { entry: id });
    assert.equal(code, 'stage_unavailable');
    assert.equal(error?.stage, id);
    assert.match(
      error?.message ?? '',
      id === 'nul' ? /could not be started: .*null bytes/ : /could not be started: .*E2BIG/,
    );
    assert.equal(await service.value(2, { entry: 'good' }), 4);
  }
  assert.equal(service.enginePid, engine);
  assert.equal(service.service.snapshot().engine.restarts, 0);
});

for (const isolation of ISOLATIONS) {
  test(`a pinned worker (${isolation}) starts with a PATH that leads nowhere, and has that PATH`, async (t) => {
    const PATH = folderFor(t);
    const stage: StageSpec = { id: 'model', isolation, inline: 'return env.get("PATH");', env: { PATH } };
    const service = await serve(t, { stages: [{ ...stage, workers: [granted.slice(0, 1)] }] });
    assert.equal(await service.value(null), PATH);
    assert.deepEqual(service.stage('model').workers[0]?.cpus, granted.slice(0, 1));
  });
}
