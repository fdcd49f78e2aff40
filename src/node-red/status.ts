/** Updates the badges of stages, batchers and gates at most once a second. */
import type { Node, NodeStatus } from 'node-red';
import { ModeletError } from '../core/errors.ts';
import type { RuntimeSnapshot, StageSnapshot } from '../observe/views/snapshot.ts';
import { batcherWords, headline, stageWords } from '../observe/views/words.ts';
import type { GatherCounts } from '../runtime/desk/gathers.ts';
import type { DownloadView } from '../runtime/service/models/downloads.ts';
import type { Deployment } from './deploy/deployment.ts';
import type { LiveNode } from './live-nodes.ts';

const INTERVAL_MS = 1000;

/** The state that the badges show, read at each update. */
interface BadgeReader {
  readonly live: Iterable<LiveNode>;
  readonly deployment: Deployment;
  readonly services: readonly { snapshot(): RuntimeSnapshot }[];
  readonly joins: { counts(id: string): GatherCounts };
  readonly gates: { badge(id: string): NodeStatus | null };
  readonly models: { badge(stage: string): NodeStatus | null };
}

export class StatusBadges {
  readonly #shows: BadgeReader;
  /** The badge that each node instance shows. A new instance after a deploy starts without a badge. */
  readonly #shown: WeakMap<Node, string> = new WeakMap();
  /** The statuses that the code of stages has set by `node.status`. */
  readonly #own: WeakMap<Node, NodeStatus> = new WeakMap();
  /** Ids of nodes that may show why they could not be used. */
  readonly #marked: Set<string> = new Set();
  /** Batches that each stage had sent at its last badge. */
  #batches: ReadonlyMap<string, number> = new Map();
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

  /** Shows what the code of a stage says, while the stage has nothing to report that hinders it. */
  setOwn(node: Node, status: NodeStatus): void {
    this.#own.set(node, status);
    this.update();
  }

  #show(): void {
    const snapshots = this.#shows.services.map((service) => service.snapshot());
    const stages = snapshots.flatMap((runtime) => runtime.stages);
    const before = this.#batches;
    this.#batches = new Map(stages.map(({ id, batches }) => [id, batches]));
    const worked = new Set(
      stages.filter(({ id, batches }) => batches > (before.get(id) ?? batches)).map(({ id }) => id),
    );
    // A stage that has just worked rests when it has done nothing until the next badge, and a long run gets longer.
    if (worked.size > 0 || stages.some(({ runsMs }) => runsMs !== null)) this.update();
    for (const live of this.#shows.live) {
      const status = this.#statusOf(live, snapshots, worked);
      if (!status) continue;
      const text = JSON.stringify(status);
      if (this.#shown.get(live.node) === text) continue;
      this.#shown.set(live.node, text);
      live.node.status(status);
    }
  }

  #statusOf(
    { kind, node, config }: LiveNode,
    snapshots: readonly RuntimeSnapshot[],
    worked: ReadonlySet<string>,
  ): NodeStatus | null {
    const deployed = this.#shows.deployment.nodes.get(node.id);
    const invalid = config instanceof ModeletError ? config.message : deployed?.invalid;
    if (invalid) {
      this.#marked.add(node.id);
      return invalidBadge(invalid);
    }
    if (kind === 'gate') return this.#shows.gates.badge(node.id);
    if (kind === 'join') return joinBadge(this.#shows.joins.counts(node.id));
    // Node-RED shows the badge of a node that this one replaces until another follows.
    if (kind !== 'stage' && kind !== 'batcher') return this.#marked.delete(node.id) ? {} : null;
    const stageId = kind === 'stage' ? node.id : this.#shows.deployment.routes.get(node.id)?.route.stages[0];
    for (const runtime of snapshots) {
      const stage = runtime.stages.find((candidate) => candidate.id === stageId);
      if (!stage) continue;
      if (kind === 'batcher') return batcherBadge(stage);
      return this.#ownOr(node, this.#statusOfStage(stage, runtime, worked));
    }
    return null;
  }

  #ownOr(node: Node, badge: NodeStatus): NodeStatus {
    const own = this.#own.get(node);
    return own && Object.keys(own).length > 0 && badge.fill === 'green' ? own : badge;
  }

  #statusOfStage(stage: StageSnapshot, runtime: RuntimeSnapshot, worked: ReadonlySet<string>): NodeStatus {
    const download = doesWait(stage) ? this.#shows.models.badge(stage.id) : null;
    // Short batches would make the badge flicker between rest and work. A stage that sleeps has worked, and rests.
    const didWork = worked.has(stage.id) && !stage.scaling?.asleep;
    return download ?? stageBadge(stage, runtime, didWork ? Math.max(1, stage.busy) : stage.busy);
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

/** Returns the reason in the message `cannot listen at ADDRESS: REASON (CODE)`. */
function whyRefused({ message, address, code }: { message: string; address: string; code: string }): string {
  return message.slice(`cannot listen at ${address}: `.length).replace(` (${code})`, '') || code;
}

/** @returns a stage's badge: green at rest, blue at work, yellow if something is not as it should be, else a ring */
export function stageBadge(stage: StageSnapshot, runtime: RuntimeSnapshot, busy: number = stage.busy): NodeStatus {
  const { health, text } = stageWords(stage, runtime, busy);
  if (health === 'error') return { fill: 'red', shape: 'ring', text };
  if (health === 'startup') return { fill: 'grey', shape: 'ring', text };
  // The stage serves Node-RED's requests, but the badge must not look as if it served all.
  if (runtime.listener?.tag === 'failed')
    return { fill: 'red', shape: 'dot', text: headline(`cannot listen: ${whyRefused(runtime.listener)}`) };
  const isOdd =
    health === 'partly' ||
    stage.successorError !== null ||
    stage.pinWarnings.length > 0 ||
    stage.batchWarning !== undefined ||
    stage.instead !== undefined ||
    stage.versions.some(({ cause }) => cause === 'failures');
  return { fill: isOdd ? 'yellow' : busy > 0 ? 'blue' : 'green', shape: 'dot', text };
}

/** Whether the code that is deployed has no workers. */
export function doesWait({
  ready,
  successorError,
  scaling,
}: Pick<StageSnapshot, 'ready' | 'successorError' | 'scaling'>): boolean {
  return (ready === 0 && !scaling?.asleep) || successorError !== null;
}

/** @returns the badge of a stage whose model is on its way; null without such a download */
export function downloadBadge(download: DownloadView | null): NodeStatus | null {
  if (download?.state === 'waiting') return { fill: 'blue', shape: 'ring', text: 'another download first' };
  if (download?.state !== 'running') return null;
  const share = Math.floor((100 * download.bytes) / Math.max(1, download.of));
  return { fill: 'blue', shape: 'ring', text: `downloading, ${share} %` };
}

export function batcherBadge(stage: StageSnapshot): NodeStatus {
  return { fill: stage.queue > 0 ? 'blue' : 'grey', shape: 'dot', text: batcherWords(stage) };
}

/** @returns the badge of a node that gathers branches: how many messages wait, and how many branches were dropped */
export function joinBadge({ pending, late, duplicates }: GatherCounts): NodeStatus {
  const dropped = `${late > 0 ? `, ${late} late` : ''}${duplicates > 0 ? `, ${duplicates} twice` : ''}`;
  const text = pending === 0 ? 'idle' : `${pending} in progress`;
  return { fill: pending === 0 ? 'green' : 'blue', shape: 'dot', text: `${text}${dropped}` };
}

/** @returns a paced split's badge: how many of the messages that may be in progress at once are */
export function feedBadge(unsettled: number, most: number): NodeStatus {
  if (unsettled === 0) return { fill: 'green', shape: 'dot', text: 'idle' };
  return { fill: 'blue', shape: 'dot', text: `${unsettled} of ${most} in progress` };
}

/** @returns the badge of metrics without a runtime; none if there is one */
export function metricsBadge(runtimes: number): NodeStatus {
  if (runtimes === 1) return {};
  return { fill: 'grey', shape: 'ring', text: runtimes === 0 ? 'no stage runs' : `choose one of ${runtimes} runtimes` };
}

/** @returns the badge of a picture preview: why it shows no picture; none if it shows one */
export function viewBadge(problem: string | null): NodeStatus {
  return problem === null ? {} : { fill: 'yellow', shape: 'ring', text: headline(problem) };
}
