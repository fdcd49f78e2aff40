/**
 * A service on the machine as it is here, with the launch helpers that are found here: has each stage of its first
 * argument (JSON of StageSpecs) answer, and tells in a line of JSON.
 */
import { allowedCpus } from '../../../src/process/affinity.ts';
import { probeLauncher } from '../../../src/process/parent/launch.ts';
import { until } from '../../fixtures/polling.ts';
import { type StageSpec, TestService } from '../../fixtures/service.ts';

const stages = JSON.parse(process.argv[2] as string) as readonly StageSpec[];
const granted = allowedCpus();
const launcher = await probeLauncher(granted);
const routes = Object.fromEntries(stages.map(({ id }) => [id, [id]]));
const service = new TestService({ stages, routes }, { allowedCpus: granted, launcher });

const answers: Record<string, unknown> = {};
for (const { id } of stages) {
  const { code, error, value } = await service.answer('question', { entry: id });
  answers[id] = error ? `${code}: ${error.message}` : value;
}
const rssBytes = (): (number | null)[] =>
  service.service.snapshot().stages.map(({ workers }) => workers[0]?.rssBytes ?? null);
await until('the memory of each worker is shown', () => rssBytes().every((bytes) => bytes !== null)).catch(() => {});
const { restarts } = service.service.snapshot().engine;
const told = { granted, launcher, answers, restarts, rssBytes: rssBytes() };
await service.end();
console.log(JSON.stringify(told));
