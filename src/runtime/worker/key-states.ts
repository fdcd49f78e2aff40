/**
 * The states of the keys that a worker serves, in a stage with keys. A state is made empty for the first item of a key,
 * and ends when the key has been idle, when the engine gives the key anew, and with the worker. It dies with its process.
 */
import type { ModeletDefinition } from '../../config/stage-definition.ts';
import type { Clock, Timer } from '../../core/clock.ts';
import { ModeletError } from '../../core/errors.ts';
import { MOST_KEYS, quoted } from '../../core/text.ts';
import { encodePayload } from '../../wire/codec/codec.ts';
import type { WireItem } from '../../wire/frames/items.ts';
import { failed, type ReplyLimits, reply } from './batch/replies.ts';
import type { KeyState, ModeletContext } from './modelet/modelet.ts';

const BYTES_PER_KB = 1024;

/** A key and its state, as its items see them. */
export class HeldKey {
  readonly key: string;
  /** Number of the key's stay at this worker; 0: the item has no key. */
  readonly tenure: number;
  usedAt = 0;
  /** Number of batches with an item of the key. */
  uses = 0;
  /** Whether code has asked for the state since it was checked. */
  isTouched = false;
  #state: KeyState = {};

  constructor(key: string, tenure: number) {
    this.key = key;
    this.tenure = tenure;
  }

  get state(): KeyState {
    this.isTouched = true;
    return this.#state;
  }

  set state(state: KeyState) {
    if (state === null || typeof state !== 'object') throw new TypeError('ctx.state must be an object');
    this.isTouched = true;
    this.#state = state;
  }
}

/** Adds to a context what items without a key get, in examples and trials: an empty state that is not kept. */
export function withoutKey(context: ModeletContext, items: number): ModeletContext {
  const states = Array.from({ length: items }, (): KeyState => ({}));
  const [state = {}] = states;
  return { ...context, key: '', state, keys: states.map(() => ''), states };
}

interface KeyStatesHost extends Pick<ModeletDefinition, 'keyIdleMs' | 'stateKb'> {
  readonly clock: Clock;
  /** Gives the modelet the state of a key for the last time. */
  onEnd(key: string, state: KeyState): unknown;
  /** Takes the error of `onEnd`. */
  onError(thrown: unknown): void;
}

export class KeyStates {
  readonly #host: KeyStatesHost;
  /** The key that was used last is at the end. */
  readonly #held: Map<string, HeldKey> = new Map();
  readonly #ending: Set<Promise<unknown>> = new Set();
  #timer: Timer | null = null;

  constructor(host: KeyStatesHost) {
    this.#host = host;
  }

  /** Returns the keys of the items of a batch, by request. Call `end` when the batch has run. */
  begin(items: readonly WireItem[]): Map<number, HeldKey> {
    const keys = new Map(items.map((item) => [item.id, this.#open(keyIn(item), item.tenure)]));
    for (const held of keys.values()) held.uses += 1;
    return keys;
  }

  /** Ends the batch. Fails the items that left a state which cannot be kept, and drops the state. */
  end(keys: ReadonlyMap<number, HeldKey>, items: readonly WireItem[], replies: WireItem[], limits: ReplyLimits): void {
    for (const held of keys.values()) {
      held.uses -= 1;
      held.usedAt = this.#host.clock.now();
    }
    for (const [index, item] of items.entries()) {
      const error = this.#check(keys.get(item.id));
      if (error && replies[index]?.ok) replies[index] = reply(item, failed(error), limits);
    }
    this.#endIdle();
  }

  /** Ends all keys. Resolves when the modelet has had all states. */
  async close(): Promise<void> {
    this.#timer?.cancel();
    for (const held of [...this.#held.values()]) this.#end(held);
    await Promise.all(this.#ending);
  }

  #open(key: string, tenure: number): HeldKey {
    if (tenure === 0 || key === '') return new HeldKey('', 0);
    const known = this.#held.get(key);
    const isOver = known && (known.tenure !== tenure || this.#isIdle(known));
    if (isOver) this.#end(known);
    const held = known && !isOver ? known : new HeldKey(key, tenure);
    this.#held.delete(key);
    this.#held.set(key, held);
    return held;
  }

  #check(held: HeldKey | undefined): ModeletError | null {
    if (!held?.isTouched) return null;
    held.isTouched = false;
    try {
      encodePayload(held.state, { blame: 'modelet_failed', maxBytes: this.#host.stateKb * BYTES_PER_KB });
      return null;
    } catch (thrown) {
      if (this.#held.get(held.key) === held) this.#held.delete(held.key);
      const { message } = thrown as Error;
      const of = `ctx.state of the key ${quoted(held.key)} cannot be kept, and is dropped: ${message}`;
      return new ModeletError('modelet_failed', of, { cause: thrown as Error });
    } finally {
      held.isTouched = false;
    }
  }

  #isIdle({ usedAt, uses }: HeldKey): boolean {
    return uses === 0 && this.#host.clock.now() - usedAt >= this.#host.keyIdleMs;
  }

  #endIdle(): void {
    for (const held of this.#held.values()) {
      if (held.uses > 0) continue;
      if (!this.#isIdle(held) && this.#held.size <= MOST_KEYS) break;
      this.#end(held);
    }
    this.#timer?.cancel();
    const [oldest] = this.#held.values();
    const due = this.#host.clock.now() + this.#host.keyIdleMs;
    const at = oldest && oldest.uses === 0 ? oldest.usedAt + this.#host.keyIdleMs : due;
    this.#timer = oldest ? this.#host.clock.at(at, () => this.#endIdle()) : null;
  }

  #end(held: HeldKey): void {
    this.#held.delete(held.key);
    const { key, state } = held;
    const ending = (async () => this.#host.onEnd(key, state))().catch((thrown) => this.#host.onError(thrown));
    this.#ending.add(ending);
    void ending.then(() => this.#ending.delete(ending));
  }
}

/** Returns the key of an item; blank if it has none. */
function keyIn({ meta }: WireItem): string {
  if (!meta) return '';
  try {
    const { key } = JSON.parse(Buffer.from(meta).toString()) as { key?: unknown };
    return typeof key === 'string' ? key : '';
  } catch {
    return '';
  }
}
