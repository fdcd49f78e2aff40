/**
 * Entry of `npm run soak -- --minutes N [--rate R] [--seed S]`: a Node-RED under a steady rate of HTTP requests, to
 * which something happens every few seconds. Tells in a table what became of every request, and of the memory.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { residentMb } from '../bench/measure.ts';
import { NodeRedProcess } from '../fixtures/node-red-process.ts';
import { kill9, killStarted } from '../fixtures/processes.ts';
import { NodeRedBed, pipelineFlows, settledIn } from './node-red-bed.ts';
import { report, type Sample, type Tally, verdict } from './soak-report.ts';

const { values: options } = parseArgs({
  options: {
    minutes: { type: 'string', default: '1' },
    rate: { type: 'string', default: '100' },
    seed: { type: 'string', default: String(Date.now() % 100_000) },
  },
});
const durationMs = Number(options.minutes) * 60_000;
const ratePerSecond = Number(options.rate);

const TICK_MS = 10;
const SAMPLE_MS = 5000;
/** Between two faults; the mean is half way. */
const SHORTEST_PAUSE_MS = 3000;
const LONGEST_PAUSE_MS = 9000;

/** 0..1, the same sequence for the same seed (mulberry32). */
function randomFrom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

const random = randomFrom(Number(options.seed));
const red = await NodeRedProcess.start(pipelineFlows());
const bed = await NodeRedBed.on(red);
const startedAt = performance.now();
const tally: Tally = { sent: 0, codes: new Map(), wrong: 0, latencies: [], faults: new Map() };
const samples: Sample[] = [];
let version = 0;

const isOver = (): boolean => performance.now() - startedAt > durationMs;

/** The possible events; repeated entries are more frequent. */
const FAULTS: readonly (readonly [string, () => Promise<void>])[] = [
  ['worker killed', killWorker],
  ['worker killed', killWorker],
  ['worker killed', killWorker],
  ['engine killed', killEngine],
  ['deploy, nothing changed', () => red.deploy(pipelineFlows(version))],
  ['deploy, a stage changed', () => red.deploy(pipelineFlows(++version))],
];

async function killWorker(): Promise<void> {
  const { runtimes } = await red.snapshot();
  const pids = runtimes.flatMap(({ stages }) => stages.flatMap(({ workers }) => workers.map(({ pid }) => pid)));
  const alive = pids.filter((pid) => pid !== null);
  killIfThere(alive[Math.floor(random() * alive.length)]);
}

async function killEngine(): Promise<void> {
  const { runtimes } = await red.snapshot();
  killIfThere(runtimes[0]?.engine.pid);
}

/** It may just have ended by itself. */
function killIfThere(pid: number | null | undefined): void {
  try {
    if (pid) kill9(pid);
  } catch (thrown) {
    if ((thrown as { code?: string }).code !== 'ESRCH') throw thrown;
  }
}

async function sendAll(): Promise<void> {
  const answers: Set<Promise<void>> = new Set();
  while (!isOver()) {
    const due = ((performance.now() - startedAt) * ratePerSecond) / 1000;
    while (tally.sent < due) {
      const answer: Promise<void> = sendOne().finally(() => answers.delete(answer));
      answers.add(answer);
    }
    await delay(TICK_MS);
  }
  await Promise.all(answers);
}

async function sendOne(): Promise<void> {
  tally.sent += 1;
  const number = tally.sent;
  const sentAt = performance.now();
  const { code, n } = await bed.post(number % 5 === 0 ? '/beside' : '/model', { n: number });
  tally.codes.set(code, (tally.codes.get(code) ?? 0) + 1);
  if (code !== 'ok') return;
  if (n !== number) tally.wrong += 1;
  tally.latencies.push(performance.now() - sentAt);
}

async function harm(): Promise<void> {
  while (!isOver()) {
    await delay(SHORTEST_PAUSE_MS + random() * (LONGEST_PAUSE_MS - SHORTEST_PAUSE_MS));
    if (isOver()) return;
    const [name, happen] = FAULTS[Math.floor(random() * FAULTS.length)] as (typeof FAULTS)[number];
    await happen();
    tally.faults.set(name, (tally.faults.get(name) ?? 0) + 1);
  }
}

async function sampleMemory(): Promise<void> {
  while (!isOver()) {
    // Else its memory rises and falls by more than what is looked for.
    await red.collectGarbage();
    const { runtimes } = await red.snapshot();
    const [runtime] = runtimes;
    const workers = runtime?.stages.flatMap((stage) => stage.workers.map(({ pid }) => pid)) ?? [];
    samples.push({
      minutes: (performance.now() - startedAt) / 60_000,
      nodeRed: resident(red.pid),
      engine: resident(runtime?.engine.pid),
      workers: mean(workers.map(resident).filter((megabytes) => megabytes > 0)),
    });
    await delay(SAMPLE_MS);
  }
}

/** 0 for a process that has just ended. */
function resident(pid: number | null | undefined): number {
  try {
    return pid ? residentMb(pid) : 0;
  } catch {
    return 0;
  }
}

function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / Math.max(1, values.length);
}

try {
  console.log(`${options.minutes} minutes, ${ratePerSecond} requests a second, seed ${options.seed}\n`);
  await Promise.all([sendAll(), harm(), sampleMemory()]);
  await red.whenReady();
  const result = { tally, samples, settled: await settledIn(red), minutes: Number(options.minutes) };
  console.log(report(result));
  const failures = verdict(result);
  for (const failure of failures) console.log(`FAILED: ${failure}`);
  process.exitCode = failures.length > 0 ? 1 : 0;
  await red.end();
} finally {
  killStarted();
}
