/**
 * Tells when the content of a file is another than before. Editors save in many ways, in several steps each: what
 * counts is what the file has in it once it has been left alone for a moment.
 *
 *   idle      nothing happens                                         -> settling | closed
 *   settling  something happened a moment ago                         -> looking | closed
 *   looking   the file is being read                                  -> idle | settling | absent | closed
 *   absent    no file, or an empty one: it is being written, or gone  -> settling | looking | closed
 */
import type { Clock, Deadline, Timer } from '../../core/clock.ts';
import { type FileReading, type Files, type FolderWatch, files } from './watched-files.ts';

export const FILE_WATCH = {
  /** The file is read when nothing has happened to it for so long. */
  quietMs: 200,
  /** Nor is it left unread for longer, where something is written to it, or beside it, all the time. */
  longestMs: 2000,
  /** Pause between two looks for a file that is not there: its folder may be another when it comes back. */
  absentMs: 1000,
} as const;

export interface FileWatchEvents {
  /** It has been saved with another content. */
  onChanged(): void;
  /** What happens to it cannot be told; said once. */
  onUnwatchable(error: Error): void;
}

type State =
  | { readonly tag: 'idle' }
  | { readonly tag: 'settling'; readonly timer: Timer; readonly latest: Deadline }
  /** `again`: something has happened meanwhile. */
  | { readonly tag: 'looking'; again: boolean }
  | { readonly tag: 'absent'; readonly timer: Timer }
  | { readonly tag: 'closed' };

type Tag = State['tag'];

export const FILE_WATCH_TRANSITIONS: Readonly<Record<Tag, readonly Tag[]>> = {
  idle: ['settling', 'closed'],
  settling: ['settling', 'looking', 'closed'],
  looking: ['idle', 'settling', 'absent', 'closed'],
  absent: ['settling', 'looking', 'closed'],
  closed: [],
};

const NO_CONTENT: FileReading = { stamp: '', hash: '' };

export class FileWatch {
  readonly #path: string;
  readonly #events: FileWatchEvents;
  readonly #clock: Clock;
  readonly #files: Files;
  #state: State;
  #folders: FolderWatch | null = null;
  #unwatchable = false;
  /** Of the last content there was; null before the first look. */
  #known: FileReading | null = null;

  /** What is in the file now is what it changes from, or with `since` what was in it then. */
  constructor(
    path: string,
    events: FileWatchEvents,
    clock: Clock,
    access: Files = files,
    since: FileReading | null = null,
  ) {
    this.#known = since;
    this.#path = path;
    this.#events = events;
    this.#clock = clock;
    this.#files = access;
    this.#state = { tag: 'looking', again: false };
    void this.#look();
  }

  close(): void {
    if (this.#state.tag === 'closed') return;
    if (this.#state.tag === 'settling' || this.#state.tag === 'absent') this.#state.timer.cancel();
    this.#enter({ tag: 'closed' });
    this.#folders?.close();
    this.#folders = null;
  }

  /** `own`: it is about the file; else about another of its folder, of which it may be made. */
  #happened(own: boolean): void {
    const state = this.#state;
    if (state.tag === 'closed') return;
    if (state.tag === 'looking') {
      state.again = true;
      return;
    }
    if (state.tag === 'settling' && !own) return;
    if (state.tag !== 'idle') state.timer.cancel();
    this.#settle(state.tag === 'settling' ? state.latest : this.#clock.now() + FILE_WATCH.longestMs);
  }

  #settle(latest: Deadline): void {
    const at = Math.min(latest, this.#clock.now() + FILE_WATCH.quietMs);
    this.#enter({ tag: 'settling', latest, timer: this.#clock.at(at, () => this.#startLook()) });
  }

  #startLook(): void {
    this.#enter({ tag: 'looking', again: false });
    void this.#look();
  }

  async #look(): Promise<void> {
    // Each time, as the folder may be another by now. What happens from here on is told.
    this.#watchFolders();
    const look = await this.#files.look(this.#path, this.#known);
    const state = this.#state;
    if (state.tag !== 'looking') return;
    if (look.tag === 'absent') {
      const timer = this.#clock.at(this.#clock.now() + FILE_WATCH.absentMs, () => this.#startLook());
      this.#enter({ tag: 'absent', timer });
    } else if (look.tag === 'moving' || state.again) {
      this.#settle(this.#clock.now() + FILE_WATCH.longestMs);
    } else {
      this.#enter({ tag: 'idle' });
    }
    if (look.tag !== 'moving') this.#compare(look.tag === 'read' ? look.reading : null);
  }

  /** A file that is gone still has what it had: it may be the same when it comes back. */
  #compare(found: FileReading | null): void {
    const before = this.#known;
    this.#known = found ?? before ?? NO_CONTENT;
    if (found && before && found.hash !== before.hash) this.#events.onChanged();
  }

  #watchFolders(): void {
    this.#folders?.close();
    this.#folders = null;
    try {
      this.#folders = this.#files.watch(
        this.#path,
        (own) => this.#happened(own),
        (error) => this.#failed(error),
      );
    } catch (thrown) {
      this.#failed(thrown as NodeJS.ErrnoException);
    }
  }

  #failed(error: NodeJS.ErrnoException): void {
    // A folder that is gone is looked for like the file.
    if (error.code === 'ENOENT' || this.#unwatchable || this.#state.tag === 'closed') return;
    this.#unwatchable = true;
    this.#events.onUnwatchable(error);
  }

  #enter(next: State): void {
    const { tag } = this.#state;
    if (!FILE_WATCH_TRANSITIONS[tag].includes(next.tag)) throw new Error(`no way from ${tag} to ${next.tag}`);
    this.#state = next;
  }
}
