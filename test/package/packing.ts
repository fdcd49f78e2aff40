/** Packs the package as npm publishes it. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdir } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { copyRepository } from '../fixtures/repository.ts';

export const run = promisify(execFile);
/** The npm that comes with Node-RED, run by the Node of this test. */
export const npm = join(dirname(createRequire(import.meta.url).resolve('npm/package.json')), ...['bin', 'npm-cli.js']);

export interface Packed {
  readonly filename: string;
  readonly size: number;
  readonly unpackedSize: number;
  readonly files: readonly { readonly path: string }[];
}

/** Packs into a folder. Packing builds, and building cleans dist/, which other tests run from: a copy is packed. */
export async function pack(into: string): Promise<Packed> {
  const copy = join(into, 'repository');
  await mkdir(copy);
  await copyRepository(copy, 'dist');
  const { stdout } = await run(process.execPath, [npm, 'pack', '--json', '--pack-destination', into], {
    cwd: copy,
    maxBuffer: 10_000_000,
  });
  const [result] = JSON.parse(stdout.slice(stdout.indexOf('['))) as Packed[];
  assert.ok(result);
  return result;
}
