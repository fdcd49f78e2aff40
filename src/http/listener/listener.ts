/**
 * Serves the compiled endpoints of the plan at an address of the engine's own. Its requests become items without Node-RED:
 * its loop, its deploys and its restarts of flows do not delay them. The engine has its own desk for them.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import { type EnginePlan, rowTerms } from '../../config/stage-definition.ts';
import type { Clock, Deadline } from '../../core/clock.ts';
import type { ListenerTerms, PlannedEndpoint, PlannedListener } from '../../core/endpoints.ts';
import { ModeletError } from '../../core/errors.ts';
import {
  FIRST_NUMBER,
  type ListenerStatus,
  type LogRecord,
  type ModeletDescription,
  type RequestNumber,
} from '../../core/model.ts';
import { Failures } from '../../observe/log/failures.ts';
import { Desk } from '../../runtime/desk/desk.ts';
import type { Submitter } from '../../runtime/engine/stage/item.ts';
import { byteLengthOf } from '../../wire/codec/chunks.ts';
import type { EngineBoot } from '../../wire/frames/bodies.ts';
import type { WireItem } from '../../wire/frames/frames.ts';
import { Clients, Origins } from '../access.ts';
import { Endpoints } from '../endpoints.ts';
import { originForm } from '../request-head.ts';
import { DeskEndpoint, type ServedEndpoint, serve } from '../served-endpoint.ts';
import { Sockets } from '../sockets/sockets.ts';
import { ObservationPaths, type ObservedEngine } from './observation.ts';
import { ListeningPort } from './port.ts';

/** The engine, as far as the listener needs it. */
export interface ListenerHost extends ObservedEngine {
  submit(item: WireItem, submitter: Submitter): void;
  cancel(id: RequestNumber): void;
  /** The client of a request has read so many parts of its result. */
  taken(id: RequestNumber, parts: number): void;
  /** So many bytes have arrived, or leave. */
  onBytes(count: number): void;
  onLog(record: LogRecord): void;
  /** Returns what a stage's modelet tells of itself, or null before its first worker is ready. */
  description(stage: number): ModeletDescription | null;
  /** The status has changed; called often. */
  onChange(): void;
}

/** Before the first plan. */
const NO_TERMS: ListenerTerms = { runtime: '', capacity: 0, timeoutMs: 0, logsEach: false };

export class Listener implements Submitter {
  readonly #boot: EngineBoot;
  readonly #host: ListenerHost;
  readonly #clock: Clock;
  readonly #desk: Desk<PlannedEndpoint>;
  /** Those of the last plan that had a listener. */
  #terms: ListenerTerms = NO_TERMS;
  /** Endpoints of the present plan, by the node at which a message would enter. */
  #planned: ReadonlyMap<string, PlannedEndpoint> = new Map();
  /** Patient requests that are open. */
  #patient = 0;
  /** Errors that nothing handles, by stage. */
  readonly #failures: Map<string, Failures> = new Map();
  readonly #endpoints: Endpoints = new Endpoints();
  readonly #sockets: Sockets;
  readonly #clients: Clients;
  /** null: no page of another origin may call. */
  #origins: Origins | null = null;
  #isOpen = false;
  readonly #observation: ObservationPaths;
  readonly #port: ListeningPort;
  readonly #unread: Unread;
  #wasUsed = false;

  constructor(boot: EngineBoot, host: ListenerHost, clock: Clock) {
    this.#boot = boot;
    this.#host = host;
    this.#clock = clock;
    this.#desk = this.#openDesk();
    this.#clients = new Clients(clock);
    this.#unread = new Unread(clock);
    this.#observation = new ObservationPaths({ engine: host, desk: this.#desk, clients: this.#clients, clock });
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
      backlog: this.#desk.backlog,
      reading: this.#desk.read(),
      clients: this.#clients.read(),
      failures: this.#desk.failedRequests.list(),
      slowest: this.#desk.slowRequests.entries(this.#clock.now()),
    };
  }

  /** Bytes of answers that clients have not read. */
  get unreadBytes(): number {
    return this.#unread.bytes;
  }

  /** Serves the plan's listener from now on, in one step. Open requests end as they began. */
  apply(plan: EnginePlan): void {
    const { listener: planned } = plan;
    if (planned) {
      this.#wasUsed = true;
      this.#terms = planned.terms;
      this.#desk.resize(planned.terms.capacity);
    }
    this.#clients.replace(planned?.keys ?? null);
    this.#origins = planned?.cors?.length ? new Origins(planned.cors) : null;
    this.#isOpen = planned !== undefined;
    this.#planned = new Map(planned?.endpoints.map((endpoint) => [endpoint.spec.entry, endpoint]));
    this.#desk.failedRequests.keep(this.#planned);
    const served = planned?.endpoints.map((endpoint) => this.#served(endpoint, planned, plan)) ?? [];
    this.#endpoints.replace(served, planned?.paths);
    this.#sockets.refresh();
    this.#observation.apply(plan);
    this.#port.use(planned ? { address: planned.address, tls: planned.tls } : null, this.#drainMs);
  }

  publishApi(openapi: string): void {
    this.#observation.publishApi(openapi);
  }

  /** Passes an outcome to its request. */
  onOutcome(item: WireItem): void {
    this.#host.onBytes(byteLengthOf(item.payload));
    this.#unread.wrote(byteLengthOf(item.payload));
    this.#desk.settle(item);
  }

  /** Passes a part of a result to its request. */
  onPart(item: WireItem): void {
    this.#host.onBytes(byteLengthOf(item.payload));
    this.#unread.wrote(byteLengthOf(item.payload));
    this.#desk.part(item);
  }

  /** Takes no more requests, and answers all that are open by the deadline. */
  async close(deadline: Deadline): Promise<void> {
    this.#sockets.end();
    this.#isOpen = false;
    this.#port.use(null, this.#drainMs);
    await this.#desk.close(deadline);
    await this.#port.closed(this.#clock.now() + LAST_ANSWERS_MS);
  }

  #openDesk(): Desk<PlannedEndpoint> {
    const host = this.#host;
    const { requests, maxQueueBytes } = this.#boot;
    return new Desk<PlannedEndpoint>(
      { capacity: this.#terms.capacity, barred: requests.barred, maxHeldBytes: maxQueueBytes / 2 },
      {
        // A request may have begun before a deploy: it takes the route that is there now.
        entryOf: ({ entry }) =>
          this.#planned.get(entry) ?? new ModeletError('shutting_down', 'the endpoint was removed by a deploy'),
        routeOf: ({ routeRef }) => routeRef,
        refusalOf: ({ patient }, { room }) => {
          const { mostWaiting } = requests;
          if (!patient || mostWaiting === 0 || this.#patient < room + mostWaiting) return null;
          const waiting = `${mostWaiting} requests are waiting (nodeMessageBufferMaxLength)`;
          return new ModeletError('capacity_exceeded', waiting);
        },
        enter: (item) => this.#enter(item),
        cancel: (id) => host.cancel(id),
        taken: (id, parts) => host.taken(id, parts),
        onSettled: (_, { patient }) => {
          if (patient) this.#patient -= 1;
          host.onChange();
        },
        // A refusal opens no request, so nothing else may tell the server for long.
        onFailed: () => host.onChange(),
        onLog: (record) => host.onLog(record),
      },
      this.#clock,
      FIRST_NUMBER.listener,
    );
  }

  #enter(item: WireItem): void {
    if (item.patient) {
      this.#desk.sent(item.id);
      this.#patient += 1;
    }
    // A stage may refuse the item at once, but the endpoint must know the request's number first.
    queueMicrotask(() => {
      if (this.#desk.isOpen(item.id)) this.#host.submit(item, this);
    });
  }

  #failuresOf(stage: string): Failures {
    const found = this.#failures.get(stage);
    if (found) return found;
    const made = new Failures(this.#clock, (message, fields) =>
      this.#host.onLog({ level: 'error', message, stage, fields: { ...fields } }),
    );
    this.#failures.set(stage, made);
    return made;
  }

  /** Longest time for which open requests keep an address that is given up. */
  get #drainMs(): number {
    const { timeoutMs } = this.#terms;
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
    const { timeoutMs, capacity } = this.#terms;
    const refs = routes.find(({ ref }) => ref === routeRef)?.stages ?? [];
    const onRoute = refs.flatMap((ref) => stages.find((stage) => stage.ref === ref) ?? []);
    return serve({
      spec,
      clients: this.#clients.areNeeded ? this.#clients : null,
      origins: this.#origins,
      limits: { timeoutMs, maxBytes: this.#boot.maxPayloadBytes, maxJson },
      runtime: new DeskEndpoint(this.#desk, spec, {
        missing: () => this.#observation.missing(),
        described: () => ({
          first: describe(spec.describedBy.first),
          last: describe(spec.describedBy.last),
          ...rowTerms(onRoute, ({ ref }) => this.#host.description(ref), capacity),
        }),
        watch: ({ payload }) => {
          this.#host.onBytes(byteLengthOf(payload));
          return null;
        },
        log: (record) => {
          if (this.#terms.logsEach) this.#host.onLog(record);
        },
        unhandled: (stage, error, requestId) => this.#failuresOf(stage).note(error, requestId),
      }),
      stageNames,
    });
  }

  #take(request: IncomingMessage, response: ServerResponse): void {
    this.#unread.asked(response);
    if (!this.#isOpen) {
      this.#observation.refuseAll(request, response);
      return;
    }
    const origins = this.#origins;
    if (origins?.preflight(request, response) || this.#endpoints.take(request, response, request.url)) return;
    origins?.mark(request, response);
    const path = originForm(request.url).split('?', 1)[0] as string;
    const methods = this.#endpoints.methodsAt(path);
    if (methods.includes(request.method ?? '')) this.#desk.countRefused(NOT_READ);
    this.#observation.answer(request, response, this.#endpoints.spelled(path), methods);
  }
}

/** A request whose content type no endpoint at its path takes. */
const NOT_READ = { code: 'unsupported_media', message: 'no endpoint at the path takes its content type' } as const;
/** Time for the last answers to reach their clients. */
const LAST_ANSWERS_MS = 500;

/** The count is so old at most, in ms. The bytes written since are added, as if no client had read any of it. */
const LOOK_MS = 10;
/** A client may be silent for so long in the middle of an answer, as with nginx's `send_timeout`. */
const SILENT_MS = 60_000;
/** Smaller answers fit in the kernel's buffers. */
const LARGE = 64 * 1024;

/** Either a connection, or a response that waits behind another on its connection. */
type UnreadAnswer = Pick<Socket, 'writableLength'> & { readonly socket?: Socket | null };

/**
 * Counts the bytes of answers that wait in this process because clients do not read them, and closes the connections of
 * clients that have stopped reading.
 */
class Unread {
  readonly #clock: Clock;
  readonly #open: Set<UnreadAnswer> = new Set();
  #counted = 0;
  #countedAt = 0;
  #since = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  connected(socket: Socket): void {
    this.#open.add(socket);
    socket.once('close', () => this.#open.delete(socket));
  }

  /** Notes a request. Its response counts by itself while it has no connection: clients may send requests ahead. */
  asked(response: ServerResponse): void {
    response.once('prefinish', () => {
      // A WebSocket's request has no connection with a timeout, see loopback.ts.
      const isTimed = response.socket instanceof Socket;
      if (isTimed && response.writableLength > LARGE) response.setTimeout(SILENT_MS, () => response.destroy());
    });
    if (response.socket) return;
    this.#open.add(response);
    response.once('close', () => this.#open.delete(response));
  }

  /** Notes that an answer, or a part of an answer, is written. */
  wrote(bytes: number): void {
    this.#since += bytes;
  }

  get bytes(): number {
    const now = this.#clock.now();
    if (this.#since + this.#counted > 0 && now >= this.#countedAt + LOOK_MS) {
      this.#counted = 0;
      for (const one of this.#open) if (!one.socket) this.#counted += one.writableLength;
      this.#countedAt = now;
      this.#since = 0;
    }
    return this.#counted + this.#since;
  }
}
