/**
 * The memory that a process shares with its children: made for the first of them, and said once in the log if there is
 * none, or not enough.
 */
import type { Clock } from '../../core/clock.ts';
import { asError } from '../../core/errors.ts';
import { BYTES_PER_MB, type LogRecord } from '../../core/model.ts';
import { type ParentOptions, ParentSlots } from './parent-slots.ts';
import { openSlotFile } from './slot-file.ts';
import { Slots } from './slots.ts';

const INSTEAD = 'large payloads travel through sockets, which costs more';

export class SharedSlots {
  readonly #most: number;
  readonly #clock: Clock;
  readonly #onLog: (record: LogRecord) => void;
  readonly #open: typeof openSlotFile;
  /** Undefined: no child has been started; null: there is no shared memory. */
  #slots: Slots | null | undefined;
  #hasTold = false;

  /** @param most bytes */
  constructor(most: number, clock: Clock, onLog: (record: LogRecord) => void, open = openSlotFile) {
    this.#most = most;
    this.#clock = clock;
    this.#onLog = onLog;
    this.#open = open;
  }

  /** Returns the slots of a new process; null: it has none. */
  lane(options: Omit<ParentOptions, 'onFull'> = {}): ParentSlots | null {
    if (this.#slots === undefined) this.#slots = this.#opened();
    return this.#slots && new ParentSlots(this.#slots, { ...options, onFull: () => this.#full() });
  }

  /** Number of slots that are not free. */
  get taken(): number {
    return this.#slots?.taken ?? 0;
  }

  /** Gives the memory back. No child may run any more. */
  close(): void {
    this.#slots?.close();
    this.#slots = null;
  }

  #opened(): Slots | null {
    try {
      const { file, bytes } = this.#open();
      return new Slots(file, Math.min(bytes, this.#most), this.#clock);
    } catch (thrown) {
      this.#tell('info', `there is no shared memory (${asError(thrown).message}): ${INSTEAD}`);
      return null;
    }
  }

  #full(): void {
    const megabytes = Math.round((this.#slots?.size ?? 0) / BYTES_PER_MB);
    this.#tell('warn', `the ${megabytes} MB of shared memory are full: ${INSTEAD} while they are`);
  }

  #tell(level: LogRecord['level'], message: string): void {
    if (this.#hasTold) return;
    this.#hasTold = true;
    this.#onLog({ level, message });
  }
}
