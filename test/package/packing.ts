/** Packs the package as npm publishes it. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { cp, mkdir, readdir, symlink } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { repositoryRoot } from '../fixtures/repository.ts';

export const run = promisify(execFile);
/** The npm that comes with Node-RED, run by the Node of this test. */
export const npm = join(dirname(createRequire(import.meta.url).resolve('npm/package.json')), ...['bin', 'npm-cli.js']);

export interface Packed {
  readonly filename: string;
  readonly size: number;
  readonly unpackedSize: number;
  readonly files: readonly { readonly path: string }[];
}

/** Packing builds, and building cleans dist/, which other tests run from: all of it happens to a copy. */
export async function copyRepository(into: string): Promise<string> {
  const copy = join(into, 'repository');
  await mkdir(copy);
  for (const name of await readdir(repositoryRoot)) {
    if (['node_modules', 'dist', '.git', '.node-red', '.node-red-dashboard', 'test'].includes(name)) continue;
    await cp(join(repositoryRoot, name), join(copy, name), { recursive: true });
  }
  await symlink(join(repositoryRoot, 'node_modules'), join(copy, 'node_modules'), 'junction');
  return copy;
}

export async function pack(from: string, to: string): Promise<Packed> {
  const { stdout } = await run(process.execPath, [npm, 'pack', '--json', '--pack-destination', to], {
    cwd: from,
    maxBuffer: 10_000_000,
  });
  const [result] = JSON.parse(stdout.slice(stdout.indexOf('['))) as Packed[];
  assert.ok(result);
  return result;
}
