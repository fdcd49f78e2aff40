/** `npm start` as a user runs it, in a copy of the repository: what it prints, keeps, answers and leaves behind. */
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { cp, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { isAlive, pidsOf, type Snapshot, until } from '../fixtures/node-red.ts';
import { repositoryRoot } from '../fixtures/repository.ts';

const NOT_COPIED = new Set(['node_modules', '.git', '.node-red', 'test']);

interface Started {
  readonly process: ChildProcess;
  readonly port: number;
  output: string;
}

describe('npm start', { timeout: 120_000 }, () => {
  let root: string;
  let image: number[];
  const running: Started[] = [];

  before(async () => {
    root = await mkdtemp(join(tmpdir(), 'modelet-start-'));
    for (const name of await readdir(repositoryRoot)) {
      // With its times: a copy that looks newer than its build would be built again.
      if (!NOT_COPIED.has(name)) {
        await cp(join(repositoryRoot, name), join(root, name), { recursive: true, preserveTimestamps: true });
      }
    }
    await symlink(join(repositoryRoot, 'node_modules'), join(root, 'node_modules'));
    const data = JSON.parse(await readFile(join(root, 'examples', 'data', 'digits-test.json'), 'utf8'));
    image = data.images[0].image;
  });

  after(async () => {
    for (const started of running) if (started.process.exitCode === null) started.process.kill('SIGKILL');
    await rm(root, { recursive: true, force: true });
  });

  async function start(port: number): Promise<Started> {
    const child = spawn(process.execPath, ['scripts/start.mjs'], {
      cwd: root,
      env: { ...process.env, PORT: String(port) },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    const started: Started = { process: child, port, output: '' };
    for (const stream of [child.stdout, child.stderr]) {
      stream?.on('data', (chunk) => {
        started.output += chunk;
      });
    }
    running.push(started);
    await until('it says what to try, or ends', () => started.output.includes('Try it') || child.exitCode !== null);
    return started;
  }

  function post({ port }: Started): Promise<Response> {
    return fetch(`http://127.0.0.1:${port}/predict/digits`, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify({ image }),
    });
  }

  async function snapshotOf({ port }: Started): Promise<Snapshot> {
    return (await (await fetch(`http://127.0.0.1:${port}/editor/modelets/snapshot`)).json()) as Snapshot;
  }

  async function processesOf(started: Started): Promise<number[]> {
    await until('all workers are ready', async () => {
      const { runtimes } = await snapshotOf(started);
      return (
        runtimes.length > 0 &&
        runtimes.every(({ stages }) =>
          stages.every(({ ready, workers }) => workers.length > 0 && ready === workers.length),
        )
      );
    });
    return pidsOf(await snapshotOf(started));
  }

  test('it serves the quick start, refuses a taken port, and on Ctrl-C answers what is in flight and leaves nothing', async () => {
    const port = await freePort();
    const started = await start(port);
    assert.match(started.output, new RegExp(`Editor +http://127.0.0.1:${port}/editor`));
    assert.match(started.output, new RegExp(`Endpoint +POST http://127.0.0.1:${port}/predict/digits`));
    const pids = await processesOf(started);
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
    const flows = join(root, '.node-red', 'flows.json');
    const edited = (await readFile(flows, 'utf8')).replaceAll('/predict/digits', '/predict/edited');
    await writeFile(flows, edited);
    const started = await start(await freePort());
    const pids = await processesOf(started);
    const edit = await fetch(`http://127.0.0.1:${started.port}/predict/edited`, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify({ image }),
    });
    assert.equal(edit.status, 200);
    process.kill(await parentOf(pids[0] as number), 'SIGKILL');
    await until('engine and workers have ended', () => !pids.some(isAlive));
    await until('npm start has ended', () => started.process.exitCode !== null);
  });
});

async function freePort(): Promise<number> {
  const probe = createServer();
  await new Promise<void>((resolve) => probe.listen(0, '127.0.0.1', resolve));
  const { port } = probe.address() as { port: number };
  await new Promise((resolve) => probe.close(resolve));
  return port;
}

async function parentOf(pid: number): Promise<number> {
  return Number(/^PPid:\s+(\d+)$/m.exec(await readFile(`/proc/${pid}/status`, 'utf8'))?.[1]);
}
