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
import type { StageDefinition } from '../../config/stage-definition.ts';
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
    await this.#read();
    // Compared after the reading: a save before it is in what was read, so that nothing else would tell of it.
    const isTouched = since !== null && stampOf(this.#path) !== since;
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

/** The engine as the watch of a stage sees it. */
export interface HotEditHost {
  readonly clock: Clock;
  onLog(record: LogRecord): void;
}

/**
 * Watches the file of a stage's modelet: all the time if the definition asks for it, otherwise while workers do not
 * start, since nothing else would tell that they may now.
 */
export class HotEdit {
  readonly #host: HotEditHost;
  readonly #onSaved: () => void;
  readonly #onRepaired: () => void;
  /** The file as it was before workers were last started. */
  #tried: { readonly path: string; readonly stamp: string } | null = null;
  #present: { readonly path: string; readonly isAsked: boolean; readonly watch: FileWatch } | null = null;

  /**
   * @param onSaved called when a file that the definition wants watched has another content than before
   * @param onRepaired called when any other file has another content than the workers that do not start were given
   */
  constructor(host: HotEditHost, onSaved: () => void, onRepaired: () => void) {
    this.#host = host;
    this.#onSaved = onSaved;
    this.#onRepaired = onRepaired;
  }

  /** Call before workers are started. */
  trying({ modelet: { source } }: StageDefinition): void {
    if (this.#present?.isAsked === false) this.stop();
    this.#tried = 'path' in source ? { path: source.path, stamp: stampOf(source.path) } : null;
  }

  /** Starts or ends the watch. Call when the definition, or whether workers are stuck, may have changed. */
  follow({ name, watch, modelet: { source } }: StageDefinition, isStuck: boolean): void {
    const asked = watch && 'path' in source ? { path: source.path, stamp: null } : null;
    const wanted = asked ?? (isStuck && !watch ? this.#tried : null);
    const isAsked = asked !== null;
    if (wanted?.path === this.#present?.path && (wanted === null || isAsked === this.#present?.isAsked)) return;
    this.stop();
    if (wanted === null) return;
    const file = basename(wanted.path);
    const onChanged = (): void => {
      const message = isAsked ? `${file} was saved: new workers start` : `${file} has changed: the workers start again`;
      this.#host.onLog({ level: 'info', message, stage: name });
      if (isAsked) this.#onSaved();
      else this.#onRepaired();
    };
    const started = new FileWatch(wanted.path, onChanged, this.#host.clock, wanted.stamp);
    this.#present = { path: wanted.path, isAsked, watch: started };
  }

  stop(): void {
    this.#present?.watch.close();
    this.#present = null;
  }
}
