/**
 * Hot edits: a stage gets new workers when its modelet's file, or another file that its workers touched while they loaded
 * the modelet, has another content.
 *
 * The watch looks at the status of the file instead of asking the system for events: so it also notices files behind
 * links, in folders that are replaced, on network file systems and in mounted volumes, and it runs into no limit of the
 * system. (chokidar 5 misses replaced folders and links. `fs.watchFile` takes its first look some time after the call,
 * and takes a save before it for the file as it was.)
 */
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
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

/** `settling`: the file was touched a moment ago, and will be read at the first look from `latest` on. */
type WatchState =
  | { readonly tag: 'watching' }
  | { readonly tag: 'settling'; readonly latest: Deadline }
  | { readonly tag: 'closed' };

export class FileWatch {
  readonly #path: string;
  readonly #clock: Clock;
  readonly #onChanged: () => void;
  /** Resolves when the watch knows the present content, or that it has to read it again. */
  readonly started: Promise<void>;
  #state: WatchState = { tag: 'watching' };
  /** The next look, or the last one while it lasts: looks and readings never overlap. */
  #next: Timer | null = null;
  /** The file's status at the last look. */
  #seen = '';
  /** Hash of the last content; null while no content was ever found. */
  #known: string | null = null;

  /**
   * `onChanged` is called when the content differs from the present one, and whenever it differs again.
   * @param since a stamp; if the file has another one by now, that is the first change, told when the file is left alone
   */
  constructor(path: string, onChanged: () => void, clock: Clock, since: string | null = null) {
    this.#path = path;
    this.#onChanged = onChanged;
    this.#clock = clock;
    this.started = this.#begin(since);
  }

  close(): void {
    this.#next?.cancel();
    this.#state = { tag: 'closed' };
  }

  /** Looks before it reads, so that the next look notices a save during the reading. */
  async #begin(since: string | null): Promise<void> {
    this.#seen = await statusOf(this.#path);
    this.#known = await hashOf(this.#path);
    if (since !== null && (since === '' || stampOf(this.#path) !== since)) {
      // A save may have come after the reading: the next reading tells of any content, once.
      this.#known = null;
      this.#settle();
    }
    this.#lookAfter();
  }

  #settle(): void {
    if (this.#state.tag !== 'watching') return;
    this.#state = { tag: 'settling', latest: deadlineAfter(this.#clock, FILE_WATCH.longestMs) };
  }

  #lookAfter(): void {
    if (this.#state.tag === 'closed') return;
    const pauseMs = this.#state.tag === 'settling' ? FILE_WATCH.quietMs : FILE_WATCH.pollMs;
    this.#next = this.#clock.at(deadlineAfter(this.#clock, pauseMs), () => void this.#look());
  }

  async #look(): Promise<void> {
    const status = await statusOf(this.#path);
    const state = this.#state;
    if (state.tag === 'closed') return;
    const isTouched = status !== this.#seen;
    this.#seen = status;
    if (state.tag === 'settling') {
      const isLate = this.#clock.now() >= state.latest && !isLarge(stampOf(this.#path));
      if (isLate || !isTouched) await this.#read();
    } else if (isTouched) this.#settle();
    this.#lookAfter();
  }

  async #read(): Promise<void> {
    const hash = await hashOf(this.#path);
    if (this.#state.tag === 'closed') return;
    this.#state = { tag: 'watching' };
    // A file that is gone, or cut off to be written anew, keeps its last content: it may come back as it was.
    if (hash === null || hash === this.#known) return;
    this.#known = hash;
    this.#onChanged();
  }
}

/**
 * Differs after each save, also of another file under the same name, unless two saves of one length fall into one tick of
 * the disk's clock. Blank for a file that is missing.
 */
async function statusOf(path: string): Promise<string> {
  try {
    const { dev, ino, size, mtimeNs, ctimeNs } = await stat(path, { bigint: true });
    return [dev, ino, size, mtimeNs, ctimeNs].join();
  } catch {
    return '';
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
