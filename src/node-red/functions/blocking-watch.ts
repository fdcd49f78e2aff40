/**
 * Finds the function nodes that block Node-RED's event loop, and for how long. A timer notices that the loop stalls; only
 * then, and until it has been quiet for a minute, hooks of Node-RED measure the runs of function nodes. So watching costs
 * a timer as long as no node blocks. The hooks see the time until a function node gives the loop back: an async one may
 * block again behind an `await`, which is not measured.
 */
import type { Node, NodeAPI } from 'node-red';
import { type Clock, type Deadline, systemClock, type Timer } from '../../core/clock.ts';

/** A run that keeps the loop busy for so long blocks it, in ms. */
const BLOCKS_MS = 50;
/** A shorter run that mostly did not compute was kept from its core by other processes, in ms. */
const SURE_MS = 200;
const PROBE_MS = 200;
/** The time that figures cover, and after which quiet hooks go, in ms. */
const MINUTE_MS = 60_000;
const LABEL = 'modeletWatch';

export interface BlockingNode {
  readonly id: string;
  readonly name: string;
  /** Number of runs in the last minute that blocked the loop. */
  readonly times: number;
  readonly longestMs: number;
}

interface BlockingRun {
  readonly at: Deadline;
  readonly ms: number;
}

interface ReceivedBy {
  readonly destination: { readonly node: Node };
}

/** Settings of Node-RED. */
interface WatchSettings {
  /** `false`: function nodes are not watched. */
  readonly modeletWatchFunctions?: boolean;
}

export interface HookList {
  add(name: string, hook: Hook): void;
  remove(name: string): void;
  has(name: string): boolean;
}

/**
 *   off       costs nothing                                     -> probing
 *   probing   a timer looks whether the loop stalls             -> off, watching
 *   watching  hooks measure each function node, until `until`   -> off, probing
 */
type BlockingState =
  | { readonly tag: 'off' }
  | { readonly tag: 'probing'; timer: Timer; due: Deadline }
  | { readonly tag: 'watching'; timer: Timer; due: Deadline; until: Deadline };

type Hook = (event: ReceivedBy) => void;

/** The hooks of the watch while it measures, by the list that has them. */
const OWN: WeakMap<object, ReadonlyMap<string, Hook>> = new WeakMap();

/**
 * Whether only the watch has a hook of this name, and no other module. Node-RED tells only whether there is any, so the
 * watch's own leaves the list for as long as this looks.
 */
export function isOnlyWatched(hooks: HookList, name: string): boolean {
  const own = OWN.get(hooks)?.get(name);
  if (!own) return false;
  hooks.remove(`${name}.${LABEL}`);
  const isOnly = !hooks.has(name);
  hooks.add(`${name}.${LABEL}`, own);
  return isOnly;
}

export class BlockingWatch {
  readonly #hooks: HookList;
  readonly #settings: WatchSettings;
  readonly #clock: Clock;
  readonly #runs: Map<string, { readonly node: Node; runs: BlockingRun[] }> = new Map();
  #state: BlockingState = { tag: 'off' };
  #running: { readonly node: Node; readonly since: Deadline; readonly cpu: NodeJS.CpuUsage } | null = null;

  constructor(RED: NodeAPI, clock: Clock = systemClock) {
    this.#hooks = (RED as unknown as { hooks: HookList }).hooks;
    this.#settings = RED.settings as WatchSettings;
    this.#clock = clock;
  }

  /** The nodes that blocked the loop in the last minute, the longest block first. */
  get blocking(): readonly BlockingNode[] {
    this.#forget();
    const found = [...this.#runs.values()].map(({ node, runs }) => ({
      ...{ id: node.id, name: node.name ?? '', times: runs.length },
      longestMs: Math.round(Math.max(...runs.map(({ ms }) => ms))),
    }));
    return found.sort((a, b) => b.longestMs - a.longestMs);
  }

  /** Watches, unless the settings say not to. */
  start(): void {
    if (this.#state.tag !== 'off' || this.#settings.modeletWatchFunctions === false) return;
    const due = this.#clock.now() + PROBE_MS;
    this.#state = { tag: 'probing', due, timer: this.#probeAt(due) };
  }

  stop(): void {
    if (this.#state.tag === 'off') return;
    this.#state.timer.cancel();
    if (this.#state.tag === 'watching') this.#removeHooks();
    this.#state = { tag: 'off' };
    this.#runs.clear();
  }

  #probeAt(due: Deadline): Timer {
    return this.#clock.at(due, () => this.#probe());
  }

  #probe(): void {
    if (this.#state.tag === 'off') return;
    const now = this.#clock.now();
    const hasStalled = now - this.#state.due >= BLOCKS_MS;
    const due = now + PROBE_MS;
    const timer = this.#probeAt(due);
    if (this.#state.tag === 'probing') {
      this.#state = hasStalled ? this.#watching(timer, due) : { tag: 'probing', timer, due };
      return;
    }
    const { until } = this.#state;
    if (hasStalled || now < until) {
      this.#state = { tag: 'watching', timer, due, until: hasStalled ? now + MINUTE_MS : until };
      return;
    }
    this.#removeHooks();
    this.#running = null;
    this.#state = { tag: 'probing', timer, due };
  }

  #watching(timer: Timer, due: Deadline): BlockingState {
    const own = new Map<string, Hook>([
      ['onReceive', ({ destination: { node } }) => this.#began(node)],
      ['postReceive', ({ destination: { node } }) => this.#ended(node)],
    ]);
    for (const [name, hook] of own) this.#hooks.add(`${name}.${LABEL}`, hook);
    OWN.set(this.#hooks, own);
    return { tag: 'watching', timer, due, until: this.#clock.now() + MINUTE_MS };
  }

  #removeHooks(): void {
    OWN.delete(this.#hooks);
    this.#hooks.remove(`*.${LABEL}`);
  }

  #began(node: Node): void {
    if (node.type === 'function') this.#running = { node, since: this.#clock.now(), cpu: process.cpuUsage() };
  }

  #ended(node: Node): void {
    if (this.#running?.node !== node) return;
    const { since, cpu } = this.#running;
    this.#running = null;
    const at = this.#clock.now();
    const ms = at - since;
    if (ms >= SURE_MS || (ms >= BLOCKS_MS && computedMs(cpu) >= ms / 2)) this.#note(node, { at, ms });
  }

  #note(node: Node, run: BlockingRun): void {
    const known = this.#runs.get(node.id)?.runs ?? [];
    this.#runs.set(node.id, { node, runs: [...known, run] });
    this.#forget();
  }

  #forget(): void {
    const from = this.#clock.now() - MINUTE_MS;
    for (const [id, known] of this.#runs) {
      known.runs = known.runs.filter(({ at }) => at > from);
      if (known.runs.length === 0) this.#runs.delete(id);
    }
  }
}

function computedMs(since: NodeJS.CpuUsage): number {
  const { user, system } = process.cpuUsage(since);
  return (user + system) / 1000;
}
