/** One sentence about all pipelines: that all is well, or the first thing that is not and what to do about it. Pure. */
import { percent } from '../../core/figures.ts';
import type { StageReading } from '../../core/readings.ts';
import { countOf } from '../meters/histogram.ts';
import { clause, type Finding, findingsIn, type ItemTimes, type Judged, type JudgedStage } from './findings.ts';

/** The first finding, and the others. */
export interface Verdict extends Finding {
  readonly others: readonly Finding[];
}

/** A wait this much longer than the run is worth a word: shorter ones come with every batch. */
const LONG_WAIT = 1;
/** Waits below this, in ms, are not worth a remark. */
const SHORT_MS = 5;

export function verdictOn(judged: Judged): Verdict {
  const found = [...findingsIn(judged), ...[whatWaits(judged)].filter((finding) => finding !== null)];
  const [first = well(judged), ...others] = found;
  return { ...first, others };
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

function whatWaits({ stages, gates, loop }: Judged): Finding | null {
  const closed = gates.find(({ waiting }) => waiting > 0);
  if (closed) {
    return {
      kind: 'slow',
      text: `${closed.waiting} wait at gate ${closed.name}: ${clause(closed.why)}.`,
      node: closed.id,
      actions: [],
    };
  }
  const slowest = slowestOf(stages);
  if (slowest?.times) {
    const { queueMs, batchMs, runMs } = slowest.times;
    // The policy `adaptive` waits on purpose, within its goal.
    const isChosen = slowest.batchChoice !== null && batchMs > queueMs;
    const [wait, why] =
      queueMs >= batchMs
        ? [queueMs, `items wait ${ms(queueMs)} for a worker. Add workers, or make batches larger.`]
        : [batchMs, `items wait ${ms(batchMs)} for their batch to fill. Lower the wait of the batcher.`];
    if (!isChosen && wait > LONG_WAIT * runMs && wait > SHORT_MS) {
      return { kind: 'slow', text: `${slowest.name} is the bottleneck: ${why}`, node: slowest.id, actions: [] };
    }
  }
  if (loop === null || loop.utilization < 0.9) return null;
  const busy = `Node-RED itself is ${percent(loop.utilization)} busy.`;
  return { kind: 'slow', text: `${busy} Requests wait for their turn in its event loop.`, node: null, actions: [] };
}

function well({ stages, requestsPerSecond }: Judged): Finding {
  const partly = stages.find(({ health }) => health === 'partly');
  if (!partly) {
    return {
      kind: 'good',
      text: requestsPerSecond > 0 ? 'All is well.' : 'All is well. Nothing runs now.',
      node: null,
      actions: [],
    };
  }
  return {
    kind: 'startup',
    text: `${partly.name} serves with fewer workers: ${partly.words}.`,
    node: partly.id,
    actions: [],
  };
}

function ms(value: number): string {
  return value < 999.5
    ? `${value < 9.95 ? Math.round(value * 10) / 10 : Math.round(value)} ms`
    : `${Math.round(value / 100) / 10} s`;
}
