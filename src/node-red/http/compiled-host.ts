/** Serves compiled endpoints in Node-RED's process: before Express, or inside the application of the HTTP-in nodes. */
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { NodeAPI } from 'node-red';
import { type HttpSettings, httpRoot, jsonLimit, pathRules } from '../../config/http/http-settings.ts';
import { systemClock } from '../../core/clock.ts';
import type { EndpointSpec } from '../../core/endpoints.ts';
import type { AccessTable, Origins, OtherOrigins } from '../../http/access.ts';
import { Endpoints } from '../../http/endpoints.ts';
import { originForm } from '../../http/request-head.ts';
import { DeskEndpoint, flawOf, type ServedEndpoint, serve } from '../../http/served-endpoint.ts';
import { Sockets } from '../../http/sockets/sockets.ts';
import type { Tracing } from '../../observe/export/tracing.ts';
import type { Deployment } from '../deploy/deployment.ts';
import { barredByHooks } from '../deploy/http-facts.ts';
import { EndpointOfFlow } from './endpoint-of-flow.ts';
import { type HostPlace, type HostSettings, hostPlace, isOwnCommand, passesEditor } from './host-place.ts';
import { coreHandler, type HttpRequest, type HttpResponse } from './http-types.ts';

type CorsHandler = (request: IncomingMessage, response: ServerResponse, next: () => void) => void;

/** Hooks are looked for at most this often, because every request asks. */
const LOOK_MS = 100;

export class CompiledHost {
  readonly #RED: NodeAPI;
  readonly #access: AccessTable;
  readonly #endpoints: Endpoints = new Endpoints();
  readonly #sockets: Sockets;
  /** Whether pipelines are served. */
  #mayHaveUpgrades = false;
  /** Why endpoints are not compiled, by their paths. */
  #uncompiled: ReadonlyMap<string, string> = new Map();
  readonly #place: HostPlace;
  /** Node-RED's own handler for requests of other origins; null if its settings have none. */
  readonly #nodeCors: CorsHandler | null;
  /** Path of the application of the HTTP-in nodes, without a slash at its end. */
  readonly #root: string;
  #isInFront = false;
  /** Why requests go through the flow since a hook was added behind the last deploy; null: they do not. */
  #barred: string | null = null;
  #lookAt = 0;

  constructor(RED: NodeAPI, access: AccessTable) {
    this.#RED = RED;
    this.#sockets = new Sockets(this, systemClock);
    this.#access = access;
    const settings = RED.settings as HostSettings;
    this.#place = hostPlace(settings, isOwnCommand(), Number.parseInt(String(RED.version()), 10));
    const { httpNodeCors } = RED.settings as HttpSettings;
    this.#nodeCors = httpNodeCors ? coreHandler<CorsHandler>(RED, 'cors', httpNodeCors) : null;
    this.#root = httpRoot(RED.settings as HttpSettings).replace(/\/$/, '');
  }

  /** Serves the endpoints of a deploy from now on, in one step. @param tracing null: requests have no spans */
  serve(deployment: Deployment, tracing: Tracing | null): void {
    const { endpoints, uncompiled } = deployment.compiled;
    this.#mayHaveUpgrades = endpoints.length + uncompiled.length > 0;
    this.#uncompiled = new Map(uncompiled.map(({ path, reason }) => [path, reason]));
    const served = endpoints.flatMap((spec) => this.#prepare(spec, deployment, tracing) ?? []);
    this.#endpoints.replace(served, pathRules(this.#RED.settings as HttpSettings));
    const server = this.#RED.server as unknown as Server | undefined;
    if (server) this.#sockets.serve(server);
    this.#sockets.refresh();
    if (this.#endpoints.size > 0 && this.#place.tag === 'server') this.#standInFront();
  }

  /** Serves no endpoint any more: the flows have stopped. Open requests end as they began. */
  close(): void {
    this.#endpoints.replace([]);
    this.#mayHaveUpgrades = false;
    this.#sockets.refresh();
  }

  /**
   * Looks whether requests to compiled endpoints must go through the flow; returns why, or null. A hook may come and go
   * without a deploy: a debugger that a person attaches must see the next messages.
   */
  look(): string | null {
    const found = barredByHooks(this.#RED);
    if (found !== this.#barred && this.#endpoints.size > 0) {
      const way = found ? `requests go through the flow, because ${found}` : 'requests bypass the flow again';
      this.#RED.log.info(`modelet: compiled endpoints: ${way}`);
    }
    this.#barred = found;
    this.#lookAt = systemClock.now() + LOOK_MS;
    return found;
  }

  /** Takes a request inside the application of the HTTP-in nodes. Returns false if the flow must take it. */
  takeInApp(request: HttpRequest, response: HttpResponse): boolean {
    if (this.#endpoints.size === 0) return false;
    const url = `${this.#root}${originForm(request.url)}`;
    // A body parser in front, for example the one of the editor's application, may have read the body.
    if (request._body) return this.#endpoints.takeModel(request, response, url, request.body);
    return !request.readableDidRead && this.#take(request, response, url);
  }

  /** Leaves to the flow what hooks want to see. A request to a model never becomes a message, so there is nothing to see. */
  #take(request: IncomingMessage, response: ServerResponse, url: string): boolean {
    const endpoints = this.#endpoints;
    return this.#isBarred ? endpoints.takeModel(request, response, url) : endpoints.take(request, response, url);
  }

  #prepare(spec: EndpointSpec, deployment: Deployment, tracing: Tracing | null): ServedEndpoint | null {
    const deployed = deployment.routes.get(spec.entry);
    const answers = [spec.answer, ...(spec.failure ? [spec.failure] : [])];
    if (!deployed || answers.some((answer) => flawOf(answer) !== null) || this.#isOfEditor(spec.path)) return null;
    const { service, route } = deployed;
    const { timeoutMs, maxPayloadBytes: maxBytes } = service.config;
    const { clients, origins } = this.#access.of(service);
    // Each request then decides by itself what pages of other origins may do.
    const isDecided = this.#nodeCors !== null || origins.areSet;
    const headers = isDecided ? [] : this.#headersInFront;
    const model = spec.model && this.#isOfEditor(spec.model.base) ? null : spec.model;
    const stageNames = route.stages.map((id) => deployment.nodes.get(id)?.name ?? id);
    const behind = { RED: this.#RED, tracing, service, spec, stages: route.stages, stageNames };
    const hosted = {
      spec: { ...spec, model },
      clients: clients.areNeeded ? clients : null,
      origins: isDecided ? this.#originsOf(origins) : null,
      limits: { timeoutMs, maxBytes, maxJson: jsonLimit(this.#RED.settings as HttpSettings) },
      runtime: new DeskEndpoint(service.desk, spec, new EndpointOfFlow(behind)),
      stageNames,
    };
    return serve(hosted, headers);
  }

  /** Does what Node-RED does for pages of other origins, by its own `httpNodeCors` and by the runtime's. */
  #originsOf(own: Origins): OtherOrigins | null {
    const handler = this.#nodeCors;
    if (!handler) return own.areSet ? own : null;
    return {
      allows: (origin) => own.allows(origin),
      mark: (request, response) => {
        const [name, value] = own.areSet ? [] : this.#headersInFront;
        if (name !== undefined && value !== undefined) response.setHeader(name, value);
        own.mark(request, response);
        handler(request, response, () => {});
      },
      preflight: (request, response) => {
        if (request.method !== 'OPTIONS' || own.preflight(request, response)) return request.method === 'OPTIONS';
        let isAnswered = true;
        handler(request, response, () => {
          isAnswered = false;
        });
        return isAnswered;
      },
    };
  }

  get #headersInFront(): readonly string[] {
    return this.#place.tag === 'server' ? this.#place.headers : [];
  }

  /** Whether the path is below the editor's root, although not all paths of HTTP-in nodes are. */
  #isOfEditor(path: string): boolean {
    const settings = this.#RED.settings as HostSettings;
    return passesEditor(settings, path) && !passesEditor(settings, this.#root);
  }

  /** The editor, and nodes for WebSockets, take all upgrades of the server, and answer no other. */
  get hasSockets(): boolean {
    return this.#mayHaveUpgrades;
  }

  socketAt(path: string): ServedEndpoint | undefined {
    return this.#isOfListener(path) ? undefined : this.#endpoints.socketAt(path);
  }

  whyNot(path: string): string | null {
    const reason = this.#uncompiled.get(path);
    if (reason === undefined || this.#isOfListener(path)) return null;
    return `only a compiled endpoint takes WebSockets: ${reason}`;
  }

  /** Whether a node of Node-RED's own takes WebSockets at a path. Two cannot take the same one. */
  #isOfListener(path: string): boolean {
    let found = false;
    this.#RED.nodes.eachNode((node) => {
      const { type, path: own = '' } = node as { readonly type: string; readonly path?: string };
      if (type === 'websocket-listener') found ||= `${this.#root}/${own.replace(/^\//, '')}` === path;
    });
    return found;
  }

  get #isBarred(): boolean {
    return (systemClock.now() < this.#lookAt ? this.#barred : this.look()) !== null;
  }

  /** Once, because other modules may stand in front of it later. */
  #standInFront(): void {
    if (this.#isInFront) return;
    this.#isInFront = true;
    const server = this.#RED.server as unknown as Server;
    const others = server.listeners('request') as ((request: IncomingMessage, response: ServerResponse) => void)[];
    server.removeAllListeners('request');
    server.on('request', (request: IncomingMessage, response: ServerResponse) => {
      if (this.#take(request, response, request.url ?? '')) return;
      for (const other of others) other.call(server, request, response);
    });
  }
}
