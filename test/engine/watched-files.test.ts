/** A watch over the disk of this machine: the ways in which editors and tools save. */
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, renameSync, rmSync, symlinkSync, unlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { systemClock } from '../../src/core/clock.ts';
import { FileWatch } from '../../src/engine/pools/file-watch.ts';
import { files } from '../../src/engine/pools/watched-files.ts';
import { until } from '../fixtures/node-red.ts';

interface Bed {
  readonly folder: string;
  readonly path: string;
  /** Resolves when a save has been noticed since the last time. */
  saved(): Promise<void>;
}

async function bed(t: TestContext, prepare?: (folder: string, path: string) => void): Promise<Bed> {
  const top = mkdtempSync(join(tmpdir(), 'modelet-watch-'));
  const folder = join(top, 'models');
  const path = join(folder, 'a.js');
  mkdirSync(folder);
  writeFileSync(path, 'v1');
  prepare?.(folder, path);
  let saves = 0;
  let looks = 0;
  const counting = {
    ...files,
    look: async (...given: Parameters<typeof files.look>) => {
      const look = await files.look(...given);
      looks += 1;
      return look;
    },
  };
  const events = { onChanged: () => (saves += 1), onUnwatchable: (error: Error) => assert.fail(error) };
  const watch = new FileWatch(path, events, systemClock, counting);
  t.after(() => {
    watch.close();
    rmSync(top, { recursive: true });
  });
  await until('the file has been read', () => looks > 0);
  return {
    folder,
    path,
    saved: async () => {
      await until('a save is noticed', () => saves > 0);
      saves = 0;
    },
  };
}

test('written in place, cut off first, or put in its place by another name: each is noticed', async (t) => {
  const { folder, path, saved } = await bed(t);
  writeFileSync(path, 'v2');
  await saved();
  const other = join(folder, '.a.js.swp');
  writeFileSync(other, 'v3');
  renameSync(other, path);
  await saved();
  renameSync(path, `${path}~`);
  writeFileSync(path, 'v4');
  await saved();
  unlinkSync(path);
  writeFileSync(path, 'v5');
  await saved();
});

test('a folder that is put in the place of the old one is noticed, and watched from then on', async (t) => {
  const { folder, path, saved } = await bed(t);
  const fresh = `${folder}.new`;
  mkdirSync(fresh);
  writeFileSync(join(fresh, 'a.js'), 'v2');
  rmSync(folder, { recursive: true });
  renameSync(fresh, folder);
  await saved();
  writeFileSync(path, 'v3');
  await saved();
});

test('behind a link, the file itself counts, and so does another link', async (t) => {
  const { folder, path, saved } = await bed(t, (folder, path) => {
    mkdirSync(join(folder, 'elsewhere'));
    renameSync(path, join(folder, 'elsewhere', 'real.js'));
    symlinkSync(join('elsewhere', 'real.js'), path);
  });
  writeFileSync(join(folder, 'elsewhere', 'real.js'), 'v2');
  await saved();
  writeFileSync(join(folder, 'elsewhere', 'other.js'), 'v3');
  symlinkSync(join('elsewhere', 'other.js'), `${path}.new`);
  renameSync(`${path}.new`, path);
  await saved();
  writeFileSync(join(folder, 'elsewhere', 'other.js'), 'v4');
  await saved();
});
