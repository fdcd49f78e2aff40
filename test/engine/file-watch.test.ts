/** A watch notices the ways in which editors and tools save, on the disk of this machine. */
import assert from 'node:assert/strict';
import {
  appendFileSync,
  mkdirSync,
  mkdtempSync,
  renameSync,
  rmSync,
  symlinkSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { FILE_WATCH, FileWatch } from '../../src/runtime/engine/pools/hot-edit.ts';
import { FakeClock } from '../fixtures/fake-clock.ts';
import { until } from '../fixtures/polling.ts';

const { quietMs, longestMs } = FILE_WATCH;

class Bed {
  readonly folder: string;
  readonly path: string;
  readonly clock: FakeClock = new FakeClock();
  readonly #top: string = mkdtempSync(join(tmpdir(), 'modelet-watch-'));
  readonly watch: FileWatch;
  saves = 0;

  constructor(t: TestContext, prepare: (bed: Bed) => void = ({ path }) => writeFileSync(path, 'v1')) {
    this.folder = join(this.#top, 'models');
    this.path = join(this.folder, 'a.js');
    mkdirSync(this.folder);
    prepare(this);
    this.watch = new FileWatch(this.path, () => (this.saves += 1), this.clock);
    t.after(() => {
      this.watch.close();
      rmSync(this.#top, { recursive: true });
    });
  }

  save(content: string): void {
    writeFileSync(this.path, content);
  }

  /** Resolves when the watch has seen that the file was touched, and waits for it to be left alone. */
  async touched(): Promise<void> {
    await until('the watch sees that the file was touched', () => this.clock.pending > 0);
  }

  /** Resolves when the next save has been noticed. */
  async noticed(): Promise<void> {
    const before = this.saves;
    await until('a save is noticed', () => {
      this.clock.advance(quietMs);
      return this.saves > before;
    });
    assert.equal(this.saves, before + 1);
  }
}

async function bed(t: TestContext, prepare?: (bed: Bed) => void): Promise<Bed> {
  const made = new Bed(t, prepare);
  await made.watch.started;
  return made;
}

test('a watch notices a file that is written in place, replaced under its name, or removed and written again', async (t) => {
  const made = await bed(t);
  const { folder, path } = made;
  made.save('v2');
  await made.noticed();
  const other = join(folder, '.a.js.swp');
  writeFileSync(other, 'v3');
  renameSync(other, path);
  await made.noticed();
  renameSync(path, `${path}~`);
  made.save('v4');
  await made.noticed();
  unlinkSync(path);
  made.save('v5');
  await made.noticed();
});

test('a watch notices a folder that takes the place of the old one, and saves in it', async (t) => {
  const made = await bed(t);
  const { folder } = made;
  const fresh = `${folder}.new`;
  mkdirSync(fresh);
  writeFileSync(join(fresh, 'a.js'), 'v2');
  rmSync(folder, { recursive: true });
  renameSync(fresh, folder);
  await made.noticed();
  made.save('v3');
  await made.noticed();
});

test('behind a link, a watch notices the file itself and another link', async (t) => {
  const made = await bed(t, ({ folder, path }) => {
    mkdirSync(join(folder, 'elsewhere'));
    writeFileSync(join(folder, 'elsewhere', 'real.js'), 'v1');
    symlinkSync(join('elsewhere', 'real.js'), path);
  });
  const { folder, path } = made;
  writeFileSync(join(folder, 'elsewhere', 'real.js'), 'v2');
  await made.noticed();
  writeFileSync(join(folder, 'elsewhere', 'other.js'), 'v3');
  symlinkSync(join('elsewhere', 'other.js'), `${path}.new`);
  renameSync(`${path}.new`, path);
  await made.noticed();
  writeFileSync(join(folder, 'elsewhere', 'other.js'), 'v4');
  await made.noticed();
});

test('a watch notices a file that was not there at first, even if its folder was not there', async (t) => {
  const made = await bed(t, ({ folder }) => rmSync(folder, { recursive: true }));
  mkdirSync(made.folder);
  made.save('v1');
  await made.noticed();
  made.save('v2');
  await made.noticed();
});

test('a watch ignores a save of the same content, a truncated file and a file restored unchanged', async (t) => {
  const made = await bed(t);
  for (const content of ['v1', '', 'v1']) {
    made.save(content);
    await made.touched();
    made.clock.advance(quietMs);
  }
  unlinkSync(made.path);
  await made.touched();
  made.clock.advance(quietMs);
  made.save('v1');
  await made.touched();
  made.save('v2');
  await made.noticed();
  assert.equal(made.saves, 1);
});

test('a watch reads a file when no write has come for a moment', async (t) => {
  const made = await bed(t);
  made.save('half');
  await made.touched();
  made.clock.advance(quietMs - 1);
  const before = made.clock.nextAt;
  made.save('all of it');
  await until('the watch waits for the file again', () => made.clock.nextAt > before);
  await made.noticed();
  assert.equal(made.saves, 1);
});

test('a watch reads even a file that a program writes all the time', async (t) => {
  const made = await bed(t);
  made.save('v2');
  await made.touched();
  const began = made.clock.now();
  for (let write = 0; made.clock.now() + quietMs - 1 < began + longestMs; write += 1) {
    made.clock.advance(quietMs - 1);
    const before = made.clock.nextAt;
    if (before === began + longestMs) break;
    made.save(`v3 ${write}`);
    await until('the watch waits for the file again', () => made.clock.nextAt > before);
  }
  assert.equal(made.clock.nextAt, began + longestMs);
  await made.noticed();
});

test('a closed watch reports nothing and leaves no timer', async (t) => {
  const made = await bed(t);
  made.save('v2');
  await made.touched();
  made.watch.close();
  assert.equal(made.clock.pending, 0);
  assert.equal(made.saves, 0);
});

test('a watch waits for the end of a large file, which may be written for long', async (t) => {
  const made = await bed(t);
  writeFileSync(made.path, Buffer.alloc(FILE_WATCH.mostHashed + 1));
  await made.touched();
  const end = made.clock.now() + longestMs;
  while (made.clock.now() <= end) {
    made.clock.advance(quietMs - 1);
    const before = made.clock.nextAt;
    appendFileSync(made.path, 'more');
    await until('the watch waits for the file again', () => made.clock.nextAt > before);
  }
  assert.equal(made.saves, 0);
  await made.noticed();
});
