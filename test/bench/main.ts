/**
 * The benchmark: what the design promises in figures, measured as ratios within one run. Started by scripts/bench.mjs.
 *
 *   node dist/test/bench/main.js [--only a,b] [--quick] [--gate]
 */
import { cpus, totalmem } from 'node:os';
import { parseArgs } from 'node:util';
import { continuousBatching } from './continuous-batching.ts';
import { durableStore } from './durable-store.ts';
import { growth } from './growth.ts';
import { http } from './http.ts';
import { isolation } from './isolation.ts';
import { itemCost } from './item-cost.ts';
import { languages } from './languages.ts';
import { lengths } from './lengths.ts';
import { busyShare } from './measure.ts';
import { overload } from './overload.ts';
import { overshoot } from './overshoot.ts';
import { pictures } from './pictures.ts';
import { recovery } from './recovery.ts';
import { type Budget, budgetTable, type Part, renderTable, type Scale } from './report.ts';
import { responsiveness } from './responsiveness.ts';
import { routes } from './routes.ts';
import { seedWorkload } from './seed-workload.ts';
import { sizing } from './sizing.ts';
import { streams } from './streams.ts';
import { webAssembly } from './web-assembly.ts';
import { workerHosts } from './worker-hosts.ts';

const PARTS: readonly Part[] = [
  seedWorkload,
  itemCost,
  http,
  responsiveness,
  recovery,
  routes,
  overshoot,
  isolation,
  durableStore,
  languages,
  overload,
  workerHosts,
  continuousBatching,
  streams,
  lengths,
  pictures,
  sizing,
  growth,
  webAssembly,
];
const FULL: Scale = { rounds: 5, seconds: 1 };
const QUICK: Scale = { rounds: 2, seconds: 0.6 };

const { values: options } = parseArgs({
  options: { only: { type: 'string' }, quick: { type: 'boolean' }, gate: { type: 'boolean' } },
});
const wanted = options.only?.split(',');
const unknown = wanted?.filter((letter) => !PARTS.some((part) => part.letter === letter)) ?? [];
if (unknown.length > 0) {
  console.error(
    `no part ${unknown.join(', ')}: ${PARTS.map(({ letter, title }) => `${letter} (${title})`).join(', ')}`,
  );
  process.exit(2);
}

const startedAt = performance.now();
const gigabytes = Math.round(totalmem() / 2 ** 30);
console.log(`Node ${process.versions.node}, ${process.platform}, ${cpus().length} cores, ${gigabytes} GB`);
console.log(`Other jobs took ${Math.round((await busyShare()) * 100)} % of the cores just before.\n`);
const budgets: Budget[] = [];
for (const part of PARTS) {
  if (wanted && !wanted.includes(part.letter)) continue;
  const result = await part.run(options.quick ? QUICK : FULL);
  for (const table of result.tables) console.log(renderTable(table));
  budgets.push(...result.budgets);
}
console.log(renderTable(budgetTable(budgets)));
console.log(`${Math.round((performance.now() - startedAt) / 1000)} s`);

const missed = budgets.filter((budget) => budget.met === false);
const failing = missed.filter((budget) => budget.gates);
if (missed.length > 0) console.log(`${missed.length} missed, ${failing.length} of them ratios or CPU per item`);
if (options.gate && failing.length > 0) {
  console.error(`FAILED: ${failing.map(({ what }) => what).join('; ')}`);
  process.exit(1);
}
process.exit(0);
