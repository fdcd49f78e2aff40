/** `npm start` as a user runs it, in a copy of the repository: what it prints, keeps, answers and leaves behind. */
import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { isAlive } from '../fixtures/alive.ts';
import { RepositoryCopy, readySnapshot, type Started, snapshotOf } from '../fixtures/command.ts';
import { freePort } from '../fixtures/free-port.ts';
import { pidsOf } from '../fixtures/node-red.ts';
import { until } from '../fixtures/polling.ts';

describe('npm start', () => {
  let copy: RepositoryCopy;
  let image: number[];

  before(async () => {
    copy = await RepositoryCopy.make();
    const data = JSON.parse(await readFile(join(copy.root, 'assets', 'data', 'digits-test.json'), 'utf8'));
    image = data.images[0].image;
  });
  after(() => copy.remove());

  const start = (port: number): Promise<Started> => copy.start('start.mjs', port);

  function post({ url }: Started, path = '/predict/digits'): Promise<Response> {
    return fetch(`${url}${path}`, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify({ image }),
    });
  }

  test('serves the quick start, refuses a taken port, and on Ctrl-C answers open requests and leaves no process', async () => {
    const port = await freePort();
    const started = await start(port);
    assert.match(started.output, new RegExp(`Editor +http://127.0.0.1:${port}/editor`));
    assert.match(started.output, new RegExp(`Page +http://127.0.0.1:${port}/digits`));
    assert.match(started.output, new RegExp(`Endpoint +POST http://127.0.0.1:${port}/predict/digits`));
    const warnings = started.output.split('\n').filter((line) => /\bwarn\b/i.test(line));
    // Node-RED warns whether projects are enabled or not, and whether credentials have a key or, at a first start, not.
    const unavoidable = /Projects disabled|unencrypted credentials/;
    assert.deepEqual(
      warnings.filter((line) => !unavoidable.test(line)),
      [],
      'warnings that can be avoided',
    );
    const pids = pidsOf(await readySnapshot(started));
    const answer = await post(started);
    assert.equal(answer.status, 200);
    assert.equal(typeof ((await answer.json()) as { digit: number }).digit, 'number');
    assert.equal((await fetch(`http://127.0.0.1:${port}/editor/`)).status, 200);

    const second = await start(port);
    await until('the second one ends', () => second.process.exitCode !== null);
    assert.equal(second.process.exitCode, 1);
    assert.match(second.output, new RegExp(`port ${port} is taken`));

    // Stopped workers answer nothing, so that all 64 are in Node-RED's hands when the signal comes.
    const workers = (await snapshotOf(started)).runtimes.flatMap(({ stages }) =>
      stages.flatMap((stage) => stage.workers),
    );
    for (const { pid } of workers) process.kill(pid as number, 'SIGSTOP');
    const inFlight = Array.from({ length: 64 }, () => post(started));
    await until('all are in flight', async () => (await snapshotOf(started)).runtimes[0]?.backlog === 64);
    started.process.kill('SIGINT');
    for (const { pid } of workers) process.kill(pid as number, 'SIGCONT');
    for (const response of await Promise.all(inFlight))
      assert.ok([200, 503].includes(response.status), `${response.status}`);
    await until('it has ended', () => started.process.exitCode !== null);
    await until('its processes have ended', () => !pids.some(isAlive));
  });

  test('a second start keeps what was edited; kill -9 of Node-RED leaves nothing behind', async () => {
    const flows = join(copy.root, '.node-red', 'flows.json');
    const edited = (await readFile(flows, 'utf8')).replaceAll('/predict/digits', '/predict/edited');
    await writeFile(flows, edited);
    const started = await start(await freePort());
    const pids = pidsOf(await readySnapshot(started));
    const edit = await post(started, '/predict/edited');
    assert.equal(edit.status, 200);
    process.kill(await parentOf(pids[0] as number), 'SIGKILL');
    await until('engine and workers have ended', () => !pids.some(isAlive));
    await until('npm start has ended', () => started.process.exitCode !== null);
  });
});

async function parentOf(pid: number): Promise<number> {
  return Number(/^PPid:\s+(\d+)$/m.exec(await readFile(`/proc/${pid}/status`, 'utf8'))?.[1]);
}
