/**
 * Hot edits: a stage gets new workers when its modelet's file, or another file that its workers touched while they loaded
 * the modelet, has another content.
 *
 * The watch polls the status of the file instead of asking the system for events: so it also notices files behind links,
 * in folders that are replaced, on network file systems and in mounted volumes, and it runs into no limit of the system.
 * (chokidar 5 misses replaced folders and links.)
 */
import { createHash } from 'node:crypto';
import { createReadStream, unwatchFile, watchFile } from 'node:fs';
import { basename } from 'node:path';
import type { StageDefinition } from '../../../config/stage-definition.ts';
import { type Clock, type Deadline, deadlineAfter, type Timer } from '../../../core/clock.ts';
import type { LogRecord } from '../../../core/model.ts';
import { pointersIn } from '../../../process/parent/start-failure.ts';
import { stampOf } from '../../../process/touched-files.ts';
import type { TouchedFile } from '../../../wire/frames/bodies.ts';

export const FILE_WATCH = {
  /** Pause between two looks at the file's status. */
  pollMs: 250,
  /** Editors save in several steps: the file is read once nothing has happened to it for this long. */
  quietMs: 200,
  /** The file is read after this long even if it is written to all the time. */
  longestMs: 2000,
  /** A larger file is known by its stamp: it would take long to read, and is copied for longer than `longestMs`. */
  mostHashed: 1 << 24,
  /** Time for files that are saved together. */
  togetherMs: 300,
} as const;

/** `settling`: the file was touched a moment ago, and will be read by `latest`. */
type WatchState =
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
  #state: WatchState = { tag: 'watching' };
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
    const longestMs = isLarge(stampOf(this.#path)) ? Number.POSITIVE_INFINITY : FILE_WATCH.longestMs;
    const latest = state.tag === 'settling' ? state.latest : deadlineAfter(this.#clock, longestMs);
    const at = Math.min(latest, deadlineAfter(this.#clock, FILE_WATCH.quietMs));
    this.#state = { tag: 'settling', latest, timer: this.#clock.at(at, () => void this.#read()) };
  }

  async #begin(since: string | null): Promise<void> {
    let stamp = stampOf(this.#path);
    await this.#read();
    if (since === null) return;
    // The reading may already have a change that is saved during it, so that nothing else would tell of the change.
    for (let tries = 0; tries < 3 && stampOf(this.#path) !== stamp; tries += 1) {
      this.#known = undefined;
      stamp = stampOf(this.#path);
      await this.#read();
    }
    if (stamp !== since && typeof this.#known === 'string' && this.#state.tag !== 'closed') this.#onChanged();
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

/** Null for a file that is empty or cannot be read. */
async function hashOf(path: string): Promise<string | null> {
  const stamp = stampOf(path);
  if (isLarge(stamp)) return stamp;
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

function isLarge(stamp: string): boolean {
  return Number.parseInt(stamp, 10) > FILE_WATCH.mostHashed;
}

/** The engine as the watch of a stage sees it. */
export interface HotEditHost {
  readonly clock: Clock;
  onLog(record: LogRecord): void;
}

/**
 * Watches the files of a stage's modelet: all the time if the definition asks for it, otherwise while workers do not
 * start, since nothing else would tell that they may now.
 */
export class HotEdit {
  readonly #host: HotEditHost;
  readonly #onSaved: () => void;
  readonly #onRepaired: () => void;
  /** The modelet's file as it was before workers were last started. */
  #tried: readonly TouchedFile[] = [];
  readonly #watches: Map<string, FileWatch> = new Map();
  /** Whether the definition asks for the watches. */
  #isAsked = false;
  /** Files that were saved a moment ago, and the end of that moment. */
  readonly #saved: Set<string> = new Set();
  #together: Timer | null = null;
  /** The news already told of files that workers had touched. */
  readonly #told: Set<string> = new Set();

  /**
   * @param onSaved called when files that the definition wants watched have another content than before
   * @param onRepaired called when any other file has another content than the workers that do not start were given
   */
  constructor(host: HotEditHost, onSaved: () => void, onRepaired: () => void) {
    this.#host = host;
    this.#onSaved = onSaved;
    this.#onRepaired = onRepaired;
  }

  /** Call before workers are started. */
  trying({ modelet: { source } }: StageDefinition): void {
    if (!this.#isAsked) this.stop();
    this.#tried = 'path' in source ? [[source.path, stampOf(source.path)]] : [];
  }

  /**
   * Starts or ends the watches. Call when the definition, or whether workers are stuck, may have changed.
   * @param touched the files that the workers touched
   */
  follow(
    { name, watch, modelet: { source } }: StageDefinition,
    isStuck: boolean,
    touched: readonly TouchedFile[],
  ): void {
    if (!isStuck) this.#tellOf(pointersIn(touched), name);
    const isAsked = watch && 'path' in source;
    if (isAsked !== this.#isAsked) this.stop();
    this.#isAsked = isAsked;
    const wanted = new Map<string, string | null>(isAsked || isStuck ? [...touched, ...this.#tried] : []);
    // Each save of the file is a change, also a save before the watch began.
    if (isAsked) wanted.set(source.path, null);
    for (const path of [...this.#watches.keys()]) if (!wanted.has(path)) this.#end(path);
    for (const [path, stamp] of wanted) {
      if (this.#watches.has(path)) continue;
      this.#watches.set(path, new FileWatch(path, () => this.#changed(path, name), this.#host.clock, stamp));
    }
  }

  stop(): void {
    this.#together?.cancel();
    this.#together = null;
    this.#saved.clear();
    for (const path of [...this.#watches.keys()]) this.#end(path);
  }

  #changed(path: string, stage: string): void {
    if (!this.#isAsked) {
      this.#log('info', `${basename(path)} has changed: the workers start again`, stage);
      this.#onRepaired();
      return;
    }
    this.#saved.add(basename(path));
    this.#together?.cancel();
    this.#together = null;
    const end = this.#watches.size > 1 ? deadlineAfter(this.#host.clock, FILE_WATCH.togetherMs) : null;
    if (end === null) this.#renew(stage);
    else this.#together = this.#host.clock.at(end, () => this.#renew(stage));
  }

  #renew(stage: string): void {
    const files = [...this.#saved].sort();
    this.#saved.clear();
    this.#log('info', `${files.join(', ')} ${files.length > 1 ? 'were' : 'was'} saved: new workers start`, stage);
    this.#onSaved();
  }

  #end(path: string): void {
    this.#watches.get(path)?.close();
    this.#watches.delete(path);
  }

  #tellOf(texts: readonly string[], stage: string): void {
    for (const text of texts) if (!this.#told.has(text)) this.#log('warn', text, stage);
    this.#told.clear();
    for (const text of texts) this.#told.add(text);
  }

  #log(level: LogRecord['level'], message: string, stage: string): void {
    this.#host.onLog({ level, message, stage });
  }
}
