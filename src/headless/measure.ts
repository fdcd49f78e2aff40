/** The command `measure`: what the runs of stages cost on this machine, and which batches and workers suit a rate. */
import { modulesFolder, userFolder } from '../config/folders.ts';
import { asError } from '../core/errors.ts';
import { figure, percent } from '../core/figures.ts';
import {
  fittedCost,
  meanRuns,
  proposed,
  type Sizing,
  type StageRuns,
  sizingsFor,
  usualRate,
} from '../core/queues/sizing.ts';
import { planModelet } from '../flow/plan.ts';
import type { Machine } from '../runtime/service/runtime-pins.ts';
import { measureStage } from '../runtime/service/trial/measure.ts';
import type { HeadlessFlows } from './compile-flows.ts';
import { section } from './report.ts';

export interface MeasureOptions {
  /** Name of the only stage to measure; null: all. */
  readonly stage: string | null;
  /** Items per second; null: a rate that one worker can do. */
  readonly rate: number | null;
  /** p99 that is fast enough, in ms; null: about as fast as more workers would be. */
  readonly goalMs: number | null;
}

/** Measures stages one after the other, and prints a table of each. Returns whether all could be measured. */
export async function measure(
  flows: HeadlessFlows,
  { stage, rate, goalMs }: MeasureOptions,
  machine: Machine,
  print: (text: string) => void,
): Promise<boolean> {
  const stages = [...flows.nodes.allSettings('stage')].map(([id, config]) => {
    return { id, config, name: flows.plan.stageNames.get(id) ?? id };
  });
  const wanted = stages.filter(({ id, name }) => stage === null || stage === id || stage === name);
  if (wanted.length === 0) {
    const names = stages.map(({ name }) => name).join(', ') || 'none';
    throw new Error(stage === null ? 'there is no stage' : `no stage is called ${stage}; there are: ${names}`);
  }
  let areMeasured = true;
  for (const { id, config, name } of wanted) {
    const { settings } = flows.source;
    const folders = { modules: modulesFolder(settings), user: userFolder(settings) };
    const { maxBatchSize: most = 1 } = flows.plan.batching.get(id) ?? {};
    const maxBatchSize = most === 1 ? null : most;
    try {
      const spec = { stage: name, modelet: planModelet(config, folders), input: null, maxBatchSize, maxWorkers: null };
      print(tableOf(name, await measureStage(spec, machine), rate, goalMs));
    } catch (thrown) {
      areMeasured = false;
      print(`${name}: ${asError(thrown).message}\n`);
    }
  }
  return areMeasured;
}

function tableOf(name: string, runs: StageRuns, given: number | null, goalMs: number | null): string {
  const cost = fittedCost(runs.runs);
  const means = meanRuns(runs.runs);
  const maxBatchSize = Math.max(...means.map(({ items }) => items));
  const rate = given ?? usualRate(runs, maxBatchSize);
  const sizings = sizingsFor(runs, rate, maxBatchSize);
  const choice = proposed(sizings, goalMs);
  const costs = means.map(({ items, ms }) => [String(items), figure(ms), figure(ms / items)]);
  const line = `${name}: a run takes ${figure(cost.fixedMs)} ms, and ${figure(cost.itemMs)} ms per item`;
  return [
    ...section(line, ['BATCH', 'RUN MS', 'MS PER ITEM'], costs),
    ...section(
      `At ${figure(rate)} items/s, where * is proposed`,
      ['', 'WORKERS', 'BATCH', 'POLICY', 'WAIT MS', 'ITEMS/S', 'P50 MS', 'P99 MS', 'BUSY'],
      sizings.map((sizing) => [sizing === choice ? '*' : '', ...rowOf(sizing)]),
    ),
  ].join('\n');
}

function rowOf({ workers, batching, prediction }: Sizing): string[] {
  const { maxBatchSize, policy, maxWaitMs } = batching;
  const { itemsPerSecond, p50Ms, p99Ms, busy } = prediction;
  const settings = [String(workers), String(maxBatchSize), policy, policy === 'greedy' ? '' : figure(maxWaitMs)];
  return [...settings, figure(itemsPerSecond), figure(p50Ms), figure(p99Ms), percent(busy)];
}
