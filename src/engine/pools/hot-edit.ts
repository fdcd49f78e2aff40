/**
 * Hot edits: a modelet's file that is saved with another content gives its stage new workers.
 *
 * The watch polls the status of the file instead of asking the system for events: so it also notices files behind links,
 * in folders that are replaced, on network file systems and in mounted volumes, and it runs into no limit of the system.
 * (chokidar 5 misses replaced folders and links.)
 */
import { createHash } from 'node:crypto';
import { createReadStream, statSync, unwatchFile, watchFile } from 'node:fs';
import { basename } from 'node:path';
import type { StageDefinition } from '../../config/schemas/stage-definition.ts';
import { type Clock, type Deadline, deadlineAfter, type Timer } from '../../core/clock.ts';
import type { LogRecord } from '../../core/model.ts';

export const FILE_WATCH = {
  /** Pause between two looks at the file's status. */
  pollMs: 250,
  /** Editors save in several steps: the file is read once nothing has happened to it for this long. */
  quietMs: 200,
  /** The file is read after this long even if it is written to all the time. */
  longestMs: 2000,
} as const;

/** `settling`: the file was touched a moment ago, and will be read by `latest`. */
type State =
  | { readonly tag: 'watching' }
  | { readonly tag: 'settling'; readonly timer: Timer; readonly latest: Deadline }
  | { readonly tag: 'closed' };

export class FileWatch {
  readonly #path: string;
  readonly #clock: Clock;
  readonly #onChanged: () => void;
  /** Resolves when the present content is known. */
  readonly started: Promise<void>;
  readonly #touched = (): void => this.#settle();
  #state: State = { tag: 'watching' };
  /** Hash of the last content; undefined before the first reading, null while no content was ever found. */
  #known: string | null | undefined;
  /** Only the newest reading counts. */
  #readings = 0;

  /**
   * `onChanged` is called when the content differs from the present one, and whenever it differs again.
   * @param since a stamp; if the file has another one by now, that is the first change
   */
  constructor(path: string, onChanged: () => void, clock: Clock, since: string | null = null) {
    this.#path = path;
    this.#onChanged = onChanged;
    this.#clock = clock;
    watchFile(path, { bigint: true, persistent: false, interval: FILE_WATCH.pollMs }, this.#touched);
    this.started = this.#begin(since);
  }

  close(): void {
    if (this.#state.tag === 'settling') this.#state.timer.cancel();
    this.#state = { tag: 'closed' };
    unwatchFile(this.#path, this.#touched);
  }

  #settle(): void {
    const state = this.#state;
    if (state.tag === 'closed') return;
    if (state.tag === 'settling') state.timer.cancel();
    const latest = state.tag === 'settling' ? state.latest : deadlineAfter(this.#clock, FILE_WATCH.longestMs);
    const at = Math.min(latest, deadlineAfter(this.#clock, FILE_WATCH.quietMs));
    this.#state = { tag: 'settling', latest, timer: this.#clock.at(at, () => void this.#read()) };
  }

  async #begin(since: string | null): Promise<void> {
    const isTouched = since !== null && stampOf(this.#path) !== since;
    await this.#read();
    if (isTouched && typeof this.#known === 'string' && this.#state.tag !== 'closed') this.#onChanged();
  }

  async #read(): Promise<void> {
    if (this.#state.tag === 'settling') this.#state = { tag: 'watching' };
    this.#readings += 1;
    const reading = this.#readings;
    const hash = await hashOf(this.#path);
    if (reading !== this.#readings || this.#state.tag === 'closed') return;
    const before = this.#known;
    // A file that is gone, or cut off to be written anew, keeps its last content: it may come back as it was.
    this.#known = hash ?? before ?? null;
    if (hash !== null && before !== undefined && hash !== before) this.#onChanged();
  }
}

/** Differs whenever the file has been touched; blank for a file that is missing or empty. */
function stampOf(path: string): string {
  try {
    const { ino, size, mtimeNs, ctimeNs } = statSync(path, { bigint: true });
    return size > 0n ? [ino, size, mtimeNs, ctimeNs].join() : '';
  } catch {
    return '';
  }
}

/** Null for a file that is empty or cannot be read. */
async function hashOf(path: string): Promise<string | null> {
  const hash = createHash('sha256');
  let bytes = 0;
  try {
    for await (const chunk of createReadStream(path)) {
      bytes += (chunk as Buffer).length;
      hash.update(chunk as Buffer);
    }
  } catch {
    return null;
  }
  return bytes === 0 ? null : hash.digest('base64');
}

/** The engine as the watches of a stage see it. */
export interface HotEditHost {
  readonly clock: Clock;
  onLog(record: LogRecord): void;
}

/** Watches the file of a stage's modelet while the stage's definition asks for it. */
export class HotEdit {
  readonly #host: HotEditHost;
  readonly #onSaved: () => void;
  #present: { readonly path: string; readonly watch: FileWatch } | null = null;

  /** `onSaved` is called when the file has another content than the newest workers were started with. */
  constructor(host: HotEditHost, onSaved: () => void) {
    this.#host = host;
    this.#onSaved = onSaved;
  }

  /** Watches the file of the definition. A file that is watched already stays watched. */
  follow({ name, watch, modelet: { source } }: StageDefinition): void {
    const path = watch && 'path' in source ? source.path : null;
    if (path === (this.#present?.path ?? null)) return;
    this.stop();
    if (path === null) return;
    const onSaved = (): void => {
      this.#host.onLog({ level: 'info', message: `${basename(path)} has been saved: new workers start`, stage: name });
      this.#onSaved();
    };
    this.#present = { path, watch: new FileWatch(path, onSaved, this.#host.clock) };
  }

  stop(): void {
    this.#present?.watch.close();
    this.#present = null;
  }
}

/** Watches the file of workers that do not start, since nothing else would tell that they may now. */
export class Repair {
  readonly #host: HotEditHost;
  readonly #onTouched: () => void;
  /** The file as it was before the last try. */
  #tried: { readonly path: string; readonly stamp: string } | null = null;
  #watch: FileWatch | null = null;

  constructor(host: HotEditHost, onTouched: () => void) {
    this.#host = host;
    this.#onTouched = onTouched;
  }

  /** Call before workers are started. */
  trying({ modelet: { source } }: StageDefinition): void {
    this.stop();
    this.#tried = 'path' in source ? { path: source.path, stamp: stampOf(source.path) } : null;
  }

  /** Watches while workers are stuck, unless the definition has the file watched anyway. */
  follow({ name, watch }: StageDefinition, isStuck: boolean): void {
    if (!isStuck || watch || !this.#tried) {
      this.stop();
    } else if (!this.#watch) {
      const { path, stamp } = this.#tried;
      const onChanged = (): void => {
        const message = `${basename(path)} has changed: it is tried again`;
        this.#host.onLog({ level: 'info', message, stage: name });
        this.#onTouched();
      };
      this.#watch = new FileWatch(path, onChanged, this.#host.clock, stamp);
    }
  }

  stop(): void {
    this.#watch?.close();
    this.#watch = null;
  }
}
