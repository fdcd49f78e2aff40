/** When a file counts as saved: told by a clock that stands still and a disk that the test writes. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FILE_WATCH, FileWatch } from '../../src/engine/pools/file-watch.ts';
import type { FileLook, FileReading, Files } from '../../src/engine/pools/watched-files.ts';
import { FakeClock } from '../fixtures/fake-clock.ts';

/** One file, and whoever watches it. */
class Disk implements Files {
  content: string | null;
  looks = 0;
  /** How often it was read whole. */
  reads = 0;
  watched = 0;
  failure: NodeJS.ErrnoException | null = null;
  /** Set: the next look ends when this is called. */
  onRead: (() => void) | null = null;
  #touches = 0;
  #tell: (own: boolean) => void = () => {};

  constructor(content: string | null) {
    this.content = content;
  }

  watch(_path: string, onEvent: (own: boolean) => void): { close(): void } {
    if (this.failure) throw this.failure;
    this.watched += 1;
    this.#tell = onEvent;
    return {
      close: () => {
        this.watched -= 1;
        this.#tell = () => {};
      },
    };
  }

  async look(_path: string, known: FileReading | null): Promise<FileLook> {
    this.looks += 1;
    const stamp = String(this.#touches);
    const { content } = this;
    if (content === null || content === '') return { tag: 'absent' };
    if (known?.stamp === stamp) return { tag: 'read', reading: known };
    this.reads += 1;
    this.onRead?.();
    if (String(this.#touches) !== stamp) return { tag: 'moving' };
    return { tag: 'read', reading: { stamp, hash: content } };
  }

  /** Writes the file, or removes it; with `silently` no event tells of it. */
  write(content: string | null, silently = false): void {
    this.content = content;
    this.#touches += 1;
    if (!silently) this.#tell(true);
  }

  /** Something else happens in the folder. */
  beside(): void {
    this.#tell(false);
  }
}

class Bed {
  readonly clock: FakeClock = new FakeClock();
  readonly disk: Disk;
  readonly told: string[] = [];
  readonly watch: FileWatch;

  constructor(content: string | null = 'v1', prepare: (disk: Disk) => void = () => {}) {
    this.disk = new Disk(content);
    prepare(this.disk);
    const events = {
      onChanged: () => this.told.push(`saved ${this.disk.content}`),
      onUnwatchable: (error: Error) => this.told.push(error.message),
    };
    this.watch = new FileWatch('/models/a.js', events, this.clock, this.disk);
  }

  async pass(ms: number): Promise<void> {
    this.clock.advance(ms);
    await new Promise((resolve) => setImmediate(resolve));
  }
}

async function bed(content?: string | null, prepare?: (disk: Disk) => void): Promise<Bed> {
  const made = new Bed(content, prepare);
  await made.pass(0);
  return made;
}

const { quietMs, longestMs, absentMs } = FILE_WATCH;

test('the content that is there at first is no news', async () => {
  const { told, clock, disk } = await bed();
  assert.deepEqual([told, clock.pending, disk.looks], [[], 0, 1]);
});

test('a save is told once, when the file has been left alone for a moment', async () => {
  const one = await bed();
  one.disk.write('v');
  await one.pass(quietMs - 1);
  one.disk.write('v2');
  await one.pass(quietMs - 1);
  assert.deepEqual(one.told, []);
  await one.pass(1);
  assert.deepEqual(one.told, ['saved v2']);
  await one.pass(10 * longestMs);
  assert.deepEqual([one.told, one.clock.pending, one.disk.looks], [['saved v2'], 0, 2]);
});

test('saving what is there already is no news', async () => {
  const one = await bed();
  one.disk.write('v1');
  await one.pass(quietMs);
  assert.deepEqual([one.told, one.disk.reads], [[], 2]);
});

test('what happens beside the file is no news, and does not have it read', async () => {
  const one = await bed();
  one.disk.beside();
  await one.pass(quietMs);
  assert.deepEqual([one.told, one.disk.looks, one.disk.reads], [[], 2, 1]);
});

test('a file that comes in place of the link to it is found, however it is named', async () => {
  const one = await bed();
  one.disk.write('v2', true);
  one.disk.beside();
  await one.pass(quietMs);
  assert.deepEqual(one.told, ['saved v2']);
});

test('events beside the file do not put off that it is read', async () => {
  const one = await bed();
  one.disk.write('v2');
  for (let times = 0; times < 4; times += 1) {
    await one.pass(quietMs / 4);
    one.disk.beside();
  }
  assert.deepEqual(one.told, ['saved v2']);
});

test('a file that is written to all the time is read all the same', async () => {
  const one = await bed();
  for (let at = 0; at < longestMs; at += quietMs / 2) {
    one.disk.write(`v${at}`);
    await one.pass(quietMs / 2);
  }
  assert.equal(one.told.length, 1);
});

test('a file that is cut off, or gone for a while, is waited for', async () => {
  for (const gone of ['', null]) {
    const one = await bed();
    one.disk.write(gone);
    await one.pass(quietMs);
    assert.deepEqual(one.told, []);
    one.disk.write('v2');
    await one.pass(quietMs);
    assert.deepEqual([one.told, one.clock.pending], [['saved v2'], 0], String(gone));
  }
});

test('a file that comes back as it was is no news', async () => {
  const one = await bed();
  one.disk.write(null);
  await one.pass(quietMs);
  one.disk.write('v1');
  await one.pass(quietMs);
  assert.deepEqual([one.told, one.clock.pending], [[], 0]);
});

test('a file that comes back in a folder of which nothing is heard is found all the same', async () => {
  const one = await bed();
  one.disk.write(null);
  await one.pass(quietMs);
  await one.pass(3 * absentMs);
  one.disk.write('v2', true);
  await one.pass(absentMs);
  assert.deepEqual([one.told, one.disk.watched], [['saved v2'], 1]);
});

test('a file that was not there at first is told of when it comes', async () => {
  const one = await bed(null);
  one.disk.write('v1');
  await one.pass(quietMs);
  assert.deepEqual(one.told, ['saved v1']);
});

test('what was read while it was written does not count', async () => {
  const one = await bed();
  one.disk.onRead = () => {
    one.disk.onRead = null;
    one.disk.write('v2 whole');
  };
  one.disk.write('v2 half');
  await one.pass(quietMs);
  assert.deepEqual(one.told, []);
  await one.pass(quietMs);
  assert.deepEqual([one.told, one.clock.pending], [['saved v2 whole'], 0]);
});

test('a folder that cannot be watched is told of once', async () => {
  const failure = Object.assign(new Error('no space left'), { code: 'ENOSPC' });
  const one = await bed(null, (disk) => {
    disk.failure = failure;
  });
  await one.pass(absentMs);
  assert.deepEqual([one.told, one.disk.looks], [['no space left'], 2]);
});

test('a folder that is not there is waited for', async () => {
  const failure = Object.assign(new Error('no such folder'), { code: 'ENOENT' });
  const one = await bed(null, (disk) => {
    disk.failure = failure;
  });
  one.disk.failure = null;
  one.disk.write('v1');
  await one.pass(absentMs);
  assert.deepEqual([one.told, one.disk.watched], [['saved v1'], 1]);
});

test('closed, it tells nothing and leaves nothing behind, whatever it was doing', async () => {
  const settling = await bed();
  settling.disk.write('v2');
  const absent = await bed();
  absent.disk.write(null);
  await absent.pass(quietMs);
  const looking = await bed();
  looking.disk.onRead = () => looking.watch.close();
  looking.disk.write('v2');
  await looking.pass(quietMs);
  for (const one of [settling, absent, looking, await bed()]) {
    one.watch.close();
    one.watch.close();
    assert.deepEqual([one.clock.pending, one.disk.watched], [0, 0]);
    one.disk.write('v3');
    await one.pass(10 * longestMs);
    assert.deepEqual(one.told, []);
  }
});
