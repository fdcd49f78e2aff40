/**
 * Follows the wires behind an entry as far as the engine can take an item: from stage to stage, through a fan-out whose
 * branches a node gathers, and through a switch node. Pure.
 */
import type { Batching } from '../core/model.ts';
import { type Choice, type Fork, type Leg, stagesOf } from '../core/routes/route.ts';
import { againstReads, costPropertyOf, type EntryReads, NO_READS, withStage } from './entry-reads.ts';
import {
  type Graph,
  type GraphNode,
  type HttpInNode,
  isStep,
  type JoinNode,
  type StageNode,
  type SwitchNode,
} from './graph.ts';
import { againstBranches, againstItems, type PlannedJoin } from './joins.ts';
import { describe, describeAll } from './names.ts';
import { wholeUse } from './versions.ts';
import { type Target, targetsOf } from './walk.ts';

/** A leg, and how it ends. */
export interface Trail {
  readonly leg: Leg<string>;
  /** The node that sends the result: the last stage, or the node that gathered last. Null on a leg without either. */
  readonly exit: StageNode | JoinNode | null;
  /** Nodes that also get a value of a stage, or of a node that gathers, by that node. */
  readonly taps: ReadonlyMap<string, readonly string[]>;
  readonly reads: EntryReads;
  /** Reason why the leg ends, for people. */
  readonly end: string;
  /** Whether another stage or batcher follows, which `end` keeps out of the leg. */
  readonly unfused: boolean;
  /** The nodes at whose wires the leg ends: one of them, unless it ends in one of several ways. */
  readonly senders: readonly string[];
  /** The nodes behind the leg. */
  readonly targets: readonly Target[];
}

/** The node that a leg goes on from. */
interface Sender {
  readonly node: StageNode | JoinNode | HttpInNode;
  /** Message property that holds the value. */
  readonly output: string;
  readonly runtime: string;
}

/** The nodes that the route has passed so far. */
interface PathSoFar {
  readonly reads: EntryReads;
  /** All nodes, to notice circles. */
  readonly nodes: readonly string[];
  /** The stages of the present leg. */
  readonly leg: readonly string[];
}

interface ConfiguredGraph {
  readonly graph: Graph;
  /** Usable nodes that gather branches. */
  readonly joins: ReadonlyMap<string, PlannedJoin>;
  /** Reasons why nodes cannot be used. */
  readonly invalid: ReadonlyMap<string, string>;
  /** Returns the first stage of a message that enters a node; undefined if none is behind it. */
  readonly stageBehind: (node: GraphNode) => StageNode | undefined;
  readonly batching: ReadonlyMap<string, Batching>;
}

/** Most ways of one route. Each switch node multiplies them. */
const MOST_WAYS = 64;

const NOTHING_PASSED: PathSoFar = { reads: NO_READS, nodes: [], leg: [] };

export class Legs {
  readonly #drawn: ConfiguredGraph;
  #ways = 0;
  /** Why the engine cannot gather what a node fans out, by the node: no other way to the node need try again. */
  readonly #unforked: Map<string, string> = new Map();
  readonly #unlisted: Map<string, string> = new Map();
  /** Why the engine cannot gather the items of lists at some nodes. */
  readonly unlisted: ReadonlyMap<string, string> = this.#unlisted;

  constructor(drawn: ConfiguredGraph) {
    this.#drawn = drawn;
  }

  /** Returns the leg that begins with a stage. */
  from(first: StageNode): Trail {
    this.#reset();
    return this.#from(first, NOTHING_PASSED);
  }

  /**
   * Returns the leg behind an HTTP-in node if it begins with a fork or a choice, and its runtime. Null if nothing forks
   * there; the reason if something does, and only Node-RED can follow it.
   */
  behind(httpIn: HttpInNode): { readonly trail: Trail; readonly runtime: string } | string | null {
    this.#reset();
    const { graph, stageBehind } = this.#drawn;
    const targets = targetsOf(graph, httpIn);
    const forks = targets.filter((node) => isStep(node) || node.kind === 'join').length > 1;
    if (!forks && !targets.some(({ kind }) => kind === 'switch')) return null;
    const past = targets.flatMap((node) =>
      node.kind === 'switch' ? node.wires.flatMap((_, output) => targetsOf(graph, node, output)) : [node],
    );
    const runtime = past.flatMap((node) => stageBehind(node) ?? [])[0]?.runtime;
    if (runtime === undefined) return null;
    const trail = this.#after({ node: httpIn, output: 'payload', runtime }, NOTHING_PASSED);
    if (trail.leg.stages.length > 0 || !trail.leg.next) return trail.end;
    return trail.taps.has(httpIn.id)
      ? 'its requests also go to another node in front of the first stage'
      : { trail, runtime };
  }

  #reset(): void {
    this.#ways = 0;
    this.#unforked.clear();
  }

  #from(stage: StageNode, { reads, nodes, leg }: PathSoFar): Trail {
    const sender: Sender = { node: stage, output: stage.output, runtime: stage.runtime };
    const ofStage = withStage(reads, stage, this.#costBy(stage));
    const passed = { reads: ofStage, nodes: [...nodes, stage.id], leg: [...leg, stage.id] };
    const alone = this.#alone(sender, stage.id, passed);
    const trail = alone ?? (stage.emits === 'list' ? this.#each(sender, passed) : this.#after(sender, passed));
    return { ...trail, leg: { ...trail.leg, stages: [stage.id, ...trail.leg.stages] } };
  }

  /** Returns the end of a leg behind a stage whose code has whole messages; null for other stages. */
  #alone(sender: Sender, stage: string, passed: PathSoFar): Trail | null {
    const { graph } = this.#drawn;
    const use = wholeUse(graph, stage);
    if (use === null) return null;
    const targets = targetsOf(graph, sender.node);
    return ended(sender, passed, targets, `${use}, so its messages are Node-RED’s`, targets.some(isStep));
  }

  #after(sender: Sender, passed: PathSoFar): Trail {
    const targets = targetsOf(this.#drawn.graph, sender.node);
    const stages = targets.filter(isStep);
    const [first, ...others] = stages;
    if (!first) {
      const [chooser, ...more] = targets.filter((target) => target.kind === 'switch');
      return chooser && more.length === 0
        ? this.#choose(sender, chooser, targets, passed)
        : ended(sender, passed, targets, describeAll(targets), false);
    }
    const branches = targets.filter((target) => isStep(target) || target.kind === 'join');
    const forked =
      branches.length > 1 ? (this.#unforked.get(sender.node.id) ?? this.#fork(sender, branches, passed)) : '';
    if (typeof forked !== 'string') return watchedBy(forked, sender, targets, branches);
    if (branches.length > 1) this.#unforked.set(sender.node.id, forked);
    if (others.length > 0)
      return ended(sender, passed, targets, `its output goes to ${stages.length} stages: ${forked}`, true);
    const next = this.#next(sender, first, passed);
    if (typeof next === 'string') return ended(sender, passed, targets, next, true);
    return watchedBy(this.#from(next, passed), sender, targets, [first]);
  }

  /** Returns the stage that can follow a node, or the reason why none can. */
  #next({ node, output, runtime }: Sender, target: Target, { reads, nodes }: PathSoFar): StageNode | string {
    if (node.watched) return 'a Complete node watches it';
    const { invalid } = this.#drawn;
    const next = this.#drawn.stageBehind(target);
    const broken = invalid.get(target.id) ?? (next && invalid.get(next.id));
    if (!next || broken !== undefined) return `the next node cannot be used: ${broken ?? 'a batcher without a stage'}`;
    if (next.watched) return `a Complete node watches stage ${next.name}, which has to take messages in itself`;
    if (next.runtime !== runtime) return `stage ${next.name} belongs to another runtime`;
    const use = wholeUse(this.#drawn.graph, next.id);
    if (use !== null) return `${use}, and only Node-RED has whole messages`;
    if (next.input !== output) return `stage ${next.name} reads msg.${next.input}, this one writes msg.${output}`;
    if (nodes.includes(next.id)) return `its results lead back to stage ${next.name}`;
    return againstReads(this.#drawn.graph, next, this.#costBy(next), reads, nodes) ?? next;
  }

  #costBy({ id }: StageNode): string {
    return costPropertyOf(this.#drawn.batching.get(id));
  }

  /** Returns the leg that begins with a fork, or the reason why the engine cannot gather the branches. */
  #fork(sender: Sender, entries: readonly Target[], passed: PathSoFar): Trail | string {
    const branches: Trail[] = [];
    let { reads } = passed;
    for (const entry of entries) {
      const at = { ...passed, reads, leg: [] };
      const next = entry.kind === 'join' ? null : this.#next(sender, entry, at);
      if (typeof next === 'string') return next;
      const branch = next ? this.#from(next, at) : ended(sender, at, [entry], '', false);
      ({ reads } = branch);
      branches.push(branch);
    }
    const [gather, ...others] = new Set(branches.flatMap(({ targets }) => targets.filter(isJoin)));
    if (!gather || others.length > 0) return 'no single node gathers their results';
    const apart = branches.find(({ targets }) => !targets.includes(gather));
    if (apart) return `a branch does not lead straight to the node that gathers them: ${apart.end}`;
    const planned = this.#drawn.joins.get(gather.id);
    if (!planned) return 'the node that gathers them cannot be used';
    const against = againstBranches(this.#drawn.graph, gather, planned, branches, passed.leg);
    if (against !== null) return against;
    if (passed.nodes.includes(gather.id)) return 'the branches are gathered in a loop';
    return this.#gathered(sender, planned, gather, branches, passed.nodes);
  }

  /**
   * Returns the leg behind a stage that emits lists: the way of each item, up to the node that gathers the results.
   * Without such a node, the list goes on whole.
   */
  #each(sender: Sender, passed: PathSoFar): Trail {
    const branch = this.#after(sender, passed);
    const [gather, ...others] = branch.targets.filter(isJoin).filter(endsLists);
    if (!gather) return branch;
    const planned = this.#drawn.joins.get(gather.id);
    const against =
      others.length > 0 || !planned
        ? 'no single usable node gathers its items'
        : againstItems(this.#drawn.graph, gather, branch, passed);
    if (!planned || against !== null) {
      this.#unlisted.set(gather.id, against ?? '');
      const targets = targetsOf(this.#drawn.graph, sender.node);
      return ended(sender, passed, targets, `the engine cannot gather the items of its lists: ${against}`, true);
    }
    return this.#gathered(sender, planned, gather, [branch], passed.nodes);
  }

  /** Returns the leg from a fork, whose branches a node gathers, to what follows that node. @param nodes all before the fork */
  #gathered(
    { runtime }: Sender,
    { config, terms, branches: drawn }: PlannedJoin,
    gather: JoinNode,
    branches: readonly Trail[],
    nodes: readonly string[],
  ): Trail {
    const after = this.#after(
      { node: gather, output: 'payload', runtime },
      {
        // Each branch has the reads of those before it.
        reads: branches.at(-1)?.reads ?? NO_READS,
        nodes: [...nodes, ...branches.flatMap(({ leg }) => stagesOf(leg)), gather.id],
        leg: [],
      },
    );
    const placeOf = ({ senders: [end = ''] }: Trail): number => terms.names.indexOf(drawn.get(end) ?? end);
    const inOrder = [...branches].sort((a, b) => placeOf(a) - placeOf(b));
    const next: Fork<string> = {
      kind: 'fork',
      gather: gather.id,
      terms,
      timeoutMs: config.timeoutMs,
      branches: inOrder.map(({ leg }) => leg),
      after: after.leg,
    };
    const ends = branches.flatMap(({ senders, targets }) => senders.map((end) => tapsAt(end, targets, [gather])));
    const taps = merged([...ends, ...branches.map((branch) => branch.taps), after.taps]);
    return { ...after, leg: { stages: [], next }, taps };
  }

  /** Returns the leg that begins with a choice, or that ends here because the engine cannot choose. */
  #choose(sender: Sender, chooser: SwitchNode, targets: readonly Target[], passed: PathSoFar): Trail {
    const leads = chooser.wires.some((_, output) => targetsOf(this.#drawn.graph, chooser, output).some(isStep));
    if (!leads) return ended(sender, passed, targets, describeAll(targets), false);
    const chosen = this.#choice(sender, chooser, passed);
    return typeof chosen === 'string'
      ? ended(sender, passed, targets, `its output goes to a switch node: ${chosen}`, true)
      : watchedBy(chosen, sender, targets, [chooser]);
  }

  #choice(sender: Sender, chooser: SwitchNode, passed: PathSoFar): Trail | string {
    if (chooser.fault !== null) return chooser.fault;
    if (sender.node.watched || chooser.watched) return 'a Complete node watches it, or the node before it';
    if (sender.output !== 'payload') return `it looks at msg.payload, and the result is msg.${sender.output}`;
    this.#ways += chooser.rules.length - 1;
    if (this.#ways > MOST_WAYS) return `the route would have more than ${MOST_WAYS} ways`;
    const ways: Trail[] = [];
    let { reads } = passed;
    for (const output of chooser.rules.keys()) {
      const way = this.#way(sender, chooser, output, { ...passed, reads, leg: [] });
      if (typeof way === 'string') return way;
      ({ reads } = way);
      ways.push(way);
    }
    const [first, ...others] = ways.filter(({ exit }) => exit !== null);
    if (!first) return 'none of its outputs leads to a stage';
    // The body of the request would be the answer, as it came.
    if (sender.node.kind === 'http in' && others.length < ways.length - 1)
      return 'one of its outputs leads past all stages';
    const apart = ways.find(({ targets }) => idsOf(targets) !== idsOf(first.targets));
    if (apart) return `its ways end at different nodes: ${first.end}, and ${apart.end}`;
    if (others.some(({ exit }) => outputOf(exit) !== outputOf(first.exit)))
      return 'its ways write different properties';
    const { path, rules } = chooser;
    const next: Choice<string> = { kind: 'choice', path, rules, ways: ways.map(({ leg }) => leg) };
    return {
      ...first,
      leg: { stages: [], next },
      taps: merged(ways.map(({ taps }) => taps)),
      reads,
      senders: [...new Set(ways.flatMap(({ senders }) => senders))],
    };
  }

  /** Returns the leg behind one output of a switch node. */
  #way(sender: Sender, chooser: SwitchNode, output: number, passed: PathSoFar): Trail | string {
    const targets = targetsOf(this.#drawn.graph, chooser, output);
    const [first, ...others] = targets;
    if (!first) return `its output ${output + 1} leads nowhere`;
    const isPlain = !targets.some((target) => isStep(target) || target.kind === 'switch');
    // The item passes this way as it is, to the nodes at which the other ways end.
    if (isPlain) {
      const end = `one of them ${describeAll(targets).replace(/^its output /, '')}`;
      return ended({ node: chooser }, passed, targets, end, false);
    }
    if (others.length > 0) return `its output ${output + 1} goes to ${targets.map(describe).join(' and ')}`;
    const next = this.#next(sender, first, passed);
    return typeof next === 'string' ? next : this.#from(next, passed);
  }
}

type Taps = ReadonlyMap<string, readonly string[]>;
const NO_TAPS: Taps = new Map();

function isJoin(node: GraphNode): node is JoinNode {
  return node.kind === 'join';
}

function endsLists({ settings }: JoinNode): boolean {
  return settings?.mode === 'list';
}

/** Returns the end of a leg behind a node. A switch node passes items on, but has no result. */
function ended(
  { node }: { readonly node: Sender['node'] | SwitchNode },
  { reads }: PathSoFar,
  targets: readonly Target[],
  end: string,
  unfused: boolean,
): Trail {
  const exit = node.kind === 'http in' || node.kind === 'switch' ? null : node;
  const leg: Leg<string> = { stages: [], next: null };
  return { leg, exit, taps: NO_TAPS, reads, end, unfused, senders: [node.id], targets };
}

/** Adds the nodes that get the sender's value besides the next step. */
function watchedBy(trail: Trail, { node }: Sender, targets: readonly Target[], steps: readonly Target[]): Trail {
  return { ...trail, taps: merged([tapsAt(node.id, targets, steps), trail.taps]) };
}

function tapsAt(id: string, targets: readonly Target[], steps: readonly Target[]): Taps {
  const lookers = targets.filter((target) => !steps.includes(target)).map((target) => target.id);
  return lookers.length > 0 ? new Map([[id, lookers]]) : NO_TAPS;
}

function merged(all: readonly Taps[]): Taps {
  return new Map(all.flatMap((taps) => [...taps]));
}

function idsOf(targets: readonly Target[]): string {
  return targets
    .map(({ id }) => id)
    .sort()
    .join();
}

function outputOf(exit: Trail['exit']): string {
  return exit?.kind === 'stage' ? exit.output : 'payload';
}
