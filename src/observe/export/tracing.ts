/**
 * OpenTelemetry spans of requests, for users who have installed an SDK: without one nothing is loaded and nothing is
 * done for a request. Spans are made when a request settles, from what its stages have measured.
 */
import { createRequire } from 'node:module';
import { join } from 'node:path';
import type { Context, ProxyTracerProvider, SpanOptions, Tracer, TracerProvider } from '@opentelemetry/api';
import { type Clock, systemClock } from '../../core/clock.ts';
import type { ModeletError } from '../../core/errors.ts';
import type { SavedRun } from '../../core/model.ts';
import { parseTraceparent } from './traceparent.ts';

type Api = typeof import('@opentelemetry/api');

const API = '@opentelemetry/api';
/** Where SDKs put themselves, whichever copy of the API they use: without it no tracer can be found. */
const REGISTRY = Symbol.for('opentelemetry.js.api.1');
/** Name of the tracer. */
const SCOPE = '@modelet/node-red-pipeline';

/** What one stage has measured, in ms. */
export interface TracedStage {
  readonly name: string;
  readonly waitMs: number;
  readonly batchMs: number;
  readonly runMs: number;
  readonly batchSize: number;
  readonly worker: number;
  /** How the request had its answer without a run of its own. */
  readonly cache?: SavedRun;
}

export interface TracedOutcome {
  readonly runtime: string;
  readonly requestId: string;
  /** Null for a result. */
  readonly error: ModeletError | null;
  /** Those that answered, in order. */
  readonly stages: readonly TracedStage[];
}

/** A request's way through a pipeline, from its entry on. */
export interface TracedRequest {
  /** To be called when it has settled. Never throws. */
  end(outcome: TracedOutcome): void;
}

/** What is used of an HTTP request, also to recognise it when it comes back on another message. */
export interface TracedHttp {
  readonly headers?: Readonly<Record<string, string | string[] | undefined>>;
}

type TracingState =
  | { readonly tag: 'off' }
  | { readonly tag: 'on'; readonly api: Api; readonly tracer: Tracer; readonly parents: WeakMap<object, Context> };

const OFF: TracingState = { tag: 'off' };

export class Tracing {
  readonly #onFault: (thrown: unknown) => void;
  readonly #clock: Clock;
  #state: TracingState = OFF;

  /** `onFault`: the SDK has thrown; spans are off until the next `look`. */
  constructor(onFault: (thrown: unknown) => void, clock: Clock = systemClock) {
    this.#onFault = onFault;
    this.#clock = clock;
  }

  get isOn(): boolean {
    return this.#state.tag === 'on';
  }

  /** Looks for an SDK that has been started; first with the API that modules of `folder` get. */
  look(folder: string): void {
    this.#state = OFF;
    if (!(REGISTRY in globalThis)) return;
    for (const from of [join(folder, 'package.json'), import.meta.url]) {
      const api = loadApi(from);
      const tracer = api && tracerOf(api.trace.getTracerProvider());
      if (!api || !tracer) continue;
      this.#state = { tag: 'on', api, tracer, parents: new WeakMap() };
      return;
    }
  }

  /** A request enters now; null while spans are off. `http`: the HTTP request it came by, the same at each entry. */
  begin(http: TracedHttp | null | undefined): TracedRequest | null {
    if (this.#state.tag === 'off') return null;
    const { api, tracer, parents } = this.#state;
    const startedAt = this.#clock.now();
    try {
      // A flow may have put anything in its place.
      const known = typeof http === 'object' && http !== null ? http : undefined;
      const parent = (known && parents.get(known)) ?? parentOf(api, known);
      if (known) parents.set(known, parent);
      return { end: (outcome) => this.#end(api, tracer, parent, startedAt, outcome) };
    } catch (thrown) {
      this.#fault(thrown);
      return null;
    }
  }

  #end(api: Api, tracer: Tracer, parent: Context, startedAt: number, outcome: TracedOutcome): void {
    try {
      const endedAt = this.#clock.now();
      // Spans are in the time of day. It may jump: it is asked once for all of a request's.
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

function loadApi(from: string): Api | null {
  try {
    return createRequire(from)(API) as Api;
  } catch {
    return null;
  }
}

/** Null while no SDK is registered: the API would then make spans that go nowhere. */
function tracerOf(provider: TracerProvider): Tracer | null {
  const { getDelegateTracer } = provider as Partial<ProxyTracerProvider>;
  return getDelegateTracer ? (getDelegateTracer.call(provider, SCOPE) ?? null) : provider.getTracer(SCOPE);
}

/**
 * The span that waits for the request: the HTTP server's own where that is traced, else the caller's as
 * `traceparent` tells it. A span of another trace than the caller's is not the request's.
 */
function parentOf(api: Api, http: TracedHttp | undefined): Context {
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
  /** To be added to a time of the clock for the time of day. */
  readonly epoch: number;
}

/**
 * One span for the request, and in it two for each stage, one after the other; one where a stage has not run. What the
 * stages have not measured is the way there and back: it is taken to be as long both ways.
 */
function makeSpans(api: Api, tracer: Tracer, parent: Context, times: Times, outcome: TracedOutcome): void {
  const { startedAt, endedAt, epoch } = times;
  const { runtime, requestId, error, stages } = outcome;
  const attributes = {
    'modelet.runtime': runtime,
    'modelet.request_id': requestId,
    'modelet.code': error?.code ?? 'ok',
    ...(error?.stage === undefined ? {} : { 'modelet.stage': error.stage }),
  };
  const request = tracer.startSpan('modelet request', { startTime: epoch + startedAt, attributes }, parent);
  if (error) request.setStatus({ code: api.SpanStatusCode.ERROR, message: `${error.code}: ${error.message}` });
  const within = api.trace.setSpan(parent, request);
  const measured = stages.reduce((sum, { waitMs, batchMs, runMs }) => sum + waitMs + batchMs + runMs, 0);
  let at = epoch + startedAt + Math.max(0, endedAt - startedAt - measured) / 2;
  const pass = (name: string, ms: number, attributes: NonNullable<SpanOptions['attributes']>): void => {
    const span = tracer.startSpan(name, { startTime: at, attributes }, within);
    at = Math.min(at + ms, epoch + endedAt);
    span.end(at);
  };
  for (const { name, waitMs, batchMs, runMs, batchSize, worker, cache } of stages) {
    const stage = { 'modelet.stage': name, ...(cache && { 'modelet.cache': cache }) };
    pass(`queue ${name}`, waitMs + batchMs, { ...stage, 'modelet.wait_ms': waitMs, 'modelet.batch_ms': batchMs });
    if (cache) continue;
    pass(`run ${name}`, runMs, { ...stage, 'modelet.batch_size': batchSize, 'modelet.worker': worker });
  }
  request.end(epoch + endedAt);
}
