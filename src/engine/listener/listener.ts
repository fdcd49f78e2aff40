/**
 * Serves the compiled endpoints of the plan at an address of the engine's own. Its requests become items without Node-RED:
 * its loop, its deploys and its restarts of flows do not delay them. They settle in a ledger of the same kind as the
 * server's.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { type EnginePlan, mostRows } from '../../config/stage-definition.ts';
import type { Clock, Deadline } from '../../core/clock.ts';
import type { PlannedEndpoint, PlannedListener } from '../../core/endpoints.ts';
import { FIRST_NUMBER, type ListenerStatus, type ModeletDescription } from '../../core/model.ts';
import { Clients } from '../../endpoint/clients/clients.ts';
import { Origins } from '../../endpoint/clients/origins.ts';
import { Endpoints } from '../../endpoint/endpoints.ts';
import { originForm } from '../../endpoint/request-head.ts';
import { prepareAnswer, type ServedEndpoint } from '../../endpoint/served-endpoint.ts';
import { Sockets } from '../../endpoint/sockets/sockets.ts';
import { Ledger, SlowRequests } from '../../ledger/ledger.ts';
import { Refusals } from '../../observe/log/refusals.ts';
import type { EngineBoot } from '../../wire/frames/bodies.ts';
import { gatheredOf, outcomeOf } from '../../wire/frames/failure.ts';
import type { WireItem } from '../../wire/frames/frames.ts';
import { type ListenerCaller, ListenerRuntime, type RuntimeHost } from './listener-runtime.ts';
import { ObservationPaths, type Observed } from './observation.ts';
import { ListeningPort } from './port.ts';
import { Unread } from './unread.ts';

/** The engine, as far as the listener needs it. */
export interface ListenerHost extends RuntimeHost, Pick<Observed, 'status' | 'check'> {
  /** Returns what a stage's modelet tells of itself, or null before its first worker is ready. */
  description(stage: number): ModeletDescription | null;
  /** The status has changed; called often. */
  onChange(): void;
}

export class Listener {
  readonly #boot: EngineBoot;
  readonly #host: ListenerHost;
  readonly #clock: Clock;
  readonly #ledger: Ledger<ListenerCaller>;
  readonly #runtime: ListenerRuntime;
  readonly #refusals: Refusals;
  readonly #slowRequests: SlowRequests = new SlowRequests();
  readonly #endpoints: Endpoints = new Endpoints();
  readonly #sockets: Sockets;
  readonly #clients: Clients;
  readonly #origins: Origins = new Origins();
  readonly #observation: ObservationPaths;
  readonly #port: ListeningPort;
  readonly #unread: Unread;
  #wasUsed = false;

  constructor(boot: EngineBoot, host: ListenerHost, clock: Clock) {
    this.#boot = boot;
    this.#host = host;
    this.#clock = clock;
    this.#refusals = new Refusals(clock, (record) => host.onLog(record));
    this.#ledger = new Ledger<ListenerCaller>(
      boot.requests.capacity,
      clock,
      {
        onSettled: (request, settlement, at) => {
          this.#slowRequests.note(request, settlement, at);
          this.#runtime.left(request.caller);
          host.onChange();
        },
        onExpired: (id) => host.cancel(id),
        onFailed: (code) => {
          this.#refusals.count(code);
          // A refusal opens no request, so nothing else may tell the server for long.
          host.onChange();
        },
        onThrown: (error, { requestId }) => {
          host.onLog({ level: 'error', message: `an answer could not be sent: ${error.stack}`, fields: { requestId } });
        },
      },
      FIRST_NUMBER.listener,
    );
    this.#clients = new Clients(clock);
    this.#unread = new Unread(clock);
    this.#runtime = new ListenerRuntime(boot, this.#ledger, host, clock);
    this.#observation = new ObservationPaths({
      runtime: boot.runtime,
      status: () => host.status(),
      check: (deadline) => host.check(deadline),
      requests: () => ({
        reading: this.#ledger.read(),
        backlog: this.#ledger.backlog,
        capacity: this.#ledger.capacity,
      }),
      clients: this.#clients,
      now: () => clock.now(),
    });
    this.#sockets = new Sockets(this.#endpoints, clock);
    this.#port = new ListeningPort(
      {
        onRequest: (request, response) => this.#take(request, response),
        onServer: (server) => this.#sockets.serve(server),
        onConnection: (socket) => this.#unread.connected(socket),
        onChange: () => host.onChange(),
        onLog: (record) => host.onLog(record),
      },
      clock,
    );
  }

  /** Undefined if no plan ever had a listener. */
  get status(): ListenerStatus | undefined {
    if (!this.#wasUsed) return undefined;
    return {
      state: this.#port.state,
      backlog: this.#ledger.backlog,
      reading: this.#ledger.read(),
      clients: this.#clients.read(),
      slowest: this.#slowRequests.entries(this.#clock.now()),
    };
  }

  /** Bytes of answers that clients have not read. */
  get unreadBytes(): number {
    return this.#unread.bytes;
  }

  /** Serves the plan's listener from now on, in one step. Requests under way end as they began. */
  apply(plan: EnginePlan): void {
    const { listener: planned } = plan;
    if (planned) this.#wasUsed = true;
    this.#runtime.apply(planned?.endpoints ?? []);
    const served = planned?.endpoints.map((endpoint) => this.#served(endpoint, planned, plan)) ?? [];
    this.#endpoints.replace(served, planned?.paths);
    this.#sockets.refresh();
    this.#observation.apply(plan);
    this.#clients.replace(planned?.keys ?? null);
    this.#origins.replace(planned?.cors ?? []);
    this.#port.use(planned ? { address: planned.address, tls: planned.tls } : null, this.#drainMs);
  }

  publishApi(openapi: string): void {
    this.#observation.publishApi(openapi);
  }

  /** Passes an outcome to its request. */
  settle(item: WireItem): void {
    this.#host.onBytes(item.payload.bytes.byteLength);
    this.#unread.wrote(item.payload.bytes.byteLength);
    this.#ledger.settle(item.id, outcomeOf(item), item.timings, gatheredOf(item));
  }

  /** Passes a part of a result to its request. */
  part({ id, part, payload }: WireItem): void {
    this.#host.onBytes(payload.bytes.byteLength);
    this.#unread.wrote(payload.bytes.byteLength);
    this.#ledger.part(id, part, payload, () => this.#host.taken(id, part + 1));
  }

  /** Takes no more requests, and answers all that are open by the deadline. */
  async close(deadline: Deadline): Promise<void> {
    this.#sockets.end();
    this.#runtime.close();
    this.#port.use(null, this.#drainMs);
    await this.#ledger.whenEmpty(deadline);
    this.#runtime.failAll();
    this.#refusals.close();
    await this.#port.closed(this.#clock.now() + LAST_ANSWERS_MS);
  }

  /** Longest time for which requests under way keep an address that is given up. */
  get #drainMs(): number {
    const { timeoutMs } = this.#boot.requests;
    return timeoutMs === 0 ? Number.POSITIVE_INFINITY : timeoutMs + LAST_ANSWERS_MS;
  }

  #served(
    { spec, stageNames, routeRef }: PlannedEndpoint,
    { maxJson }: PlannedListener,
    { stages, routes }: EnginePlan,
  ): ServedEndpoint {
    const describe = (stage: string | null): ModeletDescription | null => {
      const found = stages.find(({ id }) => id === stage);
      return found ? this.#host.description(found.ref) : null;
    };
    const { maxPayloadBytes, requests } = this.#boot;
    const refs = routes.find(({ ref }) => ref === routeRef)?.stages ?? [];
    const onRoute = refs.flatMap((ref) => stages.find((stage) => stage.ref === ref) ?? []);
    return {
      spec,
      clients: this.#clients,
      origins: this.#origins,
      limits: { timeoutMs: requests.timeoutMs, maxBytes: maxPayloadBytes, maxJson },
      runtime: this.#runtime.of(spec, {
        missing: () => this.#observation.missing(),
        described: () => ({
          first: describe(spec.describedBy.first),
          last: describe(spec.describedBy.last),
          mostRows: mostRows(onRoute, ({ ref }) => this.#host.description(ref), requests.capacity),
        }),
      }),
      stageNames,
      answer: prepareAnswer(spec.answer),
      failure: spec.failure ? prepareAnswer(spec.failure) : null,
      direct: prepareAnswer({ statusCode: null, headers: {} }),
    };
  }

  #take(request: IncomingMessage, response: ServerResponse): void {
    this.#unread.asked(response);
    if (this.#port.state.tag === 'off') {
      this.#observation.refuseAll(request, response);
      return;
    }
    if (this.#origins.preflight(request, response)) return;
    if (this.#endpoints.take(request, response, request.url)) return;
    this.#origins.mark(request, response);
    const path = originForm(request.url).split('?', 1)[0] as string;
    const methods = this.#endpoints.methodsAt(path);
    if (methods.includes(request.method ?? '')) this.#ledger.countRefused('unsupported_media');
    this.#observation.answer(request, response, this.#endpoints.spelled(path), methods);
  }
}

/** Time for the last answers to reach their clients. */
const LAST_ANSWERS_MS = 500;
