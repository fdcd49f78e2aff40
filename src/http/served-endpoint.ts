/** An endpoint that a host serves: the compiled endpoint, its runtime, and its answers prepared for each request. */
import { validateHeaderName, validateHeaderValue } from 'node:http';
import type { RowTerms } from '../config/stage-definition.ts';
import type { Deadline } from '../core/clock.ts';
import type { AnswerSpec, EndpointSpec, ListenerSpec, PlannedEndpoint } from '../core/endpoints.ts';
import { isOfRequest, ModeletError } from '../core/errors.ts';
import {
  itemCostOf,
  type LogRecord,
  type ModeletDescription,
  NO_COST,
  type Payload,
  type RequestNumber,
} from '../core/model.ts';
import type { Settlement } from '../core/routes/route.ts';
import { itemKeyOf, LONGEST_KEY_BYTES } from '../core/text.ts';
import { stickyHash } from '../core/versions.ts';
import { isRefusal } from '../observe/log/refusals.ts';
import type { Desk, RequestRows } from '../runtime/desk/desk.ts';
import { keyBounds } from '../wire/frames/key-snapshots.ts';
import { encodeMeta } from '../wire/frames/metas.ts';
import type { Clients, OtherOrigins } from './access.ts';
import type { Headers } from './request-head.ts';
import { isForEmbeddings } from './streaming/embeddings.ts';

export interface EndpointRequest {
  /** Id shown to users; need not be unique. */
  readonly requestId: string;
  readonly payload: Payload;
  readonly deadline: Deadline;
  /** All requests of the same client that come now, with this one: there must be room for all. Default: this one alone. */
  readonly together?: RequestRows;
  /** Whether it goes in only when `enter` is called. */
  readonly isHeld?: boolean;
  /** Whether it waits for room in the queue of the first stage. Default: as the endpoint's requests do. */
  readonly patient?: boolean;
  /** Whether the client says that the request belongs to a sequence. The endpoint must have keys. Default: it does not say so. */
  readonly sequence?: ClientSequence | undefined;
  /** The HTTP request; the same object for all spans. */
  readonly http: { readonly headers: Headers };
  /**
   * Receives one part of a result that is not complete yet, in order. It must call `taken` when the client has read the
   * part, because only a few parts are in transit at a time. Absent: the result comes as a whole.
   */
  readonly onPart?: ((part: Payload, taken: () => void) => void) | undefined;
  /** Called exactly once, never before `submit` has returned. */
  onSettled(settlement: Settlement): void;
}

/** The sequence of a request: its id is the key of the request, whatever header has the keys of others. */
export interface ClientSequence {
  readonly id: string | number;
  /** Whether the state of the key is new, and whether it ends with the request. */
  readonly keyStart: boolean;
  readonly keyEnd: boolean;
}

/** The modelets of a route, as they describe themselves. */
export interface DescribedRoute extends RowTerms {
  /** The first and the last stage's modelet; null: none has loaded yet. */
  readonly first: ModeletDescription | null;
  readonly last: ModeletDescription | null;
}

export interface EndpointLimits extends Pick<ListenerSpec, 'maxJson'> {
  /** Longest time for an answer, in ms; 0: no limit. */
  readonly timeoutMs: number;
  /** Largest payload, in bytes. */
  readonly maxBytes: number;
}

/** An answer's status and headers. */
export interface PreparedAnswer {
  /** null: as the request ends. */
  readonly statusCode: number | null;
  /** Names and values in turn. Without the Content-Type. */
  readonly headers: readonly string[];
  /** Types of texts and of bytes; null: as the body is. */
  readonly contentType: { readonly text: string; readonly bytes: string } | null;
  /** Names of the headers, in lower case. */
  readonly sets: ReadonlySet<string>;
}

export interface ServedEndpoint extends Pick<PlannedEndpoint, 'spec' | 'stageNames'> {
  readonly limits: EndpointLimits;
  /** null: no client needs a key. */
  readonly clients: Clients | null;
  /** null: pages of other origins may not call. */
  readonly origins: OtherOrigins | null;
  readonly runtime: Pick<DeskEndpoint, keyof DeskEndpoint>;
  readonly answer: PreparedAnswer;
  /** null: the client gets an error as it is. */
  readonly failure: PreparedAnswer | null;
  /** For errors that no HTTP response node would answer. */
  readonly direct: PreparedAnswer;
  /** Whether clients of OpenAI's API send requests for embeddings to it. */
  readonly isForEmbeddings: boolean;
}

/**
 * Prepares the answers of an endpoint that a host describes.
 * @param more headers of every answer, names and values in turn
 */
export function serve(
  endpoint: Omit<ServedEndpoint, 'answer' | 'failure' | 'direct' | 'isForEmbeddings'>,
  more: readonly string[] = [],
): ServedEndpoint {
  const { answer, failure, path } = endpoint.spec;
  return {
    ...endpoint,
    answer: prepareAnswer(answer, more),
    failure: failure && prepareAnswer(failure, more),
    direct: prepareAnswer({ statusCode: null, headers: {} }, more),
    isForEmbeddings: isForEmbeddings(path),
  };
}

/** Headers that depend on the body. */
const OF_THE_BODY: ReadonlySet<string> = new Set(['content-length', 'transfer-encoding']);
/** Types to which Express adds the character set. */
const TEXTUAL = /^(?:text\/|application\/(?:javascript|json)\b)/i;
const CHARSET = /;\s*charset\s*=\s*(?:"[^"]*"|[^\s;]*)/i;

/** @param more headers of every answer, names and values in turn */
export function prepareAnswer(spec: AnswerSpec, more: readonly string[] = []): PreparedAnswer {
  const entries = Object.entries(spec.headers).map(([name, value]) => [name, String(value)] as const);
  const typed = entries.findLast(([name]) => name.toLowerCase() === 'content-type')?.[1];
  const own = entries.filter(([name]) => {
    const lower = name.toLowerCase();
    return lower !== 'content-type' && !OF_THE_BODY.has(lower);
  });
  return {
    statusCode: spec.statusCode,
    headers: [...more, ...own.flat()],
    contentType: typed === undefined ? null : { text: inUtf8(typed), bytes: withCharset(typed) },
    sets: new Set(own.map(([name]) => name.toLowerCase())),
  };
}

/** Returns why HTTP cannot carry an answer's status and headers; null if it can. */
export function flawOf({ statusCode, headers }: AnswerSpec): string | null {
  if (statusCode !== null && !(Number.isInteger(statusCode) && statusCode >= 200 && statusCode <= 999)) {
    return `${statusCode} is no status of an answer`;
  }
  for (const [name, value] of Object.entries(headers)) {
    try {
      validateHeaderName(name);
      validateHeaderValue(name, String(value));
    } catch {
      return `its header ${JSON.stringify(name)} cannot be sent`;
    }
  }
  return null;
}

function withCharset(type: string): string {
  return CHARSET.test(type) || !TEXTUAL.test(type) ? type : `${type}; charset=utf-8`;
}

function inUtf8(type: string): string {
  return `${type.replace(CHARSET, '')}; charset=utf-8`;
}

/** Names the stage that failed, unless its error does: a gather is no stage, and neither are its late branches to blame. */
export function nameStage(stageNames: readonly string[], { outcome, timings, gathered }: Settlement): void {
  if (outcome.ok || (gathered?.failed !== undefined && gathered.failed !== null)) return;
  outcome.error.stage ??= stageNames[timings.length] ?? stageNames[0];
}

type EndpointDesk = Pick<
  Desk<unknown>,
  'submit' | 'enter' | 'abandon' | 'deadlineFor' | 'countRefused' | 'countUnwritten'
>;

/** Sees one request on its way. */
export interface RequestWatcher {
  onPart(part: Payload, index: number): void;
  /** Called before the client has its answer, also if the desk refuses the request. */
  onSettled(settlement: Settlement): void;
  /** Called after the client has its answer. */
  onAnswered(settlement: Settlement): void;
}

/** The process that serves an endpoint. */
export interface EndpointHost {
  /** Returns the names of the runtime's stages that have no worker to serve a request now. */
  missing(): readonly string[];
  described(): DescribedRoute;
  /** Begins to watch a request; returns null if nothing needs to. Null: nothing watches any request. */
  readonly watch: ((request: EndpointRequest) => RequestWatcher | null) | null;
  log(record: LogRecord): void;
  /** Logs an error of a stage that nothing in the flow handles. `settlement`: null if the request did not come so far. */
  unhandled(stage: string, error: ModeletError, requestId: string, settlement: Settlement | null): void;
}

/**
 * The runtime behind a compiled endpoint, in whichever process: makes requests to the endpoint requests of the desk. The
 * host adds what a message would have caused on its way through the flow.
 */
export class DeskEndpoint {
  readonly #desk: EndpointDesk;
  readonly #spec: EndpointSpec;
  readonly #host: EndpointHost;

  constructor(desk: EndpointDesk, spec: EndpointSpec, host: EndpointHost) {
    this.#desk = desk;
    this.#spec = spec;
    this.#host = host;
  }

  /** @throws ModeletError if the request is refused; the runtime has counted it */
  submit(request: EndpointRequest): RequestNumber {
    const { requestId, payload, deadline, together, isHeld, sequence, http, onPart, onSettled } = request;
    const { entry, sticky, key: header, cost } = this.#spec;
    const key = header === null ? null : itemKeyOf(sequence?.id ?? http.headers[header]);
    const watcher = this.#host.watch?.(request);
    try {
      return this.#desk.submit({
        entry,
        requestId,
        gateMs: 0,
        payload,
        deadline,
        priority: 0,
        patient: request.patient ?? this.#spec.patient,
        together,
        isHeld,
        group: 0,
        sticky: sticky === null ? 0 : stickyHash(http.headers[sticky]),
        key: key?.hash ?? 0,
        cost: cost === null ? NO_COST : itemCostOf(http.headers[cost]),
        meta: key && encodeMeta({ key: key.text, ...keyBounds(sequence ?? {}) }, LONGEST_KEY_BYTES),
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

  /** Lets a request in that is held. No effect if it has settled. */
  enter(id: RequestNumber): void {
    this.#desk.enter(id);
  }

  /** Settles a request early. No effect if it has settled. */
  abandon(id: RequestNumber, error: ModeletError): void {
    this.#desk.abandon(id, error);
  }

  deadlineFor(timeoutMs: number): Deadline {
    return this.#desk.deadlineFor(timeoutMs);
  }

  missing(): readonly string[] {
    return this.#host.missing();
  }

  described(): DescribedRoute {
    return this.#host.described();
  }

  /** Notes a request that fails before it can be submitted. */
  refused(error: ModeletError, requestId: string): void {
    // The desk has counted its own refusals.
    if (isOfRequest(error.code)) this.#desk.countRefused(error);
    this.#note(error, requestId, null);
  }

  /** Notes a result of the last stage that no answer can hold. */
  unwritten({ code, message }: ModeletError, stage: string | undefined, requestId: string): void {
    const error = new ModeletError(code, message, stage === undefined ? {} : { stage });
    this.#desk.countUnwritten(error, this.#spec.entry);
    // Nothing behind the pipeline handles it.
    if (stage !== undefined) this.#host.unhandled(stage, error, requestId, null);
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
