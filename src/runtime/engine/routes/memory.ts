/**
 * Bounds the bytes of payloads in the engine. Half of the budget is for requests that have passed no stage, whose
 * further ones are refused; half is for the results of stages, and a stage runs an item only if its expected result fits.
 * So neither half can starve the other, and what is far on its way has more room than what is behind.
 *
 * Answers that have left their route but not the process count to the first half: clients may never read them, and must
 * not hold up the stages that come before the last.
 */
import type { Clock } from '../../../core/clock.ts';
import type { EngineStatus } from '../../../core/model.ts';
import { byteLengthOf } from '../../../wire/codec/chunks.ts';
import { type Charge, type Item, type LiveLeg, NO_MEMORY, nextStage } from '../stage/item.ts';

/** Bytes of a result for each byte of an input while a stage has given none: a JPEG may unpack a few hundred times. */
const UNKNOWN_GROWTH = 512;
/**
 * The same for the last stage of a route: its workers can run only so much before the first answer tells more, and other
 * routes must not wait for that.
 */
const UNKNOWN_ANSWER = 1;
/** Weight that earlier results keep at each new one. */
const KEPT = 0.9;
/** Inputs whose sizes vary less, as a part of the mean squared, count as equal. */
const LEAST_VARIANCE = 1e-6;
/** Pause between two looks at what clients have read, while answers wait for that. */
const LOOK_MS = 20;
/** The engine says for so long that it holds something back: people look about once a second. */
const SAID_MS = 2000;

/**
 * Tells the size of a result by that of its input: on a straight line through the latest results. Some stages make results
 * of one size from any input, others unpack what comes.
 */
export class Growth {
  #count = 0;
  #inputs = 0;
  #results = 0;
  #squares = 0;
  #products = 0;

  note(input: number, result: number): void {
    this.#count = this.#count * KEPT + 1;
    this.#inputs = this.#inputs * KEPT + input;
    this.#results = this.#results * KEPT + result;
    this.#squares = this.#squares * KEPT + input * input;
    this.#products = this.#products * KEPT + input * result;
  }

  /**
   * Returns the expected bytes of a result, as a whole number: sums of fractions would keep a rest, for which items
   * would wait for ever.
   * @param most the largest allowed
   * @param unknown bytes of a result for each byte of an input while there was none
   */
  of(input: number, most: number, unknown: number): number {
    if (this.#count === 0) return Math.min(most, input * unknown);
    const [meanInput, meanResult] = [this.#inputs / this.#count, this.#results / this.#count];
    const expected = meanResult + this.#slope(meanInput, meanResult) * (input - meanInput);
    return Math.min(most, Math.max(0, Math.round(expected)));
  }

  /** Results are taken to be in proportion to their inputs while these have had one size. */
  #slope(meanInput: number, meanResult: number): number {
    const variance = this.#squares / this.#count - meanInput * meanInput;
    if (variance <= LEAST_VARIANCE * meanInput * meanInput) return meanInput === 0 ? 0 : meanResult / meanInput;
    return Math.max(0, (this.#products / this.#count - meanInput * meanResult) / variance);
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
  /** Tells that items held back may have room. */
  onRoom(): void;
  /** `heldBack` has become undefined. */
  onChange(): void;
}

export class Memory {
  readonly #half: number;
  readonly #host: MemoryHost;
  /** `expected`: of results that go on to a further stage; `leaving`: of answers that last stages make now. */
  readonly #sums: Record<Charge['sum'], number> = { entered: 0, made: 0, expected: 0, leaving: 0 };
  #isWanted = false;
  #isLooking = false;
  #held: { refuses: boolean; at: number } | null = null;

  constructor(host: MemoryHost) {
    this.#half = host.maxQueueBytes / 2;
    this.#host = host;
  }

  /** Bytes of all payloads, results that are expected and answers that have not left included. */
  get bytes(): number {
    const { entered, made, expected, leaving } = this.#sums;
    return Math.round(entered + made + expected + leaving + this.#host.unsentBytes());
  }

  /** The limit that has held items back in the last seconds; undefined: none has. */
  get heldBack(): EngineStatus['heldBack'] {
    return this.#held ? { limitBytes: 2 * this.#half, refuses: this.#held.refuses } : undefined;
  }

  /** Whether a request that has just come may stay. One alone always may. */
  takes(item: Item): boolean {
    let request = item;
    while (request.parent) request = request.parent;
    const { entered } = this.#sums;
    if (entered === held(request, 'entered') || entered + this.#host.unsentBytes() <= this.#half) return true;
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

  /** Counts the payload of an item. A branch shares the payload of its parent until a stage has replaced it. */
  hold(item: Item): void {
    const bytes = item.payload === item.parent?.payload ? 0 : byteLengthOf(item.payload);
    item.memory = { tag: 'holds', payload: this.#charge(item.passed ? 'made' : 'entered', bytes) };
  }

  /** Forgets the payload of an item and its expected result. */
  release(item: Item): void {
    this.stopped(item);
    if (item.memory.tag === 'holds') this.#free(item.memory.payload);
    item.memory = NO_MEMORY;
    if (!this.#isWanted) return;
    this.#isWanted = false;
    this.#host.onRoom();
  }

  /**
   * Whether the result of an item has room. If the stages behind are empty, it has: nothing else would make room.
   * @param way part of the item's way behind it then, from 0 to 1
   */
  fits(item: Item, way: number, behind: readonly { readonly open: number }[]): boolean {
    const { made, expected } = this.#sums;
    const others = made - held(item, 'made') + expected;
    if (others + this.#resultOf(item, UNKNOWN_GROWTH) <= (this.#half * (1 + Math.min(1, way))) / 2) return true;
    this.#isWanted = true;
    if (expected <= 0 && behind.every(({ open }) => open === 0)) return true;
    this.#holdsBack(false);
    return false;
  }

  /** Whether the answer of an item has room. One alone always has, and so has a branch: others of its request may wait. */
  mayAnswer(item: Item): boolean {
    const others = this.#sums.leaving + this.#host.unsentBytes();
    if (item.parent || others === 0 || others + this.#resultOf(item, UNKNOWN_ANSWER) <= this.#half) return true;
    this.#isWanted = true;
    this.#holdsBack(false);
    this.#look();
    return false;
  }

  /** Keeps room for the result of an item that runs now, unless the item is a copy, or its request has ended. */
  expect(item: Item): void {
    if (item.memory.tag !== 'holds') return;
    const answers = !nextStage(item) && item.leg.following.length === 0;
    const bytes = this.#resultOf(item, answers ? UNKNOWN_ANSWER : UNKNOWN_GROWTH);
    const result = this.#charge(answers ? 'leaving' : 'expected', bytes);
    item.memory = { tag: 'runs', payload: item.memory.payload, result };
  }

  /** Forgets the expected result of an item. */
  stopped(item: Item): void {
    if (item.memory.tag !== 'runs') return;
    this.#free(item.memory.result);
    item.memory = { tag: 'holds', payload: item.memory.payload };
  }

  #charge(sum: Charge['sum'], bytes: number): Charge {
    this.#sums[sum] += bytes;
    return { sum, bytes };
  }

  #free({ sum, bytes }: Charge): void {
    this.#sums[sum] -= bytes;
  }

  #resultOf({ stage, payload }: Item, unknown: number): number {
    return stage.resultBytes(byteLengthOf(payload), this.#host.maxPayloadBytes, unknown);
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

/** Returns the bytes of an item's payload that are in a sum. */
function held({ memory }: Item, sum: Charge['sum']): number {
  return memory.tag !== 'none' && memory.payload.sum === sum ? memory.payload.bytes : 0;
}

/** Returns the bytes that a payload is likely to have at the end of its way. A stage that has made no result adds none. */
function grownOn({ stages, next }: LiveLeg, bytes: number, most: number): number {
  const made = stages.reduce((size, stage) => stage.resultBytes(size, most, UNKNOWN_ANSWER), bytes);
  if (!next) return made;
  if (next.kind === 'choice') return Math.max(...next.ways.map((way) => grownOn(way, made, most)));
  const branches = next.branches.map((branch) => grownOn(branch, made, most));
  const gathered =
    next.terms.mode === 'first' ? Math.max(...branches) : branches.reduce((sum, bytes) => sum + bytes, 0);
  return grownOn(next.after, Math.min(most, gathered), most);
}
