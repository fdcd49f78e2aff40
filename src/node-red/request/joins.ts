/**
 * Gathers the branches of messages. The branches of a message are the clones that Node-RED makes for several wires: they
 * share its `_msgid`. (Request ids will not do: callers may choose them, and a clone gets one only at its first stage.)
 */
import type { Node } from 'node-red';
import { systemClock } from '../../core/clock.ts';
import { ModeletError } from '../../core/errors.ts';
import type { PlannedJoin } from '../../flow/joins.ts';
import { branchesBehind } from '../../flow/walk.ts';
import { type Branch, type GatherCounts, type Gathered, Gathers, outcomesOf } from '../../runtime/desk/gathers.ts';
import type { Deployment } from '../deploy/deployment.ts';
import type { Feeds } from '../feed/feeds.ts';
import { holdLeases, type LeaseHold } from '../gate-port.ts';
import { flowsChanged, type RequestContext } from './context.ts';
import { deliverError, refuse } from './error-exit.ts';
import {
  continueTrace,
  type Done,
  forgetError,
  type ModeletTrace,
  type PipelineMessage,
  sendAlong,
  valueIn,
  withGather,
} from './messages.ts';

/** A branch's message while a gather holds it. */
interface HeldBranch {
  readonly msg: PipelineMessage;
  readonly leases: LeaseHold;
  /** Ends the message, at the node that sent it and at the paced split that it comes from. */
  readonly done: () => void;
}

interface NodeGathers {
  readonly revision: string;
  readonly gathers: Gathers<HeldBranch>;
}

export class Joins {
  readonly #context: () => RequestContext;
  readonly #feeds: Feeds;
  readonly #inEngine: (id: string) => number;
  readonly #onChange: () => void;
  readonly #byNode: Map<string, NodeGathers> = new Map();

  /**
   * @param inEngine returns how many requests the engine gathers for a node
   * @param onChange called when the counts of a node may have changed
   */
  constructor(context: () => RequestContext, feeds: Feeds, inEngine: (id: string) => number, onChange: () => void) {
    this.#inEngine = inEngine;
    this.#context = context;
    this.#feeds = feeds;
    this.#onChange = onChange;
  }

  counts(id: string): GatherCounts {
    const { pending, ...dropped } = this.#byNode.get(id)?.gathers.counts ?? { pending: 0, late: 0, duplicates: 0 };
    return { pending: pending + this.#inEngine(id), ...dropped };
  }

  /** Takes a message with the result of a branch. */
  take(node: Node, msg: PipelineMessage, done: Done): void {
    const context = this.#context();
    const { nodes } = context.deployment();
    const deployed = nodes.get(node.id);
    const join = deployed?.join;
    if (!join) {
      const reason = deployed?.invalid ?? 'the node is not deployed';
      refuse(context, node, msg, done, new ModeletError('config_invalid', reason));
      return;
    }
    if (join.terms.list) {
      const error = new ModeletError(
        'invalid_input',
        'the message is no item of a list: only the engine gathers these',
      );
      refuse(context, node, msg, done, error);
      return;
    }
    const last = this.#lastNode(msg) ?? '';
    const drawn = join.branches.get(last) ?? join.branches.get(nodes.get(last)?.base ?? '');
    const name = this.#keyOf(join, msg) ?? drawn;
    if (name === undefined) {
      refuse(context, node, msg, done, new ModeletError('invalid_input', unnamed(join)));
      return;
    }
    this.#add(node.id, join, { name, error: null, message: this.#hold(msg, done) });
  }

  /**
   * Takes an error as the outcome of every branch that the failing node leads to.
   * @returns false if the node cannot gather
   */
  failed(id: string, msg: PipelineMessage, error: ModeletError, failing: string): boolean {
    const { nodes, graph } = this.#context().deployment();
    const join = nodes.get(id)?.join;
    if (!join || join.terms.list) return false;
    const key = this.#keyOf(join, msg);
    const ends = branchesBehind(graph, failing, [...join.branches.keys()]);
    const names =
      key === undefined
        ? inOrder(
            join,
            ends.map((end) => join.branches.get(end) as string),
          )
        : [key];
    if (names.length === 0) return false;
    const message = this.#hold(msg, this.#feeds.waiterFor(msg) ?? (() => {}));
    const { gathers } = this.#gatheringOf(id, join);
    for (const name of names) {
      this.#add(id, join, { name, error, message });
      // The first of several branches may have settled the gather; the others are not late.
      if (!gathers.isPending(gatherOf(id, msg))) break;
    }
    return true;
  }

  /** Call after a deploy: ends the gathers of nodes that are gone, or have other settings or branches. */
  tidy(nodes: Deployment['nodes']): void {
    const error = flowsChanged();
    for (const [id, { revision, gathers }] of [...this.#byNode]) {
      const now = nodes.get(id)?.join?.revision;
      if (now === revision) continue;
      // Branches of the gathers that end here, and of earlier ones, are still late.
      if (now === undefined) this.#byNode.delete(id);
      else this.#byNode.set(id, { revision: now, gathers });
      gathers.failAll(error);
    }
  }

  failAll(error: ModeletError): void {
    for (const { gathers } of this.#byNode.values()) gathers.failAll(error);
    this.#byNode.clear();
  }

  #keyOf({ config: { key } }: PlannedJoin, msg: PipelineMessage): string | undefined {
    if (key === '') return undefined;
    const value = valueIn(this.#context().RED, msg, key);
    return typeof value === 'string' || typeof value === 'number' ? String(value) : undefined;
  }

  /** Returns the stage, or the node that gathered branches, that last had the message. */
  #lastNode({ modelet }: PipelineMessage): string | undefined {
    const gathered = Object.entries(modelet?.gathers ?? {}).at(-1);
    if (gathered && gathered[1].stages === modelet?.stages.length) return gathered[0];
    return this.#context()
      .deployment()
      .stageIds.get(modelet?.stages.at(-1)?.name ?? '');
  }

  #hold(msg: PipelineMessage, done: () => void): HeldBranch {
    let isDone = false;
    const once = (): void => {
      if (!isDone) done();
      isDone = true;
    };
    return { msg, leases: holdLeases(this.#context().gates(), msg), done: once };
  }

  #add(id: string, join: PlannedJoin, branch: Branch<HeldBranch>): void {
    const { msg } = branch.message;
    const { gathers } = this.#gatheringOf(id, join);
    const gather = gatherOf(id, msg);
    if (gathers.has(gather) || !isAnswered(msg)) {
      if (!gathers.has(gather)) this.#open(id, join, gather, msg);
      if (gathers.add(gather, branch) !== 'taken') release(branch.message);
    } else {
      gathers.countLate();
      release(branch.message);
    }
    this.#onChange();
  }

  #gatheringOf(id: string, { revision }: PlannedJoin): NodeGathers {
    const gathering = this.#byNode.get(id) ?? { revision, gathers: new Gathers<HeldBranch>(systemClock) };
    this.#byNode.set(id, gathering);
    return gathering;
  }

  #open(id: string, join: PlannedJoin, gather: string, msg: PipelineMessage): void {
    const { clients } = this.#context();
    const { gathers } = this.#gatheringOf(id, join);
    const limit = systemClock.now() + join.config.timeoutMs;
    // The client's disconnect may be reported from within `watch`'s next turn, and then there is a gather to drop.
    const stopWatching = clients.watch(msg, () => {
      for (const { message } of gathers.drop(gather)) release(message);
      this.#onChange();
    });
    gathers.open(gather, join.terms, Math.min(limit, msg.modelet?.deadline ?? limit), (gathered) => {
      stopWatching();
      this.#context().whenRunning(() => this.#settled(id, join, gathered));
      this.#onChange();
    });
  }

  #settled(id: string, join: PlannedJoin, { branches, missing, error }: Gathered<HeldBranch>): void {
    const results = branches.filter((branch) => !branch.error);
    const base = (error ? branches.find((branch) => branch.error) : results[0]) ?? branches[0];
    if (!base) return;
    const { msg } = base.message;
    const trace = this.#traceOf(
      id,
      msg,
      branches.map(({ message }) => message.msg),
    );
    msg.branches = outcomesOf({ branches, missing });
    for (const { message } of branches) if (message !== base.message) release(message);
    if (error) this.#fail(id, base.message, trace, error);
    else this.#send(id, base.message, trace, join.config.mode === 'first' ? msg.payload : byName(join, results));
  }

  #send(id: string, held: HeldBranch, trace: ModeletTrace, payload: unknown): void {
    const context = this.#context();
    const { msg } = held;
    const node = context.live.get(id)?.node;
    if (!node || context.isStopped()) {
      this.#fail(id, held, trace, flowsChanged());
      return;
    }
    forgetError(msg);
    msg.payload = payload;
    const error = sendAlong(this.#context().RED, node, msg, 'modelet_failed');
    if (error) {
      this.#fail(id, held, trace, error);
      return;
    }
    held.leases.leave();
    held.done();
  }

  #fail(id: string, { msg, leases, done }: HeldBranch, trace: ModeletTrace, error: ModeletError): void {
    leases.end(error);
    deliverError(this.#context(), { msg, trace, done }, error, id, trace.input ?? msg.payload);
  }

  /** Returns the trace of a gathered message: it has the stages of all branches. */
  #traceOf(id: string, msg: PipelineMessage, all: readonly PipelineMessage[]): ModeletTrace {
    const trace = continueTrace(msg, Number.POSITIVE_INFINITY);
    const gathers = { ...trace.gathers };
    for (const other of all) {
      if (other === msg || !other.modelet) continue;
      const shared = other.modelet.stages.findIndex((at, index) => !isSame(at, trace.stages[index]));
      if (shared >= 0) trace.stages.push(...other.modelet.stages.slice(shared));
    }
    for (const { modelet } of all) {
      for (const [at, gathered] of Object.entries(modelet?.gathers ?? {})) {
        if (gathered.times > (gathers[at]?.times ?? 0)) gathers[at] = gathered;
      }
    }
    trace.totalMs = systemClock.now() - trace.startedAt;
    trace.gathers = withGather(gathers, id, trace.stages.length);
    return trace;
  }
}

/** Returns the id of a message's gather: clones share it, and a message that comes back in a loop has another. */
function gatherOf(id: string, { _msgid, modelet }: PipelineMessage): string {
  return `${_msgid} ${modelet?.gathers?.[id]?.times ?? 0}`;
}

/** Whether the client has its answer, so that nothing can come of the message. */
function isAnswered({ res }: PipelineMessage): boolean {
  return res?._res?.writableEnded === true;
}

function release({ leases, done }: HeldBranch): void {
  leases.leave();
  done();
}

function unnamed({ config: { key } }: PlannedJoin): string {
  return key === ''
    ? 'the message comes from no branch with a modelet stage: name the branches by a key'
    : `the message comes from an unknown branch: msg.${key} is no text and no number`;
}

function byName(join: PlannedJoin, results: readonly Branch<HeldBranch>[]): object {
  const payloads = new Map(results.map(({ name, message }) => [name, message.msg.payload]));
  return Object.fromEntries(inOrder(join, [...payloads.keys()]).map((name) => [name, payloads.get(name)]));
}

/** Sorts branches as they are drawn; those that only messages know keep their order. */
function inOrder({ terms }: PlannedJoin, names: readonly string[]): string[] {
  return [...names].sort((a, b) => terms.names.indexOf(a) - terms.names.indexOf(b));
}

/** Clones of a timing are equal in all fields. */
function isSame(a: object, b: object | undefined): boolean {
  return JSON.stringify(a) === JSON.stringify(b);
}
