/**
 * Builds the view of the editor's sidebar: each runtime's present state and its activity since an earlier look, small
 * enough to send once a second; and the map of cores with the processes pinned to each. Pure.
 */
import { BYTES_PER_MB } from '../../core/model.ts';
import type { StageReading } from '../../core/readings.ts';
import { countOf, quantile } from '../meters/histogram.ts';
import type { LoopSnapshot } from '../meters/loop.ts';
import { KEPT, type SlowRequest } from '../meters/request-meters.ts';
import { NOTHING_READ } from '../meters/stage-meter.ts';
import { isFault, type JudgedEndpoint, type JudgedStage, overdueWords, type UnusableNode } from './findings.ts';
import type { GateView } from './gate-snapshot.ts';
import {
  cachedPart,
  type Measurement,
  meanOf,
  perSecond,
  readingSince,
  requestsBetween,
  rounded,
  timesOf,
  totalOf,
} from './interval.ts';
import type { RuntimeSnapshot, StageSnapshot, VersionSnapshot } from './snapshot.ts';
import { slowestOf, type Verdict, verdictOn } from './verdict.ts';
import { overdueOf } from './why.ts';
import { longRunOf, stageWords } from './words.ts';

/** A chain of stages as the sidebar draws it. */
export interface Chain {
  /** Id of the chain's runtime. */
  readonly runtime: string;
  /** Ids of the stages, as drawn. */
  readonly stages: readonly string[];
  /** The way from stage to stage in a line; null: one after the other. */
  readonly way: string | null;
  /** One sentence that tells why the chain ends there. */
  readonly why: string;
  /** Whether another stage follows that the chain could have included. */
  readonly unfused: boolean;
}

/** An HTTP-in node that leads to pipelines. */
export interface EndpointView extends JudgedEndpoint {
  /** Ids of the stages of the routes that its requests reach first, and of their runtimes. */
  readonly stages: readonly string[];
  readonly runtimes: readonly string[];
  /** Why its requests go through the flow; null: the endpoint is compiled. */
  readonly reason: string | null;
}

/** Further data of the later look. */
export interface Around {
  readonly endpoints: readonly EndpointView[];
  readonly chains: readonly Chain[];
  readonly gates: readonly GateView[];
  readonly unusable: readonly UnusableNode[];
  readonly loop: LoopSnapshot | null;
  readonly allowedCpus: readonly number[];
  /** Cores that Node-RED is pinned to; null means all. */
  readonly serverCpus: readonly number[] | null;
  /** Returns the cores that an engine is pinned to; null means all. */
  engineCpus(pid: number): readonly number[] | null;
}

export interface StageView
  extends JudgedStage,
    Pick<StageSnapshot, 'why' | 'queue' | 'capacity' | 'workers' | 'versions'> {
  /** Problems that do not keep the stage from serving. */
  readonly warnings: readonly string[];
  readonly policy: string;
  readonly maxBatchSize: number;
  /** Mean size of the batches that left since the earlier look; null if none did. */
  readonly meanBatch: number | null;
  /** Mean number of runs of the model for a batch that was answered since the earlier look; null if not known. */
  readonly runsPerBatch: number | null;
  /** Rate of items answered by a worker, from the cache or by a shared run; null without an earlier look. */
  readonly itemsPerSecond: number | null;
  /** Rate of items that no worker answered; null without an earlier look. */
  readonly unservedPerSecond: number | null;
  /** Median run time of items since the earlier look, in ms; null if none ran. */
  readonly runP50: number | null;
  readonly runP99: number | null;
  /** See `cachedPart`; null without an earlier look. */
  readonly cached: number | null;
}

export interface RuntimeView
  extends Pick<RuntimeSnapshot, 'id' | 'name' | 'state' | 'backlog' | 'capacity'>,
    Pick<RuntimeSnapshot['engine'], 'error' | 'pid' | 'restarts' | 'rssBytes'> {
  /** Address at which the engine itself takes requests; null if it takes none. */
  readonly url: string | null;
  /** Rate of requests that ended, with any outcome; null without an earlier look. */
  readonly requestsPerSecond: number | null;
  readonly errorsPerSecond: number | null;
  /** Whether requests failed, but for refused input and too much load, and no user has read of it. */
  readonly hasFaults: boolean;
  /** Median duration of results since the earlier look, in ms; null if there were none. */
  readonly p50: number | null;
  readonly p99: number | null;
  readonly warnings: readonly string[];
  readonly stages: readonly StageView[];
  readonly chains: readonly Omit<Chain, 'runtime'>[];
  readonly endpoints: readonly Pick<EndpointView, 'id' | 'method' | 'path' | 'stages' | 'reason'>[];
}

export interface View {
  readonly verdict: Verdict;
  /** Id of the stage in which items spend the most time; null if none ran. */
  readonly slowestStage: string | null;
  readonly runtimes: readonly RuntimeView[];
  readonly gates: readonly GateView[];
  readonly cpus: CpuMap;
  readonly loop: LoopSnapshot | null;
  /** Slowest requests of all runtimes together, slowest first. */
  readonly slowest: readonly Omit<SlowRequest, 'stages'>[];
}

/** @param earlier the previous looks; has none for a runtime that is new */
export function viewBetween(earlier: readonly Measurement[], later: readonly Measurement[], around: Around): View {
  const before = new Map(earlier.map((look) => [look.snapshot.id, look]));
  const runtimes = later.map((look) => runtimeView(before.get(look.snapshot.id), look, around));
  const stages = runtimes.flatMap((runtime) => runtime.stages);
  return {
    verdict: verdictOn({
      stages,
      unusable: around.unusable,
      notListening: later.flatMap(({ snapshot }) => notListening(snapshot) ?? []),
      opening: later.flatMap(({ snapshot }) => opening(snapshot) ?? []),
      endpoints: around.endpoints,
      gates: around.gates,
      memory: later.map(({ snapshot }) => memoryWords(snapshot)).find((words) => words !== null) ?? null,
      requestsPerSecond: sum(runtimes.map((runtime) => runtime.requestsPerSecond)),
      failures: later.flatMap(({ snapshot }) => snapshot.failures),
      lasting: later.flatMap(({ snapshot }) => snapshot.lasting),
      loop: around.loop,
    }),
    slowestStage: slowestOf(stages)?.id ?? null,
    runtimes,
    gates: around.gates,
    cpus: cpuMap(placesOf(runtimes, around), around.allowedCpus),
    loop: around.loop,
    slowest: later
      .flatMap(({ snapshot }) => snapshot.slowest)
      .sort((a, b) => b.totalMs - a.totalMs)
      .slice(0, KEPT)
      .map(({ stages: _stages, ...request }) => request),
  };
}

function runtimeView(before: Measurement | undefined, later: Measurement, { chains, endpoints }: Around): RuntimeView {
  const { snapshot } = later;
  const { id, name, state, backlog, capacity } = snapshot;
  const { error, pid, restarts, rssBytes } = snapshot.engine;
  // A runtime that was removed and added again counts from 0.
  const anew = before !== undefined && totalOf(snapshot.requests) < totalOf(before.snapshot.requests);
  const earlier = anew ? undefined : before;
  const requests = earlier ? requestsBetween(earlier, later) : null;
  const readings = new Map(earlier?.snapshot.stages.map(({ id, reading }) => [id, reading]));
  return {
    ...{ id, name, state, backlog, capacity, error, pid, restarts, rssBytes },
    url: snapshot.listener?.tag === 'listening' ? snapshot.listener.url : null,
    requestsPerSecond: requests?.requestsPerSecond ?? null,
    errorsPerSecond: requests?.errorsPerSecond ?? null,
    hasFaults: snapshot.failures.some(isFault),
    p50: requests?.p50 ?? null,
    p99: requests?.p99 ?? null,
    warnings: [
      ...(snapshot.listener?.tag === 'failed' ? [snapshot.listener.message] : []),
      ...[memoryWords(snapshot)].filter((words) => words !== null),
      ...snapshot.pinWarnings,
    ],
    stages: snapshot.stages.map((stage) => {
      const since = earlier && readingSince(readings.get(stage.id) ?? NOTHING_READ, stage.reading);
      return stageView(stage, snapshot, since ?? null, earlier ? (later.at - earlier.at) / 1000 : 0);
    }),
    chains: longestChains(chains.filter(({ runtime }) => runtime === id)),
    endpoints: endpoints
      .filter(({ runtimes }) => runtimes.includes(id))
      .map(({ id: node, method, path, stages, reason }) => ({ id: node, method, path, stages, reason })),
  };
}

/** Returns why the engine does not listen at its address; null if it does, or has none. */
function notListening({ name, listener }: RuntimeSnapshot): string | null {
  return listener?.tag === 'failed' ? `${name && `${name}: `}${listener.message}` : null;
}

/** Returns that the engine is about to listen; null if it is not. */
function opening({ name, listener }: RuntimeSnapshot): string | null {
  return listener?.tag === 'opening' ? `${name && `${name}: `}the address ${listener.address} is about to open.` : null;
}

/** Returns what the engine holds back because its payloads fill the memory of the queues; null if nothing. */
function memoryWords({ name, engine: { heldBytes, heldBack } }: RuntimeSnapshot): string | null {
  if (heldBack === null) return null;
  const [held, limit] = [heldBytes, heldBack.limitBytes].map((bytes) => Math.round(bytes / BYTES_PER_MB));
  const what = heldBack.refuses ? 'requests are refused' : 'requests wait';
  return `${name && `${name}: `}Queue memory is full, payloads have ${held} of ${limit} MB: ${what}`;
}

/** @param since the stage's reading since the earlier look; null without an earlier look */
function stageView(
  stage: StageSnapshot,
  runtime: RuntimeSnapshot,
  since: StageReading | null,
  seconds: number,
): StageView {
  // Short batches would make the words flicker between rest and work.
  const busy = since && since.batches > 0 ? Math.max(1, stage.busy) : stage.busy;
  const { health, text: words, whole } = stageWords(stage, runtime, busy);
  const { id, name, retired, successorError, why, queue, capacity, workers, versions } = stage;
  const { policy, maxBatchSize } = stage.batching;
  const overdue = overdueOf(workers);
  return {
    ...{ id, name, health, words, whole, overdue, retired, successorError, why, queue, capacity, workers, versions },
    longRun: longRunOf(stage),
    death: stage.lastDeath?.read === false ? stage.lastDeath : null,
    warnings: [
      overdue > 0 ? overdueWords(overdue) : null,
      successorError,
      ...versions.map(versionWarning),
      ...stage.pinWarnings,
      stage.batchWarning?.text,
      stage.instead,
    ].filter((text) => typeof text === 'string'),
    ...{ policy, maxBatchSize, batchChoice: stage.adaptive?.reason ?? null },
    meanBatch: since && meanOf(since.items, since.batches),
    runsPerBatch: since && meanOf(since.runs, since.countedBatches),
    times: since && timesOf(since),
    itemsPerSecond: since && perSecond(countOf(since.run) + since.cache.hit + since.cache.joined, seconds),
    unservedPerSecond: since && perSecond(totalOf(since.unserved), seconds),
    runP50: since && rounded(quantile(since.runTimes, 0.5)),
    runP99: since && rounded(quantile(since.runTimes, 0.99)),
    cached: since && cachedPart(since),
  };
}

/** Returns a reason why a version gets none of the requests that the flow gives it, or null. */
function versionWarning({ name, cause, drawn, share, available }: VersionSnapshot): string | null {
  if (cause === 'failures')
    return `rolled back ${name}: too many of its requests failed, its share was ${drawn.share} %`;
  if (available || share === 0) return null;
  return `${name} has no worker that serves: this stage answers its requests`;
}

/**
 * Returns the chains to draw: all that are no part of another. Shorter ones exist because messages may enter at every
 * stage of a chain and at its batchers.
 */
function longestChains(chains: readonly Chain[]): Omit<Chain, 'runtime'>[] {
  const keyOf = ({ stages }: Chain): string => `\n${stages.join('\n')}\n`;
  const byKey = new Map(chains.map((chain) => [keyOf(chain), chain]));
  const isPartOf = (key: string, [other, { way }]: readonly [string, Chain]): boolean => {
    if (key === other) return false;
    return way === null ? other.endsWith(key) : other.includes(key);
  };
  const drawn = [...byKey].filter(([key]) => ![...byKey].some((other) => isPartOf(key, other)));
  return drawn.map(([, { stages, way, why, unfused }]) => ({ stages, way, why, unfused }));
}

function placesOf(runtimes: readonly RuntimeView[], around: Around): PlacedHolder[] {
  const placed: PlacedHolder[] = [
    { kind: 'server', runtime: null, stage: null, worker: null, cpus: around.serverCpus },
  ];
  for (const { id: runtime, pid, stages } of runtimes) {
    const cpus = pid === null ? null : around.engineCpus(pid);
    placed.push({ kind: 'engine', runtime, stage: null, worker: null, cpus });
    for (const { name: stage, workers } of stages) {
      for (const { index, cpus: own } of workers)
        placed.push({ kind: 'worker', runtime, stage, worker: index, cpus: own });
    }
  }
  return placed;
}

function sum(rates: readonly (number | null)[]): number {
  return rates.reduce<number>((all, rate) => all + (rate ?? 0), 0);
}

/** A process on the map. */
export interface CpuHolder {
  readonly kind: 'server' | 'engine' | 'worker';
  /** Id of the process's runtime; null for Node-RED. */
  readonly runtime: string | null;
  /** Name of a worker's stage; null for other processes. */
  readonly stage: string | null;
  /** Number of a worker; null for other processes. */
  readonly worker: number | null;
}

/** A process and the cores that it is pinned to (`cpus`); null means that it may use all. */
export type PlacedHolder = CpuHolder & { readonly cpus: readonly number[] | null };

export interface CpuMap {
  /** Cores that this process may use, with the processes pinned to each. Processes on the same core share its time. */
  readonly cores: readonly { readonly core: number; readonly holders: readonly CpuHolder[] }[];
  /** Processes that may use every core. */
  readonly anywhere: readonly CpuHolder[];
}

export function cpuMap(placed: readonly PlacedHolder[], allowed: readonly number[]): CpuMap {
  // A pin to all available cores counts as no pin.
  const isPinned = ({ cpus }: PlacedHolder): boolean => cpus !== null && !allowed.every((core) => cpus.includes(core));
  const pinned = placed.filter(isPinned);
  return {
    cores: allowed.map((core) => ({ core, holders: pinned.filter(({ cpus }) => cpus?.includes(core)).map(holder) })),
    anywhere: placed.filter((one) => !isPinned(one)).map(holder),
  };
}

function holder({ cpus: _cpus, ...rest }: PlacedHolder): CpuHolder {
  return rest;
}
