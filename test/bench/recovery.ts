/** Part e: a worker is killed under load; and what an engine that does nothing takes of the memory. */
import { Bed } from './bed.ts';
import { interleave, median, medianOf, residentMb, sleep } from './measure.ts';
import { atMost, figure, type Part, type PartResult } from './report.ts';

/** Long enough that the kill finds the request in the worker. */
const RUN_MS = 400;
const SETTLE_MS = 1500;

interface Recovery {
  /** From the kill to the answer of the request that was running. */
  readonly detectedMs: number;
  /** From the kill to the first result of the new worker, less the model's own time. */
  readonly servingMs: number;
  readonly startMs: number;
}

export const recovery: Part = {
  letter: 'e',
  title: 'loss of a worker, memory',
  async run({ rounds }) {
    const { kill } = await interleave(rounds + 2, { kill: killOnce });
    const memory = await idleMemory();
    return tell(kill, memory);
  },
};

async function killOnce(): Promise<Recovery> {
  const launchedAt = performance.now();
  // A separate runtime per round: the first restart is immediate, later ones are held back.
  const bed = await Bed.start({ slow: [{ modelet: 'sleep', init: { ms: RUN_MS } }], echo: [{ modelet: 'echo' }] });
  const startMs = performance.now() - launchedAt;
  try {
    const [victim] = bed.workerPids('slow');
    const doomed = bed.request('slow', 1).then(
      () => new Error('the request survived its worker'),
      (error: Error & { code?: string }) => ({ at: performance.now(), code: error.code }),
    );
    await sleep(RUN_MS / 4);
    const killedAt = performance.now();
    process.kill(victim as number, 'SIGKILL');
    const lost = await doomed;
    if (lost instanceof Error || lost.code !== 'worker_lost')
      throw new Error(`unexpected end: ${JSON.stringify(lost)}`);
    await bed.request('slow', 2);
    return { detectedMs: lost.at - killedAt, servingMs: performance.now() - killedAt - RUN_MS, startMs };
  } finally {
    await bed.close();
  }
}

interface Memory {
  readonly engineMb: number;
  readonly workerMb: number;
}

async function idleMemory(): Promise<Memory> {
  const bed = await Bed.start({ echo: [{ modelet: 'echo' }] });
  try {
    await bed.request('echo', 1);
    await sleep(SETTLE_MS);
    return { engineMb: residentMb(bed.enginePid), workerMb: residentMb(bed.workerPids('echo')[0] as number) };
  } finally {
    await bed.close();
  }
}

function tell(kills: readonly Recovery[], memory: Memory): PartResult {
  const spread = (read: (kill: Recovery) => number): string[] => {
    const values = kills.map(read);
    return [figure(median(values)), figure(Math.max(...values))];
  };
  const detected = medianOf(kills, ({ detectedMs }) => detectedMs);
  const serving = medianOf(kills, ({ servingMs }) => servingMs);
  return {
    tables: [
      {
        title: 'e. A worker is killed with SIGKILL while it runs a batch, ms',
        columns: ['what', 'median', 'worst'],
        rows: [
          ['its request is answered with worker_lost', ...spread(({ detectedMs }) => detectedMs)],
          ['the next request has its result (less the model)', ...spread(({ servingMs }) => servingMs)],
          ['for comparison: engine and two workers started from nothing', ...spread(({ startMs }) => startMs)],
        ],
      },
      {
        title: 'e. Memory of idle processes, MB resident',
        columns: ['process', 'MB'],
        rows: [
          ['engine', figure(memory.engineMb)],
          ['worker', figure(memory.workerMb)],
        ],
      },
    ],
    budgets: [
      atMost({ what: 'worker killed: detected', value: detected, limit: 10, unit: ' ms', gates: false }),
      atMost({
        what: 'worker killed: serving again, less model load',
        value: serving,
        limit: 150,
        unit: ' ms',
        gates: false,
      }),
      atMost({ what: 'memory of an idle engine', value: memory.engineMb, limit: 80, unit: ' MB', gates: false }),
      { what: 'memory over a 10-minute soak', target: 'flat', measured: '-', met: null, gates: false },
    ],
  };
}
