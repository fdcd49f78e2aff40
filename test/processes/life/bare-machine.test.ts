/** A machine that has only Node.js: no /proc, no launch helpers, nothing in PATH. */
import assert from 'node:assert/strict';
import { execFile, spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { allGone, killStarted, within } from '../../fixtures/processes.ts';
import { repositoryRoot } from '../../fixtures/repository.ts';
import type { StageSpec } from '../../fixtures/service.ts';

const PROGRAM = fileURLToPath(new URL('./bare-machine-program.js', import.meta.url));
const HIDE_PROC = pathToFileURL(join(repositoryRoot, 'test', 'fixtures', 'without-proc.js')).href;
/** A separate mount namespace, with an empty folder in the place of /proc. */
const UNMOUNT_PROC = [
  '/usr/bin/unshare',
  '--mount',
  '/bin/sh',
  '-c',
  '/bin/mount -t tmpfs none /proc && exec "$@"',
  'sh',
];

interface Way {
  readonly name: string;
  readonly prefix: readonly string[];
  readonly env: Readonly<Record<string, string>>;
}

const [unshare = '', ...unshareArguments] = UNMOUNT_PROC;
const mayUnmount = spawnSync(unshare, [...unshareArguments, process.execPath, '--version']).status === 0;

/** On a machine that forbids mounts, only Node.js is kept from /proc. */
const WAYS: readonly Way[] = [
  { name: 'where Node.js cannot read /proc', prefix: [], env: { NODE_OPTIONS: `--import=${HIDE_PROC}` } },
  ...(mayUnmount ? [{ name: 'where no /proc is mounted', prefix: UNMOUNT_PROC, env: {} }] : []),
];

const python = spawnSync('python3', ['-c', 'import sys; print(sys.executable)'], { encoding: 'utf8' }).stdout?.trim();

const STAGES: readonly StageSpec[] = [
  { id: 'process', inline: 'return input;' },
  { id: 'thread', inline: 'return input;', isolation: 'thread' },
  ...(python ? [{ id: 'python', python: 'echo', interpreter: python }] : []),
];

for (const { name, prefix, env } of WAYS) {
  test(`a runtime serves without launch helpers and with an empty PATH, ${name}`, async (t) => {
    t.after(killStarted);
    const [command = '', ...args] = [...prefix, process.execPath, PROGRAM, JSON.stringify(STAGES)];
    const run = promisify(execFile)(command, args, { env: { ...process.env, ...env, PATH: '' } });
    const { stdout } = await within(run, 'the program ends');
    const told = JSON.parse(stdout) as { readonly rssBytes: readonly number[] };
    const answers = Object.fromEntries(STAGES.map(({ id }) => [id, 'question']));
    const launcher = { setpriv: false, taskset: false };
    assert.deepEqual({ ...told, rssBytes: [] }, { granted: [], launcher, answers, restarts: 0, rssBytes: [] });
    for (const bytes of told.rssBytes) assert.ok(bytes > 1024 * 1024, `${bytes} bytes are shown`);
    await allGone();
  });
}
