/**
 * Creates OpenTelemetry spans of requests for users who have installed an SDK. Without an SDK, loads nothing and does
 * no work per request. Creates the spans when a request settles, from the timings of its stages.
 * A caller names the trace of its request in the W3C header `traceparent`.
 */
import { createRequire } from 'node:module';
import { join } from 'node:path';
import type { Context, ProxyTracerProvider, SpanOptions, Tracer, TracerProvider } from '@opentelemetry/api';
import { type Clock, systemClock } from '../../core/clock.ts';
import type { ModeletError } from '../../core/errors.ts';
import type { StageTiming } from '../../core/model.ts';
import { layOut } from '../../core/routes/concurrent-timings.ts';
import type { GatherReport } from '../../core/routes/gather.ts';

type TracingApi = typeof import('@opentelemetry/api');

const API = '@opentelemetry/api';
/** The global symbol under which SDKs register with any copy of the API. If absent, there is no tracer to find. */
const REGISTRY = Symbol.for('opentelemetry.js.api.1');
/** Name of the tracer. */
const SCOPE = '@modelet/node-red-pipeline';

/** The measurements of one stage; times in ms. */
export interface TracedStage extends Omit<StageTiming, 'stage'> {
  readonly name: string;
}

export interface TracedOutcome {
  readonly runtime: string;
  readonly requestId: string;
  /** Null for a result. */
  readonly error: ModeletError | null;
  /** The stages that answered, in order. */
  readonly stages: readonly TracedStage[];
  /** The report of the nodes that gather branches; null: no such node. */
  readonly gathered: GatherReport | null;
}

/** A request that has entered a pipeline. */
export interface TracedRequest {
  /** Creates the spans. Call when the request has settled. Never throws. */
  end(outcome: TracedOutcome): void;
}

/** The used part of an HTTP request. The object itself identifies the request if it comes back on another message. */
export interface TracedHttp {
  readonly headers?: Readonly<Record<string, string | string[] | undefined>>;
}

type TracingState =
  | { readonly tag: 'off' }
  | {
      readonly tag: 'on';
      readonly api: TracingApi;
      readonly tracer: Tracer;
      readonly parents: WeakMap<object, Context>;
    };

const OFF: TracingState = { tag: 'off' };

export class Tracing {
  readonly #onFault: (thrown: unknown) => void;
  readonly #clock: Clock;
  #state: TracingState = OFF;

  /** @param onFault called when the SDK has thrown; spans are then off until the next `look` */
  constructor(onFault: (thrown: unknown) => void, clock: Clock = systemClock) {
    this.#onFault = onFault;
    this.#clock = clock;
  }

  get isOn(): boolean {
    return this.#state.tag === 'on';
  }

  /**
   * Looks for a started SDK, first through the copy of the API that modules in `folder` load. Returns whether there is one.
   */
  look(folder: string): boolean {
    this.#state = OFF;
    if (!(REGISTRY in globalThis)) return false;
    for (const from of [join(folder, 'package.json'), import.meta.url]) {
      const api = loadApi(from);
      const tracer = api && tracerOf(api.trace.getTracerProvider());
      if (!api || !tracer) continue;
      this.#state = { tag: 'on', api, tracer, parents: new WeakMap() };
      return true;
    }
    return false;
  }

  /**
   * Notes that a request enters now; returns null while spans are off.
   *
   * @param http the HTTP request that brought the request; the same object at each entry
   */
  begin(http: TracedHttp | null | undefined): TracedRequest | null {
    if (this.#state.tag === 'off') return null;
    const { api, tracer, parents } = this.#state;
    const startedAt = this.#clock.now();
    try {
      // A flow may have replaced `http` with any value.
      const known = typeof http === 'object' && http !== null ? http : undefined;
      const parent = (known && parents.get(known)) ?? parentOf(api, known);
      if (known) parents.set(known, parent);
      return { end: (outcome) => this.#end(api, tracer, parent, startedAt, outcome) };
    } catch (thrown) {
      this.#fault(thrown);
      return null;
    }
  }

  #end(api: TracingApi, tracer: Tracer, parent: Context, startedAt: number, outcome: TracedOutcome): void {
    try {
      const endedAt = this.#clock.now();
      // Spans use the time of day, which may jump. So it is read only once for all spans of a request.
      makeSpans(api, tracer, parent, { startedAt, endedAt, epoch: Date.now() - endedAt }, outcome);
    } catch (thrown) {
      this.#fault(thrown);
    }
  }

  #fault(thrown: unknown): void {
    this.#state = OFF;
    this.#onFault(thrown);
  }
}

function loadApi(from: string): TracingApi | null {
  try {
    return createRequire(from)(API) as TracingApi;
  } catch {
    return null;
  }
}

/** Returns null if no SDK is registered: the API's own spans would go nowhere. */
function tracerOf(provider: TracerProvider): Tracer | null {
  const { getDelegateTracer } = provider as Partial<ProxyTracerProvider>;
  return getDelegateTracer ? (getDelegateTracer.call(provider, SCOPE) ?? null) : provider.getTracer(SCOPE);
}

/**
 * Returns the context of the parent span: the HTTP server's span if the server is traced, otherwise the caller's span
 * from `traceparent`. Ignores an active span whose trace is not the caller's: it does not belong to the request.
 */
function parentOf(api: TracingApi, http: TracedHttp | undefined): Context {
  const active = api.context.active();
  const present = http && api.trace.getSpanContext(active);
  const caller = parseTraceparent(http?.headers?.['traceparent']);
  if (present && (!caller || caller.traceId === present.traceId)) return active;
  if (!caller) return api.ROOT_CONTEXT;
  const { traceId, spanId, flags } = caller;
  return api.trace.setSpanContext(api.ROOT_CONTEXT, { traceId, spanId, traceFlags: flags, isRemote: true });
}

interface Times {
  readonly startedAt: number;
  readonly endedAt: number;
  /** Offset from the clock's time to the time of day. */
  readonly epoch: number;
}

/**
 * Creates one span for the request and, within it, two for each stage, or one if the stage did not run. The stages follow
 * one another, and branches begin together. The time that no stage has measured is transport, assumed to take equally long
 * both ways.
 */
function makeSpans(api: TracingApi, tracer: Tracer, parent: Context, times: Times, outcome: TracedOutcome): void {
  const { startedAt, endedAt, epoch } = times;
  const { runtime, requestId, error, stages, gathered } = outcome;
  const attributes = {
    'modelet.runtime': runtime,
    'modelet.request_id': requestId,
    'modelet.code': error?.code ?? 'ok',
    ...(error?.stage === undefined ? {} : { 'modelet.stage': error.stage }),
  };
  const request = tracer.startSpan('modelet request', { startTime: epoch + startedAt, attributes }, parent);
  if (error) request.setStatus({ code: api.SpanStatusCode.ERROR, message: `${error.code}: ${error.message}` });
  const within = api.trace.setSpan(parent, request);
  const { starts, totalMs } = layOut(stages, gathered?.gathered ?? null);
  const first = epoch + startedAt + Math.max(0, endedAt - startedAt - totalMs) / 2;
  let at = first;
  const pass = (name: string, ms: number, attributes: NonNullable<SpanOptions['attributes']>): void => {
    const span = tracer.startSpan(name, { startTime: at, attributes }, within);
    at = Math.min(at + ms, epoch + endedAt);
    span.end(at);
  };
  for (const [place, { name, waitMs, batchMs, runMs, batchSize, worker, cache }] of stages.entries()) {
    at = Math.min(first + (starts[place] ?? 0), epoch + endedAt);
    const stage = { 'modelet.stage': name, ...(cache && { 'modelet.cache': cache }) };
    pass(`queue ${name}`, waitMs + batchMs, { ...stage, 'modelet.wait_ms': waitMs, 'modelet.batch_ms': batchMs });
    if (cache) continue;
    pass(`run ${name}`, runMs, { ...stage, 'modelet.batch_size': batchSize, 'modelet.worker': worker });
  }
  request.end(epoch + endedAt);
}

export interface TraceParent {
  /** 32 lower-case hexadecimal digits, not all 0. */
  readonly traceId: string;
  /** Id of the caller's span: 16 lower-case hexadecimal digits, not all 0. */
  readonly spanId: string;
  /** 0 to 255; bit 0 is set if the trace is recorded. */
  readonly flags: number;
}

const PARTS = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/;
const ZEROS = /^0+$/;

/** Returns null if the header is not valid. A future version may append further parts to the known ones. */
export function parseTraceparent(header: unknown): TraceParent | null {
  const parts = typeof header === 'string' ? PARTS.exec(header) : null;
  if (!parts) return null;
  const [, version, traceId = '', spanId = '', flags = '', more] = parts;
  if (version === 'ff' || (version === '00' && more !== undefined)) return null;
  if (ZEROS.test(traceId) || ZEROS.test(spanId)) return null;
  return { traceId, spanId, flags: Number.parseInt(flags, 16) };
}
