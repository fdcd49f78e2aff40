/**
 * The states of the keys that a worker serves, in a stage with keys. A state is made empty for the first item of a key, or
 * from the snapshot that the engine has. It ends when the key has been idle, when an item says so, when the engine gives the
 * key anew, and with the worker. It dies with its process; if the stage keeps snapshots, its replies bring them.
 */
import type { ModeletDefinition } from '../../config/stage-definition.ts';
import type { Clock, Timer } from '../../core/clock.ts';
import { ModeletError } from '../../core/errors.ts';
import type { RequestNumber } from '../../core/model.ts';
import { MOST_KEYS, quoted } from '../../core/text.ts';
import { decodePayload, encodePayload } from '../../wire/codec/codec.ts';
import type { WireItem } from '../../wire/frames/items.ts';
import { keyIn, NO_STATE, SNAPSHOTS_ROOM, snapshotOf, stateIn, type WireKey } from '../../wire/frames/key-snapshots.ts';
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
  /** The item after which the state ends; null: no item yet says so. */
  endsWith: RequestNumber | null = null;
  /** Whether code has asked for the state since it was checked. */
  isTouched = false;
  #state: KeyState;

  constructor(key: string, tenure: number, state: KeyState = {}) {
    this.key = key;
    this.tenure = tenure;
    this.#state = state;
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

interface KeyStatesHost extends Pick<ModeletDefinition, 'keyIdleMs' | 'stateKb' | 'keySnapshotMb'> {
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
    return new Map(items.map((item) => [item.id, this.#open(item)]));
  }

  /** Ends the batch. Fails the items that left a state which cannot be kept, and drops the state. */
  end(keys: ReadonlyMap<number, HeldKey>, items: readonly WireItem[], replies: WireItem[], limits: ReplyLimits): void {
    for (const held of keys.values()) {
      held.uses -= 1;
      held.usedAt = this.#host.clock.now();
    }
    let room = SNAPSHOTS_ROOM;
    for (const [index, item] of items.entries()) {
      const held = keys.get(item.id);
      if (!held || held.key === '') continue;
      const { error, snapshot } = this.#checked(held, room);
      if (error && replies[index]?.ok) replies[index] = reply(item, failed(error), limits);
      room -= snapshot?.byteLength ?? 0;
      const isOver = held.endsWith === item.id && this.#held.get(held.key) === held;
      if (isOver) this.#end(held);
      (replies[index] as WireItem).meta = isOver ? NO_STATE : snapshot;
    }
    this.#endIdle();
  }

  /** Ends all keys. Resolves when the modelet has had all states. */
  async close(): Promise<void> {
    this.#timer?.cancel();
    for (const held of [...this.#held.values()]) this.#end(held);
    await Promise.all(this.#ending);
  }

  #open(item: WireItem): HeldKey {
    const { tenure } = item;
    const of = keyIn(item);
    const { key } = of;
    if (tenure === 0 || key === '') return new HeldKey('', 0);
    const known = this.#held.get(key);
    const isOver = known && (known.tenure !== tenure || of.begins || of.state !== '' || this.#isIdle(known));
    if (isOver) this.#end(known);
    const held = known && !isOver ? known : this.#begun(of, tenure);
    this.#held.delete(key);
    this.#held.set(key, held);
    held.uses += 1;
    if (of.ends) held.endsWith = item.id;
    return held;
  }

  #begun(of: WireKey, tenure: number): HeldKey {
    try {
      const state = of.begins ? null : stateIn(of);
      if (state) return new HeldKey(of.key, tenure, decodePayload(state) as KeyState);
    } catch (thrown) {
      this.#host.onError(thrown);
    }
    const held = new HeldKey(of.key, tenure);
    // The engine may have a snapshot of an earlier state.
    held.isTouched = this.#host.keySnapshotMb > 0;
    return held;
  }

  /** Returns the snapshot of a state that may have changed, or why it cannot be kept. @param room most bytes of the snapshot */
  #checked(held: HeldKey, room: number): { readonly error: ModeletError | null; readonly snapshot: Uint8Array | null } {
    if (!held.isTouched) return { error: null, snapshot: null };
    try {
      const most = this.#host.stateKb * BYTES_PER_KB;
      const isKept = this.#host.keySnapshotMb > 0;
      const maxBytes = isKept ? Math.min(most, room) : most;
      const state = encodePayload(held.state, { blame: 'modelet_failed', maxBytes });
      return { error: null, snapshot: isKept ? snapshotOf(state) : null };
    } catch (thrown) {
      if (this.#held.get(held.key) === held) this.#held.delete(held.key);
      const { message } = thrown as Error;
      const of = `ctx.state of the key ${quoted(held.key)} cannot be kept, and is dropped: ${message}`;
      return { error: new ModeletError('modelet_failed', of, { cause: thrown as Error }), snapshot: NO_STATE };
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
