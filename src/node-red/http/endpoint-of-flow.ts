/**
 * The host of a compiled endpoint in Node-RED's process. Does for its requests what a message would have caused on its
 * way: spans, log lines, and copies for debug nodes.
 */
import type { Node, NodeAPI } from 'node-red';
import { type Deadline, systemClock } from '../../core/clock.ts';
import type { EndpointSpec } from '../../core/endpoints.ts';
import type { ModeletError } from '../../core/errors.ts';
import type { LogRecord, ModeletDescription, Payload } from '../../core/model.ts';
import type { Settlement } from '../../core/routes/route.ts';
import type { DescribedRoute, EndpointHost, EndpointRequest, RequestWatcher } from '../../http/served-endpoint.ts';
import type { TracedRequest, Tracing } from '../../observe/export/tracing.ts';
import { missingIn } from '../../observe/views/readiness.ts';
import type { Service } from '../../runtime/service/service.ts';
import { decodePayload } from '../../wire/codec/codec.ts';
import { noteUnhandled } from '../request/error-exit.ts';
import { appendTimings, type ModeletTrace, newTrace } from '../request/messages.ts';
import { lastPlace, sequenceOf } from '../request/part-messages.ts';

export interface FlowBehind {
  readonly RED: NodeAPI;
  /** null: requests have no spans. */
  readonly tracing: Tracing | null;
  readonly service: Service;
  readonly spec: EndpointSpec;
  /** Ids of the stages, in the order of the route. */
  readonly stages: readonly string[];
  /** Their names. */
  readonly stageNames: readonly string[];
}

export class EndpointOfFlow implements EndpointHost {
  readonly #flow: FlowBehind;
  readonly watch: EndpointHost['watch'];

  constructor(flow: FlowBehind) {
    this.#flow = flow;
    this.watch = flow.tracing || flow.spec.copies.length > 0 ? (request) => this.#watch(request) : null;
  }

  /** Watches a request for OpenTelemetry, and for debug nodes beside the endpoint. */
  #watch({ requestId, deadline, http }: EndpointRequest): RequestWatcher | null {
    const { RED, spec, tracing } = this.#flow;
    const traced = tracing?.begin(http);
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

  described(): DescribedRoute {
    const { service, spec, stages } = this.#flow;
    const { first, last } = spec.describedBy;
    const describe = (stage: string | null): ModeletDescription | null =>
      stage === null ? null : service.description(stage);
    return { first: describe(first), last: describe(last), ...service.rowTerms(stages) };
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

/**
 * Copies of one request's result for the debug nodes beside a compiled endpoint: the messages that they would get in the
 * flow, without `req` and `res`.
 */
class DebugCopies {
  readonly #RED: NodeAPI;
  readonly #spec: EndpointSpec;
  readonly #trace: ModeletTrace;
  readonly #msgid: string;
  #count = 0;

  constructor(RED: NodeAPI, spec: EndpointSpec, requestId: string, deadline: Deadline) {
    this.#RED = RED;
    this.#spec = spec;
    this.#trace = newTrace(requestId, deadline);
    this.#msgid = RED.util.generateId();
  }

  part(part: Payload, index: number): void {
    this.#count = index + 1;
    this.#trace.totalMs = systemClock.now() - this.#trace.startedAt;
    const parts = sequenceOf(this.#trace, { index });
    for (const id of this.#spec.parts?.copies ?? []) this.#send(id, { payload: decodePayload(part), parts });
  }

  result({ timings, gathered }: Settlement, value: Payload, nameOf: (ref: number) => string): void {
    appendTimings(this.#trace, timings, nameOf);
    const branches = gathered ? { branches: gathered.branches } : {};
    for (const id of this.#spec.copies) {
      const payload = decodePayload(value);
      if (!this.#spec.parts) this.#send(id, { payload, ...branches });
      else this.#send(id, this.#end(payload));
    }
  }

  /** Returns the message that follows all parts. */
  #end(payload: unknown): object {
    const parts = sequenceOf(this.#trace, lastPlace(this.#count, payload));
    return { ...(payload === null ? {} : { payload }), parts, complete: true };
  }

  #send(id: string, content: object): void {
    const msg = { _msgid: this.#msgid, ...content, modelet: structuredClone(this.#trace) };
    this.#RED.nodes.getNode(id)?.receive(msg);
  }
}
