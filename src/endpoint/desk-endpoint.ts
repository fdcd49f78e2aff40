/**
 * The runtime behind a compiled endpoint, in whichever process: makes requests to the endpoint requests of the desk. The
 * host adds what a message would have caused on its way through the flow.
 */
import type { Deadline } from '../core/clock.ts';
import type { EndpointSpec } from '../core/endpoints.ts';
import type { ModeletError } from '../core/errors.ts';
import type { LogRecord, Payload, RequestNumber } from '../core/model.ts';
import type { Settlement } from '../core/routes/route.ts';
import { stickyHash } from '../core/versions.ts';
import type { Desk } from '../ledger/desk.ts';
import { isRefusal } from '../observe/log/refusals.ts';
import { type EndpointRequest, type EndpointRuntime, isOfRequest } from './served-endpoint.ts';

/** The desk, as endpoints see it. */
export type EndpointDesk = Pick<Desk<unknown>, 'submit' | 'abandon' | 'deadlineFor' | 'countRefused'>;

/** Sees one request on its way. */
export interface RequestWatcher {
  onPart(part: Payload, index: number): void;
  /** Called before the client has its answer, also if the desk refuses the request. */
  onSettled(settlement: Settlement): void;
  /** Called after the client has its answer. */
  onAnswered(settlement: Settlement): void;
}

/** The process that serves an endpoint. */
export interface EndpointHost extends Pick<EndpointRuntime, 'missing' | 'described'> {
  /** Begins to watch a request; returns null if nothing needs to. Null: nothing watches any request. */
  readonly watch: ((request: EndpointRequest) => RequestWatcher | null) | null;
  log(record: LogRecord): void;
  /** Logs an error of a stage that nothing in the flow handles. `settlement`: null if the request did not come so far. */
  unhandled(stage: string, error: ModeletError, requestId: string, settlement: Settlement | null): void;
}

export class DeskEndpoint implements EndpointRuntime {
  readonly #desk: EndpointDesk;
  readonly #spec: EndpointSpec;
  readonly #host: EndpointHost;

  constructor(desk: EndpointDesk, spec: EndpointSpec, host: EndpointHost) {
    this.#desk = desk;
    this.#spec = spec;
    this.#host = host;
  }

  submit(request: EndpointRequest): RequestNumber {
    const { requestId, payload, deadline, places, http, onPart, onSettled } = request;
    const { entry, patient, sticky } = this.#spec;
    const watcher = this.#host.watch?.(request);
    try {
      return this.#desk.submit({
        entry,
        requestId,
        gateMs: 0,
        payload,
        deadline,
        priority: 0,
        patient,
        places,
        group: 0,
        sticky: sticky === null ? 0 : stickyHash(http.headers[sticky]),
        meta: null,
        onPart:
          onPart &&
          ((part, index, taken) => {
            onPart(part, taken);
            watcher?.onPart(part, index);
          }),
        onSettled: (settlement) => {
          watcher?.onSettled(settlement);
          onSettled(settlement);
          if (!settlement.outcome.ok) this.#note(settlement.outcome.error, requestId, settlement);
          watcher?.onAnswered(settlement);
        },
      });
    } catch (thrown) {
      watcher?.onSettled({ outcome: { ok: false, error: thrown as ModeletError }, timings: [], gathered: null });
      throw thrown;
    }
  }

  abandon(id: RequestNumber, error: ModeletError): void {
    this.#desk.abandon(id, error);
  }

  deadlineFor(timeoutMs: number): Deadline {
    return this.#desk.deadlineFor(timeoutMs);
  }

  missing(): ReturnType<EndpointRuntime['missing']> {
    return this.#host.missing();
  }

  described(): ReturnType<EndpointRuntime['described']> {
    return this.#host.described();
  }

  refused(error: ModeletError, requestId: string): void {
    // The desk has counted its own refusals.
    if (isOfRequest(error.code)) this.#desk.countRefused(error);
    this.#note(error, requestId, null);
  }

  /** Logs an error as the flow would: at debug level, and as an error of the failing stage if nothing handles it. */
  #note(error: ModeletError, requestId: string, settlement: Settlement | null): void {
    const { code, message, stage } = error;
    if (code === 'cancelled') return;
    const record = { level: 'debug', message: `${code}: ${message}`, fields: { requestId, code } } as const;
    this.#host.log({ ...record, ...(stage === undefined ? {} : { stage }) });
    if (this.#spec.failure !== null || stage === undefined || isRefusal(code)) return;
    this.#host.unhandled(stage, error, requestId, settlement);
  }
}
