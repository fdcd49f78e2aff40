/**
 * Forks an item: copies of it pass the branches at the same time, and the item goes on with their results when these are
 * enough, as at a node that gathers branches in Node-RED. Branches that are not needed any more are cancelled.
 */
import { type Clock, type Deadline, systemClock } from '../../../core/clock.ts';
import { asModeletError, type ModeletError } from '../../../core/errors.ts';
import type { Payload, RequestNumber } from '../../../core/model.ts';
import type { GatherReport } from '../../../core/routes/gather.ts';
import { CODEC, joinPayloads } from '../../../wire/codec/codec.ts';
import { decodeFailure } from '../../../wire/frames/failures.ts';
import { Gather, type Gathered, outcomesOf } from '../../desk/gathers.ts';
import { type Branches, type Item, itemOn, type LiveFork, type LiveLeg, MOVING } from '../stage/item.ts';

export interface ForksHost {
  readonly clock: Clock;
  /** Largest payload of a stage, in bytes. */
  readonly maxPayloadBytes: number;
  /** The branches of one more request, or of one fewer, are in progress to a node that gathers them. */
  onGathering(node: number, change: 1 | -1): void;
  /** Returns the number of a new item of the engine's own. */
  nextNumber(): RequestNumber;
  /** Opens a branch, and sends it on its way. */
  begin(branch: Item, leg: LiveLeg): void;
  /** Ends a branch whose result is no longer wanted. */
  drop(branch: Item): void;
  /** Forgets the value of a branch, which counts as long as it waits for the others. */
  release(branch: Item): void;
  gathered(item: Item, fork: LiveFork, value: Payload): void;
  /** The branches were not enough. @param input the value that the failing stage got; null if the server has it */
  failed(item: Item, error: ModeletError, input: Payload | null): void;
}

/** A branch at its end: its value, or its failure. */
interface EndedBranch {
  readonly item: Item;
  readonly payload: Payload;
}

/** The server ends a request at its deadline. A gather ends before, in ms, so that the results there are can leave. */
const BEFORE_DEADLINE_MS = 20;

/** Sends copies of an item through the branches of a fork. */
export function fork(item: Item, at: LiveFork, host: ForksHost): void {
  const branches = new OpenFork(item, at, host);
  item.state = { tag: 'forked', branches };
  branches.begin();
}

/** Returns the end of a fork that an item cannot reach, because a stage in front of it has failed. */
export function failedBefore(item: Item, { terms, gather: node }: LiveFork, error: ModeletError): ModeletError {
  if (terms.list) {
    // No item of the list has begun.
    item.gathered = gatherReport(item, { node, failed: true }, {}, []);
    return error;
  }
  let end = error;
  const gather = new Gather<null>(terms, systemClock, Number.POSITIVE_INFINITY, (gathered) => {
    item.gathered = gatherReport(item, { node, failed: gathered.error !== null }, outcomesOf(gathered), []);
    end = gathered.error ?? error;
  });
  for (const name of terms.names) if (gather.isPending) gather.add({ name, message: null, error });
  return end;
}

class OpenFork implements Branches {
  readonly #item: Item;
  readonly #fork: LiveFork;
  readonly #host: ForksHost;
  /** Names of the branches that are on their way. */
  readonly #open: Map<Item, string> = new Map();
  /** Branches whose values wait for the others. */
  readonly #kept: Item[] = [];
  /** null: no branch has come yet. */
  #gather: Gather<EndedBranch> | null = null;
  #isWanted = true;

  constructor(item: Item, at: LiveFork, host: ForksHost) {
    this.#item = item;
    this.#fork = at;
    this.#host = host;
  }

  begin(): void {
    const { branches, terms, gather } = this.#fork;
    // The request may be answered before a branch has ended.
    this.#item.payload.chunks?.share();
    this.#host.onGathering(gather, 1);
    for (const [index, leg] of branches.entries()) {
      // The first branches may have ended already: a full queue refuses an item at once.
      if (!this.#isWanted) return;
      const branch = itemOn(leg, this.#item, this.#host.nextNumber(), this.#item);
      this.#open.set(branch, terms.names[index] ?? String(index));
      this.#host.begin(branch, leg);
    }
  }

  came(branch: Item, payload: Payload, error: ModeletError | null): void {
    const name = this.#open.get(branch);
    const isKept = name !== undefined && this.#isWanted && !error;
    if (isKept) this.#kept.push(branch);
    else this.#host.release(branch);
    if (name === undefined || !this.#isWanted) return;
    this.#open.delete(branch);
    if (error?.code === 'bad_request' && !branch.passed && branch.payload.codec === CODEC.jsonText) {
      // The client's JSON cannot be read. In a flow, no branch would have begun.
      this.#end();
      this.#host.failed(this.#item, error, null);
      return;
    }
    this.#gather ??= new Gather(
      this.#fork.terms,
      this.#host.clock,
      latestGather(this.#host.clock, this.#fork, this.#item),
      (gathered) => this.#settled(gathered),
    );
    this.#gather.add({ name, message: { item: branch, payload }, error });
  }

  drop(): void {
    if (this.#isWanted) this.#host.onGathering(this.#fork.gather, -1);
    this.#isWanted = false;
    this.#gather?.drop();
    for (const branch of this.#open.keys()) this.#host.drop(branch);
    this.#open.clear();
    for (const branch of this.#kept.splice(0)) this.#host.release(branch);
  }

  #end(): void {
    this.drop();
    this.#item.state = MOVING;
  }

  #settled(gathered: Gathered<EndedBranch>): void {
    this.#end();
    const { branches } = gathered;
    const results = branches.filter(({ error }) => !error);
    const base = gathered.error ? branches.find(({ error }) => error) : results[0];
    const inOrder = [...branches].sort((a, b) => Number(b === base) - Number(a === base));
    const ended = inOrder.map(({ message }) => message.item);
    const at = { node: this.#fork.gather, failed: gathered.error !== null };
    this.#item.gathered = gatherReport(this.#item, at, outcomesOf(gathered), ended);
    try {
      if (gathered.error) throw gathered.error;
      this.#host.gathered(
        this.#item,
        this.#fork,
        this.#valueOf(new Map(results.map(({ name, message }) => [name, message.payload]))),
      );
    } catch (thrown) {
      const failed = base?.error ? decodeFailure(base.message.payload).input : null;
      this.#host.failed(this.#item, asModeletError(thrown, 'modelet_failed'), failed);
    }
  }

  /** @throws ModeletError if the results are too large for the next stage */
  #valueOf(results: ReadonlyMap<string, Payload>): Payload {
    const { terms, after } = this.#fork;
    const [first] = results.values();
    if (terms.mode === 'first' && first) return first;
    const maxBytes =
      after.following.length + after.stages.length > 0 ? this.#host.maxPayloadBytes : Number.POSITIVE_INFINITY;
    const parts = terms.names.flatMap((name) => {
      const value = results.get(name);
      return value ? [[name, value] as const] : [];
    });
    return joinPayloads(parts, { blame: 'invalid_input', maxBytes });
  }
}

/** Returns the time at which the gather of an item ends, even if outcomes are missing. */
export function latestGather(clock: Clock, { timeoutMs }: LiveFork, item: Item): Deadline {
  return Math.min(clock.now() + timeoutMs, item.deadline - BEFORE_DEADLINE_MS);
}

/** Adds the timings of the branches to the item's, and returns what its gathering nodes have done so far. */
export function gatherReport(
  item: Item,
  { node, failed }: { readonly node: number; readonly failed: boolean },
  branches: GatherReport['branches'],
  ended: readonly Item[],
): GatherReport {
  const inBranches = ended.flatMap((branch) => {
    const before = item.timings.length;
    item.timings.push(...branch.timings);
    return (branch.gathered?.gathered ?? []).map((inner) => ({ ...inner, passed: before + inner.passed }));
  });
  return {
    gathered: [
      ...(item.gathered?.gathered ?? []),
      ...inBranches,
      { node, passed: item.timings.length, branches: ended.map(({ timings }) => timings.length) },
    ],
    branches,
    failed: failed ? node : null,
  };
}
