/** Answers requests to a listener that reach no endpoint: health, metrics and the OpenAPI document, else why not. */
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { EnginePlan } from '../../config/stage-definition.ts';
import type { Clock, Deadline } from '../../core/clock.ts';
import { asModeletError } from '../../core/errors.ts';
import { type CheckResult, type EngineStatus, LONGEST_CHECK_MS } from '../../core/model.ts';
import type { Exposition } from '../../observe/export/collect.ts';
import { ENGINE_METRICS } from '../../observe/export/metrics.ts';
import { StageReadings } from '../../observe/meters/stage-meter.ts';
import { forThePublic, missingIn, readiness } from '../../observe/views/readiness.ts';
import { buildSnapshot, type RuntimeSnapshot } from '../../observe/views/snapshot.ts';
import type { Desk } from '../../runtime/desk/desk.ts';
import type { CheckedStage } from '../../wire/frames/bodies.ts';
import type { Clients } from '../access.ts';
import { type AnswerBody, answerBody, writeAnswer } from '../answer.ts';
import { errorBody } from '../client-text.ts';
import { REQUEST_ID, requestIdOf } from '../request-head.ts';
import { prepareAnswer } from '../served-endpoint.ts';

/** The engine, as far as its health and metrics show it. */
export interface ObservedEngine {
  status(): EngineStatus;
  /** Runs the examples of all stages; see `Engine.check`. */
  check(deadline: Deadline): Promise<readonly (CheckResult & Pick<CheckedStage, 'stage' | 'answers'>)[]>;
}

interface Observed {
  readonly engine: ObservedEngine;
  readonly desk: Pick<Desk<never>, 'read' | 'backlog' | 'capacity'>;
  /** The clients whose keys are needed, and their requests. */
  readonly clients: Clients;
  readonly clock: Clock;
}

interface ObservationAnswer {
  readonly status: number;
  readonly content: AnswerBody;
}

type Read = (query: URLSearchParams) => ObservationAnswer | Promise<ObservationAnswer>;

const READING = ['GET', 'HEAD'];
/** An orchestrator asks without a key. */
const HEALTH = '/health/';
const TEXT = 'text/plain; charset=utf-8';

export class ObservationPaths {
  readonly #observed: Observed;
  readonly #answers: ReadonlyMap<string, Read> = new Map<string, Read>([
    ['/health/live', () => json(200, { live: true })],
    ['/health/ready', (query) => this.#ready(query.get('deep') === '1')],
    ['/metrics', () => this.#metrics()],
    ['/openapi.json', () => this.#document()],
  ]);
  /** Loaded with the first scrape, because its library takes memory. */
  #exposition: Promise<Exposition> | null = null;
  #plan: EnginePlan = { stages: [], routes: [] };
  #openapi = '';

  constructor(observed: Observed) {
    this.#observed = observed;
  }

  apply(plan: EnginePlan): void {
    this.#plan = plan;
  }

  publishApi(openapi: string): void {
    this.#openapi = openapi;
  }

  /** Returns the names of the stages that have no worker to serve a request now. */
  missing(): string[] {
    return missingIn(this.#snapshot()).map(({ stage }) => stage);
  }

  /**
   * Answers a request that no endpoint takes.
   * @param methods methods of the endpoints at the path
   */
  answer(request: IncomingMessage, response: ServerResponse, path: string, methods: readonly string[]): void {
    const { method = '' } = request;
    const read = this.#answers.get(path);
    if (read && READING.includes(method)) {
      if (!path.startsWith(HEALTH) && !this.#mayRead(request, response, path)) return;
      this.#send(request, response, read);
      return;
    }
    const allowed = [...(read ? READING : []), ...methods];
    if (allowed.length === 0)
      refuse(request, response, { status: 404, code: 'not_found', message: 'no such endpoint' });
    else if (method === 'OPTIONS') response.writeHead(204, { Allow: [...allowed, 'OPTIONS'].join(', ') }).end();
    else if (methods.includes(method)) refuse(request, response, FOR_FLOW);
    else {
      const message = `this path takes ${allowed.join(' and ')}`;
      refuse(
        request,
        response,
        { status: 405, code: 'method_not_allowed', message },
        [...allowed, 'OPTIONS'].join(', '),
      );
    }
  }

  /** Whether a request may read what names stages and clients. Answers it if it may not. */
  #mayRead(request: IncomingMessage, response: ServerResponse, path: string): boolean {
    const { clients } = this.#observed;
    if (!clients.areNeeded) return true;
    try {
      clients.check(request.headers, response, path);
      return true;
    } catch (thrown) {
      const { statusCode: status, code, message } = asModeletError(thrown, 'unauthorized');
      refuse(request, response, { status, code, message });
      return false;
    }
  }

  /** Answers a request on a connection of a listener that is no more. */
  refuseAll(request: IncomingMessage, response: ServerResponse): void {
    refuse(request, response, CLOSED);
  }

  #send(request: IncomingMessage, response: ServerResponse, read: Read): void {
    const [, query = ''] = (request.url ?? '').split('?', 2);
    Promise.resolve(read(new URLSearchParams(query))).then(
      ({ status, content }) => {
        const requestId = requestIdOf(request.headers, response.getHeader(REQUEST_ID));
        writeAnswer(response, { status, requestId, answer: NEVER_CACHED }, content);
      },
      (error: Error) => refuse(request, response, { status: 500, code: 'modelet_failed', message: error.message }),
    );
  }

  async #ready(isDeep: boolean): Promise<ObservationAnswer> {
    const { engine, clock } = this.#observed;
    const nameOf = (ref: number): string => this.#plan.stages.find((stage) => stage.ref === ref)?.name ?? '';
    const checks = isDeep ? await engine.check(clock.now() + LONGEST_CHECK_MS) : undefined;
    const named = checks?.map((checked) => ({ ...checked, stage: nameOf(checked.stage) }));
    const { status, value } = readiness(missingIn(this.#snapshot()).map(forThePublic), named);
    return json(status, value);
  }

  async #metrics(): Promise<ObservationAnswer> {
    this.#exposition ??= import('../../observe/export/collect.ts').then(
      (module) => new module.Exposition(ENGINE_METRICS, true),
    );
    const exposition = await this.#exposition;
    const { durations } = this.#observed.desk.read();
    const body = await exposition.text([{ snapshot: this.#snapshot(), durations }], []);
    return { status: 200, content: { contentType: exposition.contentType, body } };
  }

  #document(): ObservationAnswer {
    if (this.#openapi === '') return { status: 404, content: { contentType: TEXT, body: '' } };
    return { status: 200, content: { contentType: 'application/json; charset=utf-8', body: this.#openapi } };
  }

  /** The state of the runtime, as far as its engine knows it. */
  #snapshot(): RuntimeSnapshot {
    const { engine, desk, clients, clock } = this.#observed;
    const runtime = this.#plan.listener?.terms.runtime ?? '';
    const status = engine.status();
    const { backlog, capacity } = desk;
    const { counts, late } = desk.read();
    const totals = new StageReadings();
    totals.update(status.stages);
    const shown = {
      ...{ id: runtime, name: runtime, state: 'ready', refuses: null, listener: null, backlog, capacity },
      requests: counts as Record<string, number>,
      lateOutcomes: late,
      clients: clients.read(),
      ...{ deploys: { count: 0, handedOver: 0 }, slowest: [], allowedCpus: [], pinWarnings: [] },
    };
    return buildSnapshot(shown, {
      ...{ plan: this.#plan, status, totals, now: clock.now(), failures: [], lasting: [], readAt: 0 },
      engine: {
        ...{ pid: process.pid, state: 'ready', restarts: 0, lastError: null, deaths: { serving: 0, starting: 0 } },
        ...{ frames: { sent: {}, received: {} }, bytes: { sent: 0, received: 0 } },
      },
    });
  }
}

interface ListenerRefusal {
  readonly status: number;
  readonly code: string;
  readonly message: string;
}

const NEVER_CACHED = prepareAnswer({ statusCode: null, headers: { 'Cache-Control': 'no-store' } });
const FOR_FLOW: ListenerRefusal = {
  status: 415,
  code: 'unsupported_media',
  message: "forms, JSON in UTF-16 and answers as a script are for Node-RED's own server",
};

const CLOSED: ListenerRefusal = {
  status: 503,
  code: 'shutting_down',
  message: 'the engine serves nothing here any more',
};

/** Answers with an error that is no error of a pipeline. */
function refuse(request: IncomingMessage, response: ServerResponse, refusal: ListenerRefusal, allow?: string): void {
  const { status } = refusal;
  const requestId = requestIdOf(request.headers, response.getHeader(REQUEST_ID));
  const answer = prepareAnswer({ statusCode: null, headers: allow === undefined ? {} : { Allow: allow } });
  const content = answerBody('json', errorBody(refusal, requestId));
  writeAnswer(response, { status, requestId, answer }, content);
}

function json(status: number, value: object): ObservationAnswer {
  return { status, content: answerBody('json', value) };
}
