/**
 * Keeps other processes out of a folder, also those of other machines that share it. The owner writes the lock file anew every
 * few seconds. A file that stays as it is for a while is left over from a process that has died.
 */
import { randomUUID } from 'node:crypto';
import { mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type Clock, systemClock, type Timer } from '../../../core/clock.ts';
import { asError } from '../../../core/errors.ts';
import { pause } from './fetch-file.ts';

const FILE = '.lock';
const RENEW_MS = 5000;
const LOOK_MS = 500;
const ABANDONED_MS = 30_000;

export class FolderLock {
  readonly #file: string;
  readonly #clock: Clock;
  readonly #owner = randomUUID();
  #renewals = 0;
  #timer: Timer | null = null;

  private constructor(folder: string, clock: Clock) {
    this.#file = join(folder, FILE);
    this.#clock = clock;
  }

  /** Waits until no other process has the folder. @throws the reason of the signal, or an error of the file system */
  static async take(folder: string, signal: AbortSignal, clock: Clock = systemClock): Promise<FolderLock> {
    await mkdir(folder, { recursive: true });
    const lock = new FolderLock(folder, clock);
    let seen = { text: '', since: clock.now() };
    while (!(await lock.#isTaken())) {
      const text = await lock.#read();
      if (text !== seen.text) seen = { text, since: clock.now() };
      if (clock.now() - seen.since > ABANDONED_MS) await lock.#takeAway(seen.text);
      else await pause(LOOK_MS, signal, clock);
    }
    lock.#renew();
    return lock;
  }

  async release(): Promise<void> {
    this.#timer?.cancel();
    if (await this.#isOwn()) await rm(this.#file, { force: true });
  }

  get #content(): string {
    return `${this.#owner} ${this.#renewals}\n`;
  }

  async #isTaken(): Promise<boolean> {
    try {
      await writeFile(this.#file, this.#content, { flag: 'wx' });
      return true;
    } catch (thrown) {
      if ((asError(thrown) as NodeJS.ErrnoException).code === 'EEXIST') return false;
      throw thrown;
    }
  }

  #renew(): void {
    this.#timer = this.#clock.at(this.#clock.now() + RENEW_MS, () => {
      void this.#writeAnew();
      this.#renew();
    });
  }

  async #writeAnew(): Promise<void> {
    this.#renewals += 1;
    // Not if the file has gone. Without room on the disk the download fails by itself.
    if (await this.#isOwn()) await writeFile(this.#file, this.#content, { flag: 'r+' }).catch(() => {});
  }

  /** Another process takes over the folder of a machine that has slept for a while, for example. */
  async #isOwn(): Promise<boolean> {
    return (await this.#read()).startsWith(this.#owner);
  }

  async #read(): Promise<string> {
    return readFile(this.#file, 'utf8').catch(() => '');
  }

  /** Several processes may come to this at once: the file moves for one of them only. */
  async #takeAway(text: string): Promise<void> {
    const aside = `${this.#file}.${this.#owner}`;
    await rename(this.#file, aside).catch(() => {});
    const isSame = (await readFile(aside, 'utf8').catch(() => text)) === text;
    // Another process has just taken the folder.
    if (!isSame) await rename(aside, this.#file).catch(() => {});
    await rm(aside, { force: true });
  }
}
