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
import { setImmediate } from 'node:timers/promises';
import { stampOf } from '../../src/process/touched-files.ts';
import { FILE_WATCH, FileWatch } from '../../src/runtime/engine/pools/hot-edit.ts';
import { FakeClock } from '../fixtures/fake-clock.ts';
import { until } from '../fixtures/polling.ts';

const { pollMs, quietMs, longestMs } = FILE_WATCH;

class Bed {
  readonly folder: string;
  readonly path: string;
  readonly clock: FakeClock = new FakeClock();
  readonly #top: string = mkdtempSync(join(tmpdir(), 'modelet-watch-'));
  readonly watch: FileWatch;
  saves = 0;

  constructor(
    t: TestContext,
    prepare: (bed: Bed) => void = ({ path }) => writeFileSync(path, 'v1'),
    since: (bed: Bed) => string | null = () => null,
  ) {
    this.folder = join(this.#top, 'models');
    this.path = join(this.folder, 'a.js');
    mkdirSync(this.folder);
    prepare(this);
    this.watch = new FileWatch(this.path, () => (this.saves += 1), this.clock, since(this));
    t.after(() => {
      this.watch.close();
      rmSync(this.#top, { recursive: true });
    });
  }

  /** Saves until the file's stamp differs: two saves of one length within a tick of the disk's clock look the same. */
  save(content: string, path = this.path): void {
    const before = stampOf(path);
    do writeFileSync(path, content);
    while (stampOf(path) === before);
  }

  /** Moves time on to the next look, and resolves after it: when the watch waits for a further one. */
  async look(): Promise<void> {
    this.clock.advance(this.clock.nextAt - this.clock.now());
    await until('the watch has looked', () => this.clock.pending > 0);
  }

  /** Resolves when the watch has seen that the file was touched, and waits for it to be left alone. */
  async touched(): Promise<void> {
    await this.look();
    assert.equal(this.clock.nextAt - this.clock.now(), quietMs);
  }

  /** Resolves when the next save has been noticed: at the second look at the latest. */
  async noticed(): Promise<void> {
    const before = this.saves;
    for (let look = 0; look < 2 && this.saves === before; look += 1) await this.look();
    assert.equal(this.saves, before + 1);
  }
}

async function bed(t: TestContext, prepare?: (bed: Bed) => void, since?: (bed: Bed) => string | null): Promise<Bed> {
  const made = new Bed(t, prepare, since);
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
  made.save('v2', join(folder, 'elsewhere', 'real.js'));
  await made.noticed();
  writeFileSync(join(folder, 'elsewhere', 'other.js'), 'v3');
  symlinkSync(join('elsewhere', 'other.js'), `${path}.new`);
  renameSync(`${path}.new`, path);
  await made.noticed();
  made.save('v4', join(folder, 'elsewhere', 'other.js'));
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
  for (const content of ['v1', '', 'v1', null, 'v1']) {
    if (content === null) unlinkSync(made.path);
    else made.save(content);
    await made.touched();
    await made.look();
    assert.equal(made.saves, 0);
  }
  made.save('v2');
  await made.noticed();
  assert.equal(made.saves, 1);
});

test('a watch reads a file when no write has come for a moment', async (t) => {
  const made = await bed(t);
  for (const content of ['half', 'all of it']) {
    made.save(content);
    await made.touched();
    assert.equal(made.saves, 0);
  }
  await made.noticed();
});

test('a watch reads even a file that a program writes all the time', async (t) => {
  const made = await bed(t);
  made.save('v2');
  await made.touched();
  const began = made.clock.now();
  for (let write = 0; made.saves === 0; write += 1) {
    assert.ok(made.clock.now() < began + longestMs);
    made.save(`v3 ${write}`);
    await made.look();
  }
  assert.equal(made.clock.now(), began + longestMs);
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
    appendFileSync(made.path, 'more');
    await made.look();
  }
  assert.equal(made.saves, 0);
  await made.noticed();
});

test('a watch notices a save that comes before its first look', async (t) => {
  for (const content of ['v1', null]) {
    const made = await bed(t, ({ path }) => content !== null && writeFileSync(path, content));
    assert.equal(made.clock.nextAt - made.clock.now(), pollMs);
    made.save('v2');
    await made.noticed();
  }
});

test('a watch tells of a file that has changed since workers were given it', async (t) => {
  const present = ({ path }: Bed): string => stampOf(path);
  const write = ({ path }: Bed): void => writeFileSync(path, 'v1');
  const cases = [
    ['as it was', write, present, 0],
    ['saved again', write, () => '1,1', 1],
    ['was missing', write, () => '', 1],
    ['is still missing', () => {}, () => '', 0],
    ['has gone', () => {}, () => '1,1', 0],
  ] as const;
  for (const [name, prepare, since, changes] of cases) {
    const made = await bed(t, prepare, since);
    await made.look();
    assert.equal(made.saves, changes, name);
    made.save('v2');
    await made.noticed();
  }
});

test('a watch tells once of a save, at whatever moment of its beginning it comes', async (t) => {
  const present = ({ path }: Bed): string => stampOf(path);
  for (const since of [present, () => null]) {
    for (let turns = 0; turns < 40; turns += 1) {
      const made = new Bed(t, undefined, since);
      for (let turn = 0; turn < turns; turn += 1) await setImmediate();
      made.save('v2');
      await made.watch.started;
      for (let look = 0; look < 4; look += 1) await made.look();
      // Without a stamp, the content of the first reading is the present one, also if it is a save that came before.
      if (since === present || made.saves > 0) assert.equal(made.saves, 1, `after ${turns} turns`);
    }
  }
});
