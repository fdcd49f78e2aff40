/** A process that a modelet starts in its own session ends with its worker, however that ends. */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import { isAlive } from '../../fixtures/alive.ts';
import { folderFor } from '../../fixtures/folder.ts';
import { until } from '../../fixtures/polling.ts';
import { allGone, kill9, within } from '../../fixtures/processes.ts';
import { WITHOUT_PYTHON } from '../../fixtures/python.ts';
import { type StageSpec, serve } from '../../fixtures/service.ts';

/** Starts two processes in their own sessions: a child, and a grandchild whose parent has ended. */
const DAEMONS = `
import subprocess, sys, time
ORPHAN = "import subprocess; print(subprocess.Popen(['sleep', '600'], start_new_session=True, stdout=subprocess.DEVNULL).pid)"
def predict(value):
    child = subprocess.Popen(["sleep", "600"], start_new_session=True)
    orphan = int(subprocess.check_output([sys.executable, "-c", ORPHAN]))
    with open(value["file"], "w") as file: file.write("")
    while value.get("hang"): time.sleep(1)
    return [child.pid, orphan]
`;

async function served(t: TestContext) {
  const folder = folderFor(t);
  const python = join(folder, 'model.py');
  writeFileSync(python, DAEMONS);
  const stage: StageSpec = { id: 'model', python };
  const service = await serve(t, { stages: [stage] });
  await service.ready();
  const pids = await service.value<number[]>({ file: join(folder, 'begun') });
  assert.deepEqual(pids.map(isAlive), [true, true]);
  return { service, stage, pids, folder };
}

type Served = Awaited<ReturnType<typeof served>>;

async function gone(pids: readonly number[]): Promise<void> {
  await until('what it started has ended', () => !pids.some(isAlive));
}

describe('processes in their own sessions', { skip: WITHOUT_PYTHON }, () => {
  const ends: Readonly<Record<string, (bed: Served) => unknown>> = {
    'is killed': ({ service }) => kill9(service.pids('model')[0]),
    'is over its time limit': ({ service, stage, folder }) => {
      service.apply({ stages: [{ ...stage, runTimeoutMs: 2000 }] });
      service.ask({ file: join(folder, 'again'), hang: true });
    },
    'is replaced': ({ service }) => service.service.actOnStage('model', 'restart'),
  };
  for (const [name, end] of Object.entries(ends)) {
    test(`end when their worker ${name}`, async (t) => {
      const bed = await served(t);
      end(bed);
      await gone(bed.pids);
    });
  }

  test('end with the engine, also with a killed one', async (t) => {
    const { service, pids } = await served(t);
    kill9(service.enginePid);
    await gone(pids);
  });

  test('end with the runtime', async (t) => {
    const { service, pids } = await served(t);
    await within(service.service.close(true), 'it closes');
    await gone(pids);
    await allGone();
  });

  test('of JavaScript end when their worker is recycled, and only theirs', async (t) => {
    const inline = `
      const { spawn } = await import('node:child_process');
      return spawn('sleep', ['600'], { detached: true, stdio: 'ignore' }).pid;`;
    const stages = [
      { id: 'recycled', inline, recycleAfter: 1 },
      { id: 'other', inline },
    ];
    const service = await serve(t, { stages, routes: { recycled: ['recycled'], other: ['other'] } });
    const other = await service.value<number>(1, { entry: 'other' });
    const pid = await service.value<number>(1, { entry: 'recycled' });
    await gone([pid]);
    assert.equal(isAlive(other), true);
  });
});
