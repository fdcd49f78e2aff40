/** Pipeline metrics: sends the activity of a runtime in each interval, as messages for dashboards. */
import type { Node, NodeAPI, NodeDef } from 'node-red';
import { compileMetrics } from '../src/config/compile.ts';
import { wallTimeAt } from '../src/core/clock.ts';
import { ModeletError } from '../src/core/errors.ts';
import { configure } from '../src/node-red/adapter.ts';
import { gatesOf, seriesOf, stageRows, workerRows } from '../src/node-red/admin/dashboard.ts';
import { aroundOf } from '../src/node-red/admin/live-view.ts';
import { type Pipeline, pipelineOf } from '../src/node-red/pipeline.ts';
import { metricsBadge, showInvalid } from '../src/node-red/status.ts';
import { intervalBetween, type Measurement } from '../src/observe/views/interval.ts';
import { viewBetween } from '../src/observe/views/view.ts';
import type { Service } from '../src/server/service.ts';

export default function register(RED: NodeAPI): void {
  const pipeline = pipelineOf(RED);
  RED.nodes.registerType('modelet-metrics', function (this: Node, definition: NodeDef) {
    RED.nodes.createNode(this, definition);
    const config = configure(() => compileMetrics({ ...definition }));
    if (config instanceof ModeletError) {
      showInvalid(this, config);
      return;
    }
    // The last look; an interval needs two looks at the same service, so a new or replaced runtime has none yet.
    let before: { readonly service: Service; readonly look: Measurement } | null = null;
    // Null, because the badge of the node that this one replaces may still be shown.
    let told: number | null = null;
    const tell = (runtimes: number): void => {
      if (runtimes !== told) this.status(metricsBadge(runtimes));
      told = runtimes;
    };
    const report = (): void => {
      const services = servicesOf(pipeline, config.runtime);
      const service = services.length === 1 ? (services[0] as Service) : null;
      tell(services.length);
      const look = service?.measure() ?? null;
      if (look && before?.service === service) {
        const interval = intervalBetween(before.look, look, Math.round(wallTimeAt(look.at)));
        const gates = gatesOf(pipeline.gates.measured, service.id);
        const series = seriesOf(interval, gates);
        const { kind, text } = viewBetween([before.look], [look], aroundOf(pipeline)).verdict;
        this.send([
          { payload: { ...interval, gates, verdict: { kind, text } } },
          series,
          stageRows(interval),
          workerRows(look.snapshot.stages),
        ]);
      }
      before = service && look ? { service, look } : null;
    };
    const timer = setInterval(report, config.intervalMs);
    this.on('close', () => clearInterval(timer));
  });
}

/** Returns the service of the named runtime, or all if none is named. A runtime without stages has none. */
function servicesOf({ services }: Pipeline, runtime: string): readonly Service[] {
  return runtime === '' ? services : services.filter(({ id }) => id === runtime);
}
