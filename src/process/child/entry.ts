/**
 * Template for the main file of every child process: opens the channel, reports states, decides when garbage is
 * collected, and exits when the channel closes.
 */
import { getHeapStatistics, setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { type Clock, systemClock } from '../../core/clock.ts';
import { asError, isModeletError } from '../../core/errors.ts';
import { BYTES_PER_MB } from '../../core/model.ts';
import { type Channel, type ChannelEvents, openParentChannel } from '../../wire/channel/channel.ts';
import { encodeError } from '../../wire/codec/error-codec.ts';
import type { StateReport } from '../../wire/frames/bodies.ts';
import type { Frame } from '../../wire/frames/frames.ts';
import { heldBytes } from '../../wire/slots/held-bytes.ts';
import type { SlotChannel } from '../../wire/slots/slot-channel.ts';
import { BUILD_ID } from '../build-id.ts';

export interface ChildProgram {
  /**
   * Opens its end of the slots that its parent lends it; absent: it uses none.
   * @param onBytes to call with the bytes of payloads that it reads or writes
   * @param send sends a frame to the parent
   */
  slots?(onBytes: (count: number) => void, send: (frame: Frame) => void): SlotChannel;
  onFrame(frame: Frame, channel: Channel): void;
  /** Called when the process exits for any reason: the last chance to stop other processes. */
  onExit(): void;
}

/** The part of the channel that a child needs for its reports. */
export type Reports = Pick<Channel, 'send' | 'flushed'>;

/** @returns a function that counts the bytes of other traffic than the channel's; see `GarbageCollection` */
export function runChild(program: ChildProgram): (bytes: number) => void {
  // Ctrl-C and service managers signal the whole process group. A child ignores that: it ends only when it gets a close
  // frame, loses its channel, or is killed by SIGKILL.
  process.on('SIGINT', () => {});
  process.on('SIGTERM', () => {});

  const memory = new GarbageCollection(() => channel.bufferedBytes > 0 || channel.waitingBytes > 0, processHeap);
  const events: ChannelEvents = {
    onFrame: (frame) => program.onFrame(frame, channel),
    onClose: (error) => {
      // A broken pipe means that the parent has ended, which is not an error of this process.
      const garbage = isModeletError(error);
      if (garbage) console.error(error.stack);
      process.exit(garbage ? 1 : 0);
    },
  };
  const onBytes = (count: number): void => memory.noteBytes(count);
  const slots = program.slots?.(onBytes, (frame) => channel.send(frame)) ?? null;
  const channel = openParentChannel(events, slots, onBytes);
  process.on('exit', () => program.onExit());
  introduce(channel, slots !== null);
  return onBytes;
}

/**
 * Reports that the child has started, its build, and whether it uses slots. From then on an uncaught error ends the child:
 * the process, or in a worker thread only that thread.
 */
export function introduce(channel: Reports, slots: boolean): void {
  const fail = (thrown: unknown): void => {
    console.error(asError(thrown).stack);
    void endWithError(channel, thrown);
  };
  process.on('uncaughtException', fail);
  process.on('unhandledRejection', fail);
  report(channel, { state: 'startup', build: BUILD_ID, slots });
}

export function report(channel: Reports, state: StateReport): void {
  channel.send({ type: 'report', body: state });
}

/**
 * Reports the error and exits; recovery is always a new child.
 * @param more whether a worker was loading its code, before `setup`, and the files that it had touched
 */
export async function endWithError(
  channel: Reports,
  thrown: unknown,
  more: Pick<StateReport, 'loading' | 'files'> = {},
): Promise<never> {
  report(channel, { state: 'error', error: Buffer.from(encodeError(thrown)).toString('base64'), ...more });
  await channel.flushed();
  process.exit(1);
}

export interface HeapControl {
  /** @returns the bytes of live objects, buffers, held slots and garbage together. */
  usedBytes(): number;
  /** Makes full collections rarer, as long as the heap is small. Called when much traffic begins, and while it lasts. */
  spare(): void;
  /** Leaves collections to V8 from now on. */
  restore(): void;
  collect(): void;
}

/** Bytes that make a collection worth its cost: of traffic, in both directions, and then of garbage. */
const MUCH = 32 * BYTES_PER_MB;
/** Interval between two checks, in ms. */
const LOOK_MS = 1000;
/** Most bytes per interval at which the process counts as idle. A few requests do not make V8 collect. */
const LITTLE = 256 * 1024;

/**
 * Makes full collections rarer while there is much traffic, and collects what much traffic has left when it has ended. V8
 * counts the bytes of buffers against the next full collection, but allows only about as many as its heap holds: in a
 * process with a small heap and large payloads, one follows the other. And V8 collects only while code allocates memory, so
 * a process that becomes idle after large payloads would never free them.
 *
 * A full collection has a second cost: V8 drops the hidden classes of objects that are gone and the code that it compiled
 * for them, so the next burst of traffic runs slow code at first. A process that has little garbage keeps both.
 *
 *   resting   less than MUCH transferred since it began to rest  -> watching
 *   watching  checks again after LOOK_MS  -> watching (still busy) | resting (collected, if there is MUCH garbage)
 */
export class GarbageCollection {
  readonly #clock: Clock;
  readonly #isSending: () => boolean;
  readonly #heap: HeapControl;
  #state: 'resting' | 'watching' = 'resting';
  /** Bytes since it began to rest. */
  #passed = 0;
  /** The fewest bytes in use since the last collection here, or since the start: what is beyond them counts as garbage. */
  #live: number;

  /** @param isSending returns whether written data has not left this process yet. */
  constructor(isSending: () => boolean, heap: HeapControl, clock: Clock = systemClock) {
    this.#isSending = isSending;
    this.#heap = heap;
    this.#clock = clock;
    this.#live = heap.usedBytes();
  }

  noteBytes(count: number): void {
    this.#passed += count;
    if (this.#passed >= MUCH && this.#state === 'resting') this.#watch();
  }

  #watch(): void {
    const seen = this.#passed;
    this.#state = 'watching';
    this.#heap.spare();
    this.#clock.at(this.#clock.now() + LOOK_MS, () => {
      if (this.#isSending() || this.#passed - seen > LITTLE) {
        this.#watch();
        return;
      }
      this.#rest();
    });
  }

  #rest(): void {
    this.#state = 'resting';
    this.#passed = 0;
    this.#heap.restore();
    const used = this.#heap.usedBytes();
    // V8 has collected by itself if less is in use than before.
    this.#live = Math.min(this.#live, used);
    if (used - this.#live < MUCH) return;
    this.#heap.collect();
    this.#live = this.#heap.usedBytes();
  }
}

/** A heap up to this size may grow to four times its size between two full collections: to 128 MB. */
const SMALL_HEAP = 32 * BYTES_PER_MB;
const GROWTH_PERCENT = 300;

/** The heap of a process that is ours alone: V8 reads its flags at each collection. */
export const processHeap: HeapControl = {
  usedBytes,
  spare: () => grow(getHeapStatistics().used_heap_size <= SMALL_HEAP ? GROWTH_PERCENT : 0),
  restore: () => grow(0),
  collect: collectGarbage,
};

/** The heap of a thread. The flags are those of the whole process, so they stay as they are. */
export const threadHeap: HeapControl = { usedBytes, spare: () => {}, restore: () => {}, collect: collectGarbage };

function usedBytes(): number {
  const { used_heap_size: heap, external_memory: buffers } = getHeapStatistics();
  return heap + buffers + heldBytes();
}

/** @param percent 0: as V8 finds best */
function grow(percent: number): void {
  setFlagsFromString(`--heap-growing-percent=${percent}`);
}

let gc: (() => void) | null = null;

/** Collects garbage without starting Node.js with `--expose-gc`, which would also show in the modelet's process. */
function collectGarbage(): void {
  if (!gc) {
    setFlagsFromString('--expose-gc');
    gc = runInNewContext('gc') as () => void;
    setFlagsFromString('--no-expose-gc');
  }
  gc();
}
