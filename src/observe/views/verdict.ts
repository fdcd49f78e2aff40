/** One sentence about all pipelines: that all is well, or the first thing that is not and what to do about it. Pure. */

import type { StageReading } from '../../core/readings.ts';
import { countOf } from '../meters/histogram.ts';
import type { LoopSnapshot } from '../meters/loop.ts';
import type { GateSnapshot } from './gate-snapshot.ts';
import type { StageHealth } from './words.ts';

/** Mean times of the items that ran since an earlier look, in ms. */
export interface ItemTimes {
  /** Wait for a free worker. */
  readonly queueMs: number;
  /** Wait for the batch to fill while a worker was free. */
  readonly batchMs: number;
  readonly runMs: number;
}

export interface JudgedStage {
  readonly id: string;
  readonly name: string;
  readonly health: StageHealth;
  /** The state as the stage's badge says it. */
  readonly words: string;
  /** Number of batches that its workers run although no caller waits for them any more. */
  readonly overdue: number;
  /** Mean times of the items that ran since the earlier look; null if none did. */
  readonly times: ItemTimes | null;
}

export interface Judged {
  readonly stages: readonly JudgedStage[];
  readonly gates: readonly Pick<GateSnapshot, 'id' | 'name' | 'open' | 'control' | 'why' | 'waiting' | 'source'>[];
  /** What is held back because payloads fill the memory of an engine; null if nothing. */
  readonly memory: string | null;
  readonly requestsPerSecond: number;
  readonly errorsPerSecond: number;
  /** Busy time of Node-RED's event loop; null if it is not measured. */
  readonly loop: LoopSnapshot | null;
}

/** `good`: all is well. `slow`: requests wait. `startup`: not all serves yet. `error`: something does not work. */
export type VerdictKind = 'good' | 'slow' | 'startup' | 'error';

export interface Verdict {
  readonly kind: VerdictKind;
  readonly text: string;
  /** Id of the node to look at, or null. */
  readonly node: string | null;
}

/** A wait this much longer than the run is worth a word: shorter ones come with every batch. */
const LONG_WAIT = 1;
/** Waits below this, in ms, are not worth a remark. */
const SHORT_MS = 5;

export function verdictOn(judged: Judged): Verdict {
  return (
    brokenStage(judged) ??
    brokenGate(judged) ??
    starting(judged) ??
    overdue(judged) ??
    full(judged) ??
    failing(judged) ??
    whatWaits(judged) ??
    well(judged)
  );
}

/** @returns the mean times of the items in a reading; null if none ran */
export function timesOf({ queueWait, batchWait, run }: StageReading): ItemTimes | null {
  const items = countOf(run);
  if (items === 0) return null;
  return { queueMs: queueWait.sum / items, batchMs: batchWait.sum / items, runMs: run.sum / items };
}

/** @returns the stage in which items spend the most time; null if none ran anywhere */
export function slowestOf<Stage extends Pick<JudgedStage, 'times'>>(stages: readonly Stage[]): Stage | null {
  const ran = stages.filter(({ times }) => times !== null);
  return ran.toSorted((a, b) => totalOf(b.times) - totalOf(a.times))[0] ?? null;
}

function totalOf(times: ItemTimes | null): number {
  return times === null ? 0 : times.queueMs + times.batchMs + times.runMs;
}

function brokenStage({ stages }: Judged): Verdict | null {
  const broken = stages.filter(({ health }) => health === 'error');
  const [first] = broken;
  if (!first) return null;
  const others = broken.length > 1 ? ` ${broken.length - 1} more do not serve.` : '';
  return { kind: 'error', text: `${first.name}: ${first.words}.${others}`, node: first.id };
}

function brokenGate({ gates }: Judged): Verdict | null {
  const broken = gates.find(({ open, control, source }) => !open && control === 'auto' && source.error !== null);
  if (!broken) return null;
  return { kind: 'error', text: `Gate ${broken.name} is ${clause(broken.why)}.`, node: broken.id };
}

function starting({ stages }: Judged): Verdict | null {
  const starts = stages.find(({ health }) => health === 'startup');
  return starts ? { kind: 'startup', text: `${starts.name} is starting. Requests to it wait.`, node: starts.id } : null;
}

function overdue({ stages }: Judged): Verdict | null {
  const stage = stages.find((one) => one.overdue > 0);
  if (!stage) return null;
  const text = `${stage.name} ${overdueWords(stage.overdue)}. If that goes on, the stage replaces the worker.`;
  return { kind: 'slow', text, node: stage.id };
}

/** @returns what a stage does that has these batches */
export function overdueWords(count: number): string {
  return `runs ${count === 1 ? 'a batch' : `${count} batches`} that no caller waits for any more`;
}

function full({ memory }: Judged): Verdict | null {
  return memory === null ? null : { kind: 'slow', text: `${memory}.`, node: null };
}

function failing({ requestsPerSecond, errorsPerSecond }: Judged): Verdict | null {
  const share = errorsPerSecond / requestsPerSecond;
  if (!(share > 0.01)) return null;
  return { kind: 'error', text: `${percent(share)} of the requests fail. The log has their errors.`, node: null };
}

function whatWaits({ stages, gates, loop }: Judged): Verdict | null {
  const closed = gates.find(({ waiting }) => waiting > 0);
  if (closed) {
    return {
      kind: 'slow',
      text: `${closed.waiting} wait at gate ${closed.name}: ${clause(closed.why)}.`,
      node: closed.id,
    };
  }
  const slowest = slowestOf(stages);
  if (slowest?.times) {
    const { queueMs, batchMs, runMs } = slowest.times;
    const [wait, why] =
      queueMs >= batchMs
        ? [queueMs, `items wait ${ms(queueMs)} for a worker. Add workers, or make batches larger.`]
        : [batchMs, `items wait ${ms(batchMs)} for their batch to fill. Lower the wait of the batcher.`];
    if (wait > LONG_WAIT * runMs && wait > SHORT_MS) {
      return { kind: 'slow', text: `${slowest.name} is the bottleneck: ${why}`, node: slowest.id };
    }
  }
  if (loop === null || loop.utilization < 0.9) return null;
  const busy = `Node-RED itself is ${percent(loop.utilization)} busy.`;
  return { kind: 'slow', text: `${busy} Requests wait for their turn in its event loop.`, node: null };
}

function well({ stages, requestsPerSecond }: Judged): Verdict {
  const partly = stages.find(({ health }) => health === 'partly');
  if (!partly) {
    return {
      kind: 'good',
      text: requestsPerSecond > 0 ? 'All is well.' : 'All is well. Nothing runs now.',
      node: null,
    };
  }
  return { kind: 'startup', text: `${partly.name} serves with fewer workers: ${partly.words}.`, node: partly.id };
}

/** @returns the first part of a sentence that may have several */
function clause(why: string): string {
  return why.split(';', 1)[0] as string;
}

function percent(share: number): string {
  return `${Math.round(share * 100)} %`;
}

function ms(value: number): string {
  return value < 999.5
    ? `${value < 9.95 ? Math.round(value * 10) / 10 : Math.round(value)} ms`
    : `${Math.round(value / 100) / 10} s`;
}
