/** Part q: the p99 that measuring a stage predicts beside that of the stage, by a model that waits as an accelerator computes. */
import { fileURLToPath } from 'node:url';
import { compileStage } from '../../src/config/compile-stage.ts';
import { fittedCost, proposed, type Sizing, type StageRuns, sizingsFor } from '../../src/core/queues/sizing.ts';
import { allowedCpus } from '../../src/process/affinity.ts';
import { probeLauncher } from '../../src/process/parent/launch.ts';
import { measureStage } from '../../src/runtime/service/trial/measure.ts';
import { encodeInput } from '../../src/runtime/service/trial/trial.ts';
import { repositoryRoot } from '../fixtures/repository.ts';
import { Bed } from './bed.ts';
import { openLoop } from './load.ts';
import { percentile } from './measure.ts';
import { atMost, figure, type Part } from './report.ts';

const MODEL = 'fills-up';
const BATCH = 32;
/** A run of n items takes 100 + 5 n ms, so that neither the machine's speed nor other load on it counts much. */
const TIMES = { callMs: 100, tokenMs: 0.5 } as const;
const TEXT = { ids: Array.from({ length: 10 }, (_, id) => id) };
const RATES = [10, 30, 90];
/** Requests of each run, at the usual scale. */
const REQUESTS = 600;
const MOST_OFF = 25;

async function measured(): Promise<StageRuns> {
  const path = fileURLToPath(new URL(`./modelets/${MODEL}.js`, import.meta.url));
  const raw = { name: MODEL, runtime: 'bench', source: 'file', path, init: JSON.stringify(TIMES) };
  const modelet = { ...compileStage(raw, (file) => file), requireFrom: repositoryRoot };
  const cpus = allowedCpus();
  const spec = { stage: MODEL, modelet, input: encodeInput(TEXT), maxBatchSize: BATCH, maxWorkers: 1 };
  return measureStage(spec, { allowedCpus: cpus, launcher: await probeLauncher(cpus) });
}

/** Returns the times of requests that come at random. */
async function realP99({ batching }: Sizing, rate: number, requests: number): Promise<number> {
  const bed = await Bed.start({ [MODEL]: [{ modelet: MODEL, init: TIMES, batching }] });
  try {
    const load = { perSecond: rate, seconds: requests / rate, isRandom: true };
    const { ms } = await openLoop(
      (value, settled) => bed.send(MODEL, value, settled),
      () => TEXT,
      load,
    );
    return percentile(ms, 99);
  } finally {
    await bed.close();
  }
}

export const sizing: Part = {
  letter: 'q',
  title: 'predictions of measuring a stage',
  async run({ seconds }) {
    const runs = await measured();
    const rows: string[][] = [];
    let worst = 0;
    for (const rate of RATES) {
      const choice = proposed(sizingsFor(runs, rate, BATCH));
      const { policy, maxBatchSize, maxWaitMs } = choice.batching;
      const predicted = choice.prediction.p99Ms;
      const real = await realP99(choice, rate, REQUESTS * Math.min(seconds, 1));
      const off = Math.abs(predicted / real - 1) * 100;
      worst = Math.max(worst, off);
      const rule = policy === 'greedy' ? policy : `${policy}, ${figure(maxWaitMs)} ms`;
      rows.push([String(rate), String(maxBatchSize), rule, figure(predicted), figure(real), `${Math.round(off)} %`]);
    }
    const columns = ['requests/s', 'batch', 'policy', 'predicted p99, ms', 'p99 of the stage, ms', 'off by'];
    const { fixedMs, itemMs } = fittedCost(runs.runs);
    const notes = [
      `Measured as ${figure(fixedMs)} + ${figure(itemMs)} n ms: what is more comes of other load on the machine.`,
    ];
    const what = 'predicted p99 off from that of the stage';
    return {
      tables: [{ title: 'q. A model of 100 + 5 n ms, one worker, requests at random', columns, rows, notes }],
      budgets: [atMost({ what, value: worst, limit: MOST_OFF, unit: ' %', gates: false })],
    };
  },
};
