/**
 * A server process to be killed: runs a Service as its first argument says (JSON of a ServiceSpec), tells in a line
 * of JSON when all workers are ready, submits the inputs of its second (JSON array), and then applies its third, if
 * there is one (JSON of a PlanSpec).
 */
import { type PlanSpec, type ServiceSpec, startService } from '../../fixtures/service.ts';

const [spec, inputs, redefined] = process.argv.slice(2).map((text) => JSON.parse(text) as unknown);
const service = await startService(spec as ServiceSpec);
const pids = await service.ready();
console.log(JSON.stringify({ engine: service.enginePid, pids }));
for (const input of inputs as unknown[]) service.answer(input).catch(() => {});
if (redefined) service.apply(redefined as PlanSpec);
