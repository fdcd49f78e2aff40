/**
 * The environment of workers: that of Node-RED without its debugger, and the `env` of their stage, which is theirs alone:
 * an impossible one, or one without the paths of programs, harms no other.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { folderFor } from '../../fixtures/folder.ts';
import { ISOLATIONS } from '../../fixtures/isolations.ts';
import { WITHOUT_PYTHON } from '../../fixtures/python.ts';
import { grantedCpus, type StageSpec, serve } from '../../fixtures/service.ts';

const granted = await grantedCpus();

const IMPOSSIBLE: readonly StageSpec[] = [
  { id: 'large', inline: 'return input;', env: { A: 'x'.repeat(140_000) } },
  { id: 'nul', inline: 'return input;', env: { A: '\0' } },
];

test('a stage whose workers cannot start with their env is unavailable, and others serve on', async (t) => {
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

const WITHOUT_PROC = process.platform === 'linux' ? WITHOUT_PYTHON : 'only Linux has /proc';

test('where memory is short, Linux kills a worker before the engine and Node-RED', {
  skip: WITHOUT_PROC,
}, async (t) => {
  const service = await serve(t, {
    stages: [
      { id: 'node', inline: 'return input;' },
      { id: 'python', python: 'echo' },
    ],
  });
  await service.ready();
  const scoreOf = (pid: number): number => Number(readFileSync(`/proc/${pid}/oom_score_adj`, 'utf8'));
  const own = scoreOf(process.pid);
  assert.equal(scoreOf(service.enginePid), own);
  for (const stage of ['node', 'python']) {
    const [pid = 0] = service.pids(stage);
    assert.equal(scoreOf(pid), Math.min(1000, own + 500), stage);
  }
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

for (const option of ['--inspect-brk=127.0.0.1:0', '--inspect=127.0.0.1:0', '--inspect-port 127.0.0.1:0 --inspect']) {
  test(`a debugger of Node-RED (${option} in NODE_OPTIONS) does not reach its children, other options do`, async (t) => {
    const before = process.env['NODE_OPTIONS'];
    process.env['NODE_OPTIONS'] = `${option} --title="debugged Node-RED"`;
    t.after(() => {
      if (before === undefined) delete process.env['NODE_OPTIONS'];
      else process.env['NODE_OPTIONS'] = before;
    });
    const inline = 'return [require("inspector").url() ?? null, process.env.NODE_OPTIONS];';
    const service = await serve(t, {
      stages: ISOLATIONS.map((isolation) => ({ id: isolation, isolation, inline })),
      routes: { process: ['process'], thread: ['thread'] },
    });
    for (const entry of ISOLATIONS) {
      assert.deepEqual(await service.value(null, { entry }), [null, '--title="debugged Node-RED"']);
    }
    assert.deepEqual(
      service.logs.filter(({ message }) => /debugger/i.test(message)),
      [],
      'the engine listens for none either',
    );
  });
}

test('a debugger option in the env of a stage reaches its worker', async (t) => {
  const env = { NODE_OPTIONS: '--inspect=127.0.0.1:0' };
  const service = await serve(t, {
    stages: [{ id: 'debugged', inline: 'return require("inspector").url();', env }],
  });
  assert.match(await service.value<string>(null), /^ws:\/\/127\.0\.0\.1:/);
});
