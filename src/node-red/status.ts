/** Updates the badges of stages, batchers and gates at most once a second. */
import type { Node, NodeStatus } from 'node-red';
import { ModeletError } from '../core/errors.ts';
import type { GateSnapshot } from '../observe/views/gate-snapshot.ts';
import type { RuntimeSnapshot, StageSnapshot } from '../observe/views/snapshot.ts';
import type { Deployment } from './deploy/deployment.ts';
import type { LiveNode } from './live-nodes.ts';

const INTERVAL_MS = 1000;
/** Characters in a badge: 180 to 210 px in the canvas's font. Nodes with badges are mostly 160 to 220 px apart. */
export const LONGEST_BADGE = 30;
/** Characters read of a message. Longer messages quote a client or a modelet. */
const READ_AT_MOST = 300;

/** Parts of a message that a badge omits. */
const DROPPED: readonly RegExp[] = [
  // `SyntaxError: `: the words after it say more.
  /^\w*(?:Error|Exception): /,
  // The stage's own name before a place in its code: `scale: Predict:2: `.
  /^[^:]*: (?=[^\s:]+:\d+: )/,
  / \((?:from|allowed)[^()]*\)/g,
  // The folders of an absolute path or a file's URL.
  /(?:file:\/\/|(?<![\w.])[A-Za-z]:\\|(?<![\w.:/\\])\/)[^\s'"]*[/\\](?=[^\s'"/\\])/g,
];
const VARIABLE = /the environment variable (\w+)/;

/** The state that the badges show, read at each update. */
interface BadgeReader {
  readonly live: Iterable<LiveNode>;
  readonly deployment: Deployment;
  readonly services: readonly { snapshot(): RuntimeSnapshot }[];
  readonly gates: { snapshot(id: string): GateSnapshot | undefined };
}

export class StatusBadges {
  readonly #shows: BadgeReader;
  /** The badge that each node instance shows. A new instance after a deploy starts without a badge. */
  readonly #shown: WeakMap<Node, string> = new WeakMap();
  #timer: NodeJS.Timeout | null = null;
  #lastAt = 0;

  constructor(shows: BadgeReader) {
    this.#shows = shows;
  }

  /** Call after any change: updates the badges now, or one second after the last update. */
  update(): void {
    if (this.#timer) return;
    const wait = Math.max(0, this.#lastAt + INTERVAL_MS - performance.now());
    this.#timer = setTimeout(() => {
      this.#timer = null;
      this.#lastAt = performance.now();
      this.#show();
    }, wait).unref();
  }

  #show(): void {
    const snapshots = this.#shows.services.map((service) => service.snapshot());
    for (const live of this.#shows.live) {
      const status = this.#statusOf(live, snapshots);
      if (!status) continue;
      const text = JSON.stringify(status);
      if (this.#shown.get(live.node) === text) continue;
      this.#shown.set(live.node, text);
      live.node.status(status);
    }
  }

  #statusOf({ kind, node, config }: LiveNode, snapshots: readonly RuntimeSnapshot[]): NodeStatus | null {
    const invalid = config instanceof ModeletError ? config.message : this.#shows.deployment.invalid.get(node.id);
    if (invalid !== undefined) return invalidBadge(invalid);
    if (kind === 'gate') {
      const { gates, deployment } = this.#shows;
      return withElsewhere(gateBadge(gates.snapshot(node.id)), deployment.gates.get(node.id)?.elsewhere ?? null);
    }
    if (kind !== 'stage' && kind !== 'batcher') return null;
    const stageId = kind === 'stage' ? node.id : this.#shows.deployment.routes.get(node.id)?.route.stages[0];
    for (const runtime of snapshots) {
      const stage = runtime.stages.find((candidate) => candidate.id === stageId);
      if (stage) return kind === 'stage' ? stageBadge(stage, runtime) : batcherBadge(stage);
    }
    return null;
  }
}

/** Marks a node whose own settings are invalid, and logs the reason. */
export function showInvalid(node: Node, { message }: ModeletError): void {
  node.status(invalidBadge(message));
  node.error(`config_invalid: ${message}`);
}

/** Returns the badge of a node that cannot be used: a red ring with the reason. */
export function invalidBadge(reason: string): NodeStatus {
  return { fill: 'red', shape: 'ring', text: headline(reason) };
}

/** Returns a stage's badge, `ready 1/2 q:5 b:31.2`: process state, busy/all workers, queue length, mean batch size. */
export function stageBadge(stage: StageSnapshot, runtime: RuntimeSnapshot): NodeStatus {
  const failed = stage.workers.find((worker) => worker.error !== null);
  if (stage.ready === 0 || stage.circuit === 'open') {
    const cause = failed?.error ?? runtime.engine.error;
    if (cause) return { fill: 'red', shape: 'ring', text: headline(cause) };
    return { fill: 'yellow', shape: 'ring', text: 'startup' };
  }
  // If deployed code does not start, older code continues to serve. The badge must not look like success.
  if (stage.successorError !== null)
    return { fill: 'yellow', shape: 'dot', text: `new code: ${headline(stage.successorError, LONGEST_BADGE - 10)}` };
  const text = `ready ${stage.busy}/${stage.workers.length} q:${stage.queue} b:${round(stage.meanBatchSize)}`;
  if (stage.pinWarnings.length > 0) return { fill: 'yellow', shape: 'dot', text: `${text} unpinned` };
  // The stage serves Node-RED's requests, but the badge must not look as if it served all.
  if (runtime.listener?.tag === 'failed')
    return { fill: 'red', shape: 'dot', text: `cannot listen: ${runtime.listener.code}` };
  const whole = stage.ready === stage.workers.length;
  return { fill: whole ? (stage.busy > 0 ? 'blue' : 'green') : 'yellow', shape: 'dot', text };
}

export function batcherBadge(stage: StageSnapshot): NodeStatus {
  const { maxBatchSize } = stage.batching;
  return { fill: 'grey', shape: 'dot', text: `q:${stage.queue} b:${round(stage.meanBatchSize)}/${maxBatchSize}` };
}

/** Returns a gate's badge: `open D 0.42 N 12 waiting 5`, or `closed: sample 7 s old`. */
export function gateBadge(gate: GateSnapshot | undefined): NodeStatus | null {
  if (!gate) return null;
  const { open, control, budget, quota, waiting, source, store } = gate;
  if (store?.error) return { fill: 'red', shape: 'ring', text: headline(store.error) };
  const dead = store?.dead ? ` dead ${store.dead}` : '';
  if (!open) {
    const broken = control === 'auto' && !source.available;
    // The dialog says what would open the gate.
    const [cause = ''] = gate.why.split(';', 1);
    return { fill: broken ? 'red' : 'yellow', shape: 'ring', text: withWaiting(headline(cause), waiting) + dead };
  }
  if (source.rare !== null && control === 'auto') {
    return { fill: 'yellow', shape: 'dot', text: withWaiting('stale before the next scrape', waiting) };
  }
  const text = control === 'open' ? 'open by a message' : `open D ${hundredths(budget)} N ${hundredths(quota)}`;
  const fill = dead !== '' ? 'yellow' : waiting > 0 ? 'blue' : 'green';
  return { fill, shape: 'dot', text: withWaiting(text, waiting) + dead };
}

/** Prefixes the badge of a gate that counts a stage of another tab: without this fact, the other figures mislead. */
function withElsewhere(badge: NodeStatus | null, elsewhere: string | null): NodeStatus | null {
  if (!badge || elsewhere === null) return badge;
  return {
    ...badge,
    fill: badge.fill === 'red' ? 'red' : 'yellow',
    text: headline(`counts ${elsewhere}: ${badge.text}`),
  };
}

function withWaiting(text: string, waiting: number): string {
  return waiting > 0 ? `${text} waiting ${waiting}` : text;
}

function hundredths(value: number): string {
  return String(Math.round(value * 100) / 100);
}

function round(value: number): string {
  return String(Math.round(value * 10) / 10);
}

/**
 * Shortens a message for a badge: as many whole clauses of its first line as fit; if they fill at most half, the line's
 * beginning. The canvas does not cut text: a text that is longer than a node and the gap behind it covers the next node's
 * badge. The log, the sidebar and the dialog show the whole message.
 */
export function headline(message: string, longest: number = LONGEST_BADGE): string {
  const [line = ''] = message.slice(0, READ_AT_MOST).split('\n', 1);
  const short = DROPPED.reduce((rest, dropped) => rest.replace(dropped, ''), line).replace(VARIABLE, '$${$1}');
  if (short.length <= longest) return short;
  const ends = [...short.matchAll(/[;:,] /g)].map(({ index }) => index);
  const clauses = ends.findLast((end) => end <= longest) ?? 0;
  return clauses > longest / 2 ? short.slice(0, clauses) : `${short.slice(0, longest - 1).trimEnd()}\u2026`;
}
