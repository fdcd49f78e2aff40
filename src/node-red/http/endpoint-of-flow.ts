/**
 * The runtime behind a compiled endpoint in Node-RED's process: submits its requests, and does for them what a message
 * would have caused on its way: spans, log lines, and copies for debug nodes.
 */
import type { Node, NodeAPI } from 'node-red';
import type { Deadline } from '../../core/clock.ts';
import type { EndpointSpec } from '../../core/endpoints.ts';
import type { ModeletError } from '../../core/errors.ts';
import type { ModeletDescription, RequestNumber } from '../../core/model.ts';
import type { Settlement } from '../../core/routes/route.ts';
import { stickyHash } from '../../core/versions.ts';
import { type EndpointRequest, type EndpointRuntime, isOfRequest } from '../../endpoint/served-endpoint.ts';
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

export class EndpointOfFlow implements EndpointRuntime {
  readonly #flow: FlowBehind;

  constructor(flow: FlowBehind) {
    this.#flow = flow;
  }

  submit({ requestId, payload, deadline, places, http, onPart, onSettled }: EndpointRequest): RequestNumber {
    const { service, spec, tracing } = this.#flow;
    const traced = tracing.begin(http);
    const copies = spec.copies.length > 0 ? new DebugCopies(this.#flow.RED, spec, requestId, deadline) : null;
    try {
      return service.submit({
        entry: spec.entry,
        requestId,
        gateMs: 0,
        payload,
        deadline,
        priority: 0,
        patient: spec.patient,
        places,
        group: 0,
        sticky: spec.sticky === null ? 0 : stickyHash(http.headers[spec.sticky]),
        meta: null,
        ...(onPart
          ? {
              onPart: (part, index, taken) => {
                onPart(part, taken);
                copies?.part(part, index);
              },
            }
          : {}),
        onSettled: (settlement) => {
          if (traced) this.#endSpans(traced, requestId, settlement);
          onSettled(settlement);
          if (!settlement.outcome.ok) this.#note(settlement.outcome.error, requestId, settlement);
          else copies?.result(settlement, settlement.outcome.value, (ref) => this.#nameOf(ref));
        },
      });
    } catch (thrown) {
      const error = thrown as ModeletError;
      if (traced) this.#endSpans(traced, requestId, { outcome: { ok: false, error }, timings: [], gathered: null });
      throw thrown;
    }
  }

  abandon(id: RequestNumber, error: ModeletError): void {
    this.#flow.service.abandon(id, error);
  }

  deadlineFor(timeoutMs: number): Deadline {
    return this.#flow.service.deadlineFor(timeoutMs);
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

  refused(error: ModeletError, requestId: string): void {
    // The service has counted its own refusals.
    if (isOfRequest(error.code)) this.#flow.service.countRefused(error);
    this.#note(error, requestId, null);
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

  /** Logs an error as the flow would have: at debug level, and at the stage if nothing else handles the stage's errors. */
  #note(error: ModeletError, requestId: string, settlement: Settlement | null): void {
    const { service, spec, RED } = this.#flow;
    const { code, message, stage } = error;
    if (code === 'cancelled') return;
    const fields = { requestId, code };
    service.log({ level: 'debug', message: `${code}: ${message}`, fields, ...(stage === undefined ? {} : { stage }) });
    const failing = stage !== undefined && spec.failure === null ? this.#failingNode(stage, settlement) : undefined;
    const node = failing === undefined ? null : (RED.nodes.getNode(failing) as Node | null);
    if (node) noteUnhandled(RED, node, error, requestId);
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
