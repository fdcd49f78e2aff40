/**
 * Bounds the bytes of payloads in the engine. Half of the budget is for requests that have passed no stage, whose
 * further ones are refused; half is for the results of stages, and a stage runs an item only if its expected result fits.
 * So neither half can starve the other, and what is far on its way has more room than what is behind.
 *
 * Answers that have left their route but not the process count to the first half: clients may never read them, and must
 * not hold up the stages that come before the last.
 */
import type { Clock } from '../../core/clock.ts';
import type { EngineStatus } from '../../core/model.ts';
import { type Item, type LiveLeg, nextStage } from '../stage/item.ts';

/** Bytes of a result for each byte of an input while a stage has given none: a JPEG may unpack a few hundred times. */
const UNKNOWN_GROWTH = 512;
/**
 * The same for the last stage of a route: its workers can run only so much before the first answer tells more, and other
 * routes must not wait for that.
 */
const UNKNOWN_ANSWER = 1;
/** Share that earlier results keep in the mean at each new one. */
const KEPT = 0.9;
/** Pause between two looks at what clients have read, while answers wait for that. */
const LOOK_MS = 20;
/** The engine says for so long that it holds something back: people look about once a second. */
const SAID_MS = 2000;

/** Measures how much larger results are than their inputs, mostly by the latest. */
export class Growth {
  #inputs = 0;
  #results = 0;

  note(input: number, result: number): void {
    this.#inputs = this.#inputs * KEPT + input;
    this.#results = this.#results * KEPT + result;
  }

  /**
   * Returns the expected bytes of a result.
   * @param most the largest allowed
   * @param unknown bytes of a result for each byte of an input while there was none
   */
  of(input: number, most: number, unknown: number): number {
    const factor = this.#inputs === 0 ? unknown : this.#results / this.#inputs;
    return Math.min(most, input * factor);
  }
}

export interface MemoryHost {
  readonly clock: Clock;
  /** Largest payload of a stage, in bytes. */
  readonly maxPayloadBytes: number;
  /** Most bytes of payloads. */
  readonly maxQueueBytes: number;
  /** Returns the bytes of answers that have not left the process. */
  unsentBytes(): number;
  /** What was held back may have room. */
  onRoom(): void;
  /** `heldBack` has become undefined. */
  onChange(): void;
}

export class Memory {
  readonly #half: number;
  readonly #host: MemoryHost;
  #entered = 0;
  #made = 0;
  #expected = 0;
  /** Expected bytes of answers that last stages make now. */
  #leaving = 0;
  #isWanted = false;
  #isLooking = false;
  #held: { refuses: boolean; at: number } | null = null;

  constructor(host: MemoryHost) {
    this.#half = host.maxQueueBytes / 2;
    this.#host = host;
  }

  /** Bytes of all payloads, results that are expected and answers that have not left included. */
  get bytes(): number {
    return Math.round(this.#entered + this.#made + this.#expected + this.#leaving + this.#host.unsentBytes());
  }

  /** What it has held back in the last seconds; undefined: nothing. */
  get heldBack(): EngineStatus['heldBack'] {
    return this.#held ? { limitBytes: 2 * this.#half, refuses: this.#held.refuses } : undefined;
  }

  /** Whether a request that has just come may stay. One alone always may. */
  takes(item: Item): boolean {
    let request = item;
    while (request.parent) request = request.parent;
    if (this.#entered === request.held || this.#entered + this.#host.unsentBytes() <= this.#half) return true;
    this.#holdsBack(true);
    return false;
  }

  /** Whether the answer to a request that comes now is likely to have room. @param leg the whole way of the request */
  hasRoomForAnswer(leg: LiveLeg, bytes: number): boolean {
    const unsent = this.#host.unsentBytes();
    if (unsent === 0 || unsent + grownOn(leg, bytes, this.#host.maxPayloadBytes) <= this.#half) return true;
    this.#holdsBack(true);
    return false;
  }

  /** Counts the payload of an item. A branch shares that of its parent until a stage has made one of its own. */
  hold(item: Item): void {
    if (item.parent && !item.passed) return;
    item.held = item.payload.bytes.byteLength;
    if (item.passed) this.#made += item.held;
    else this.#entered += item.held;
  }

  /** Forgets the payload of an item and its expected result. */
  release(item: Item): void {
    if (item.passed) this.#made -= item.held;
    else this.#entered -= item.held;
    item.held = 0;
    this.stopped(item);
    if (!this.#isWanted) return;
    this.#isWanted = false;
    this.#host.onRoom();
  }

  /**
   * Whether the result of an item has room. If the stages behind are empty, it has: nothing else would make room.
   * @param way part of the item's way behind it then, from 0 to 1
   */
  fits(item: Item, way: number, behind: readonly { readonly open: number }[]): boolean {
    const made = this.#made - (item.passed ? item.held : 0) + this.#expected;
    if (made + this.#resultOf(item, UNKNOWN_GROWTH) <= (this.#half * (1 + Math.min(1, way))) / 2) return true;
    this.#isWanted = true;
    if (this.#expected <= 0 && behind.every(({ open }) => open === 0)) return true;
    this.#holdsBack(false);
    return false;
  }

  /** Whether the answer of an item has room. One alone always has, and so has a branch: others of its request may wait. */
  mayAnswer(item: Item): boolean {
    const others = this.#leaving + this.#host.unsentBytes();
    if (item.parent || others === 0 || others + this.#resultOf(item, UNKNOWN_ANSWER) <= this.#half) return true;
    this.#isWanted = true;
    this.#holdsBack(false);
    this.#look();
    return false;
  }

  /** Keeps room for the result of an item that runs. */
  expect(item: Item): void {
    this.stopped(item);
    item.answers = !nextStage(item) && item.leg.following.length === 0;
    item.expected = this.#resultOf(item, item.answers ? UNKNOWN_ANSWER : UNKNOWN_GROWTH);
    if (item.answers) this.#leaving += item.expected;
    else this.#expected += item.expected;
  }

  /** Forgets the expected result of an item. */
  stopped(item: Item): void {
    if (item.answers) this.#leaving -= item.expected;
    else this.#expected -= item.expected;
    item.expected = 0;
  }

  #resultOf({ stage, payload }: Item, unknown: number): number {
    return stage.resultBytes(payload.bytes.byteLength, this.#host.maxPayloadBytes, unknown);
  }

  #holdsBack(refuses: boolean): void {
    const before = this.#held;
    this.#held = { refuses: refuses || before?.refuses === true, at: this.#host.clock.now() };
    if (!before) this.#forgetLater(this.#held.at);
  }

  #forgetLater(since: number): void {
    this.#host.clock.at(since + SAID_MS, () => {
      const { at } = this.#held as { at: number };
      if (at > since) {
        this.#forgetLater(at);
        return;
      }
      this.#held = null;
      this.#host.onChange();
    });
  }

  /** Tries again soon: no event tells that a client has read. */
  #look(): void {
    if (this.#isLooking) return;
    this.#isLooking = true;
    const { clock } = this.#host;
    clock.at(clock.now() + LOOK_MS, () => {
      this.#isLooking = false;
      this.#host.onRoom();
    });
  }
}

/** Returns the bytes that a payload is likely to have at the end of its way. A stage that has made no result adds none. */
function grownOn({ stages, next }: LiveLeg, bytes: number, most: number): number {
  const made = stages.reduce((size, stage) => stage.resultBytes(size, most, UNKNOWN_ANSWER), bytes);
  if (!next) return made;
  if (next.kind === 'choice') return Math.max(...next.ways.map((way) => grownOn(way, made, most)));
  return grownOn(
    next.after,
    next.branches.reduce((sum, branch) => sum + grownOn(branch, made, most), 0),
    most,
  );
}
