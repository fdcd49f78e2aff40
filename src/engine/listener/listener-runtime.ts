/** The runtime behind the endpoints of a listener: opens their requests in the ledger and makes them items of the engine. */
import { type Clock, type Deadline, deadlineAfter } from '../../core/clock.ts';
import type { EndpointSpec, PlannedEndpoint } from '../../core/endpoints.ts';
import { ModeletError } from '../../core/errors.ts';
import type { LogRecord, RequestNumber } from '../../core/model.ts';
import { stickyHash } from '../../core/versions.ts';
import { type EndpointRequest, type EndpointRuntime, isOfRequest } from '../../endpoint/served-endpoint.ts';
import type { Ledger, NamedCaller } from '../../ledger/ledger.ts';
import { Failures } from '../../observe/log/failures.ts';
import { isRefusal } from '../../observe/log/refusals.ts';
import type { EngineBoot } from '../../wire/frames/bodies.ts';
import type { WireItem } from '../../wire/frames/frames.ts';

/** A request as the listener's ledger has it. */
export interface ListenerCaller extends NamedCaller {
  readonly patient: boolean;
}

export interface RuntimeHost {
  submit(item: WireItem): void;
  cancel(id: RequestNumber): void;
  /** The client of a request has read so many parts of its result. */
  taken(id: RequestNumber, parts: number): void;
  /** So many bytes have arrived, or leave. */
  onBytes(count: number): void;
  onLog(record: LogRecord): void;
}

export class ListenerRuntime {
  readonly #limits: EngineBoot['requests'];
  readonly #ledger: Ledger<ListenerCaller>;
  readonly #host: RuntimeHost;
  readonly #clock: Clock;
  readonly #failures: Map<string, Failures> = new Map();
  /** Endpoints of the present plan, by the node at which a message would enter. */
  #planned: ReadonlyMap<string, PlannedEndpoint> = new Map();
  /** Patient requests that are open. */
  #patient = 0;
  #isClosing = false;

  constructor({ requests }: EngineBoot, ledger: Ledger<ListenerCaller>, host: RuntimeHost, clock: Clock) {
    this.#limits = requests;
    this.#ledger = ledger;
    this.#host = host;
    this.#clock = clock;
  }

  apply(endpoints: readonly PlannedEndpoint[]): void {
    this.#planned = new Map(endpoints.map((endpoint) => [endpoint.spec.entry, endpoint]));
  }

  /** Refuses every further request. */
  close(): void {
    this.#isClosing = true;
  }

  /** Ends all open requests. */
  failAll(): void {
    this.#ledger.failAll(shuttingDown);
  }

  /** Notes that a request has settled. */
  left({ patient }: ListenerCaller): void {
    if (patient) this.#patient -= 1;
  }

  of(spec: EndpointSpec, told: Pick<EndpointRuntime, 'missing' | 'described'>): EndpointRuntime {
    return {
      ...told,
      submit: (request) => this.#submit(spec, request),
      abandon: (id, error) => {
        if (this.#ledger.settle(id, { ok: false, error })) this.#host.cancel(id);
      },
      deadlineFor: (timeoutMs): Deadline => deadlineAfter(this.#clock, timeoutMs),
      refused: (error, requestId) => {
        // The runtime has counted its own refusals.
        if (isOfRequest(error.code)) this.#ledger.countRefused(error.code);
        this.#note(spec, error, requestId);
      },
    };
  }

  #submit(spec: EndpointSpec, request: EndpointRequest): RequestNumber {
    const { requestId, payload, deadline, places, http, onPart, onSettled } = request;
    const { entry, patient } = spec;
    this.#host.onBytes(payload.bytes.byteLength);
    // The request may have begun before a deploy: it takes the route that is there now.
    const planned = this.#planned.get(entry);
    if (!planned) throw this.#refuse(shuttingDown('the endpoint was removed by a deploy'));
    const refusal = this.#refusal(planned);
    if (refusal) throw this.#refuse(refusal);
    const caller: ListenerCaller = {
      requestId,
      gateMs: 0,
      patient,
      onSettled: (settlement) => {
        onSettled(settlement);
        if (!settlement.outcome.ok) this.#note(spec, settlement.outcome.error, requestId);
      },
      onPart: onPart && ((part, _index, taken) => onPart(part, taken)),
    };
    const id = this.#ledger.open(caller, deadline, patient, places);
    if (patient) {
      this.#ledger.sent(id);
      this.#patient += 1;
    }
    const item: WireItem = {
      id,
      deadline,
      priority: 0,
      routeRef: planned.routeRef,
      stageRef: 0,
      part: 0,
      ok: true,
      patient,
      streams: onPart !== undefined,
      together: false,
      group: 0,
      sticky: spec.sticky === null ? 0 : stickyHash(http.headers[spec.sticky]),
      payload,
      meta: null,
      timings: [],
    };
    // A stage may refuse the item at once, but the endpoint must know the request's number first.
    queueMicrotask(() => {
      if (this.#ledger.isOpen(id)) this.#host.submit(item);
    });
    return id;
  }

  #refusal({ spec, room }: PlannedEndpoint): ModeletError | null {
    if (this.#isClosing) return shuttingDown();
    const { barred, mostWaiting } = this.#limits;
    if (barred !== null) return new ModeletError('config_invalid', barred);
    if (!spec.patient || mostWaiting === 0 || this.#patient < room + mostWaiting) return null;
    return new ModeletError('capacity_exceeded', `${mostWaiting} requests are waiting (nodeMessageBufferMaxLength)`);
  }

  #refuse(error: ModeletError): ModeletError {
    this.#ledger.countRefused(error.code);
    return error;
  }

  /** Logs an error as the flow would: at debug level, and as an error of the failing stage if nothing handles it. */
  #note({ failure }: EndpointSpec, error: ModeletError, requestId: string): void {
    const { code, message, stage } = error;
    if (code === 'cancelled') return;
    if (this.#limits.logsEach) {
      const record = { level: 'debug', message: `${code}: ${message}`, fields: { code, requestId } } as const;
      this.#host.onLog({ ...record, ...(stage === undefined ? {} : { stage }) });
    }
    if (failure !== null || stage === undefined || isRefusal(code)) return;
    let failures = this.#failures.get(stage);
    if (!failures) {
      failures = new Failures(this.#clock, (line, fields) =>
        this.#host.onLog({ level: 'error', message: line, stage, fields: { ...fields } }),
      );
      this.#failures.set(stage, failures);
    }
    failures.note(error, requestId);
  }
}

function shuttingDown(message = 'the runtime is shutting down'): ModeletError {
  return new ModeletError('shutting_down', message);
}
