/**
 * The host of a compiled endpoint in Node-RED's process. Does for its requests what a message would have caused on its
 * way: spans, log lines, and copies for debug nodes.
 */
import type { Node, NodeAPI } from 'node-red';
import type { EndpointSpec } from '../../core/endpoints.ts';
import type { ModeletError } from '../../core/errors.ts';
import type { LogRecord, ModeletDescription } from '../../core/model.ts';
import type { Settlement } from '../../core/routes/route.ts';
import type { EndpointHost, RequestWatcher } from '../../endpoint/desk-endpoint.ts';
import type { EndpointRequest, EndpointRuntime } from '../../endpoint/served-endpoint.ts';
import type { TracedRequest, Tracing } from '../../observe/export/tracing.ts';
import { missingIn } from '../../observe/views/snapshot.ts';
import type { Service } from '../../server/service.ts';
import { noteUnhandled } from '../request/error-exit.ts';
import { DebugCopies } from './debug-copies.ts';

export interface FlowBehind {
  readonly RED: NodeAPI;
  readonly tracing: Tracing;
  readonly service: Service;
  readonly spec: EndpointSpec;
  /** Ids of the stages, in the order of the route. */
  readonly stages: readonly string[];
  /** Their names. */
  readonly stageNames: readonly string[];
}

export class EndpointOfFlow implements EndpointHost {
  readonly #flow: FlowBehind;

  constructor(flow: FlowBehind) {
    this.#flow = flow;
  }

  /** Watches a request for OpenTelemetry, and for debug nodes beside the endpoint. */
  watch({ requestId, deadline, http }: EndpointRequest): RequestWatcher | null {
    const { RED, spec, tracing } = this.#flow;
    const traced = tracing.begin(http);
    const copies = spec.copies.length > 0 ? new DebugCopies(RED, spec, requestId, deadline) : null;
    if (!traced && !copies) return null;
    return {
      onPart: (part, index) => copies?.part(part, index),
      onSettled: (settlement) => {
        if (traced) this.#endSpans(traced, requestId, settlement);
      },
      onAnswered: (settlement) => {
        const { outcome } = settlement;
        if (outcome.ok) copies?.result(settlement, outcome.value, (ref) => this.#nameOf(ref));
      },
    };
  }

  missing(): readonly string[] {
    return missingIn(this.#flow.service.snapshot()).map(({ stage }) => stage);
  }

  described(): ReturnType<EndpointRuntime['described']> {
    const { service, spec, stages } = this.#flow;
    const { first, last } = spec.describedBy;
    const describe = (stage: string | null): ModeletDescription | null =>
      stage === null ? null : service.description(stage);
    return { first: describe(first), last: describe(last), mostRows: service.mostRows(stages) };
  }

  log(record: LogRecord): void {
    this.#flow.service.log(record);
  }

  unhandled(stage: string, error: ModeletError, requestId: string, settlement: Settlement | null): void {
    const { RED } = this.#flow;
    const failing = this.#failingNode(stage, settlement);
    const node = failing === undefined ? null : (RED.nodes.getNode(failing) as Node | null);
    if (node) noteUnhandled(RED, node, error, requestId);
  }

  #endSpans(traced: TracedRequest, requestId: string, { outcome, timings, gathered }: Settlement): void {
    traced.end({
      runtime: this.#flow.service.name,
      requestId,
      error: outcome.ok ? null : outcome.error,
      stages: timings.map(({ stage, ...timing }) => ({ name: this.#nameOf(stage), ...timing })),
      gathered,
    });
  }

  /** Returns the node that an error belongs to: a node that gathers branches, or a stage. */
  #failingNode(stage: string, settlement: Settlement | null): string | undefined {
    const { service, stages, stageNames } = this.#flow;
    const gather = settlement?.gathered?.failed ?? null;
    if (gather !== null) return service.node(gather);
    // A version's name is that of no stage on the route.
    return stages[stageNames.indexOf(stage)] ?? stages[settlement?.timings.length ?? 0] ?? stages[0];
  }

  #nameOf(ref: number): string {
    return this.#flow.service.stage(ref)?.name ?? String(ref);
  }
}
