/** One sentence about all pipelines: that all is well, or the first thing that is not and what to do about it. Pure. */
import { percent } from '../../core/figures.ts';
import { clause, type Finding, finding, findingsIn, type Judged, type JudgedStage } from './findings.ts';
import type { ItemTimes } from './interval.ts';

/** The first finding, and the others. */
export interface Verdict extends Finding {
  readonly others: readonly Finding[];
}

/** A wait this much longer than the run is worth a word: shorter ones come with every batch. */
const LONG_WAIT = 1;
/** Waits below this, in ms, are not worth a remark. */
const SHORT_MS = 5;

export function verdictOn(judged: Judged): Verdict {
  const [first = well(judged), ...others] = [...findingsIn(judged), ...whatWaits(judged)];
  return { ...first, others };
}

/** @returns the stage in which items spend the most time; null if none ran anywhere */
export function slowestOf<Stage extends Pick<JudgedStage, 'times'>>(stages: readonly Stage[]): Stage | null {
  const ran = stages.filter(({ times }) => times !== null);
  return ran.toSorted((a, b) => totalOf(b.times) - totalOf(a.times))[0] ?? null;
}

function totalOf(times: ItemTimes | null): number {
  return times === null ? 0 : times.queueMs + times.batchMs + times.runMs;
}

function whatWaits({ stages, gates, loop }: Judged): Finding[] {
  const closed = gates.find(({ waiting }) => waiting > 0);
  if (closed) {
    return [finding('slow', `Gate ${closed.name} keeps ${closed.waiting} waiting: ${clause(closed.why)}.`, closed.id)];
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
      return [finding('slow', `${slowest.name} is the bottleneck: ${why}`, slowest.id)];
    }
  }
  if (loop === null || loop.utilization < 0.9) return [];
  const busy = `Node-RED itself is ${percent(loop.utilization)} busy.`;
  return [finding('slow', `${busy} Requests wait for their turn in its event loop.`)];
}

function well({ stages, requestsPerSecond }: Judged): Finding {
  const partly = stages.find(({ health }) => health === 'partly');
  if (partly) return finding('startup', `${partly.name} serves with fewer workers: ${partly.words}.`, partly.id);
  return finding('good', requestsPerSecond > 0 ? 'All is well.' : 'All is well. Nothing runs now.');
}

function ms(value: number): string {
  return value < 999.5
    ? `${value < 9.95 ? Math.round(value * 10) / 10 : Math.round(value)} ms`
    : `${Math.round(value / 100) / 10} s`;
}
