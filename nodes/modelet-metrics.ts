/** Pipeline metrics: sends the activity of a runtime in each interval, as messages for dashboards. */
import type { Node, NodeAPI, NodeDef } from 'node-red';
import { compileMetrics } from '../src/config/compile.ts';
import { configure } from '../src/config/configure.ts';
import { ModeletError } from '../src/core/errors.ts';
import { Intervals } from '../src/node-red/admin/dashboard.ts';
import { pipelineOf } from '../src/node-red/pipeline.ts';
import { metricsBadge, showInvalid } from '../src/node-red/status.ts';

export default function register(RED: NodeAPI): void {
  const pipeline = pipelineOf(RED);
  RED.nodes.registerType('modelet-metrics', function (this: Node, definition: NodeDef) {
    RED.nodes.createNode(this, definition);
    const config = configure('modelet-metrics', () => compileMetrics({ ...definition }));
    if (config instanceof ModeletError) {
      showInvalid(this, config);
      return;
    }
    const intervals = new Intervals(pipeline, config.runtime);
    // Null, because the badge of the node that this one replaces may still be shown.
    let told: number | null = null;
    const report = (): void => {
      const { runtimes, messages } = intervals.next();
      if (runtimes !== told) this.status(metricsBadge(runtimes));
      told = runtimes;
      if (messages) this.send(messages);
    };
    const timer = setInterval(report, config.intervalMs);
    this.on('close', () => clearInterval(timer));
  });
}
