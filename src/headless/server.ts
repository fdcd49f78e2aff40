/**
 * A runtime that serves without Node-RED: one service, whose engine listens.
 *
 *   starting  the engine starts and takes its address   -> serving | draining | ended (it cannot listen)
 *   serving   requests are answered                     -> draining
 *   draining  no new requests; open ones are answered   -> ended
 *   ended     all processes are gone
 */
import type { RuntimeConfig } from '../config/compile.ts';
import { httpRoot, jsonLimit, pathRules } from '../config/http/http-settings.ts';
import type { ListenerSpec } from '../core/endpoints.ts';
import { withVersions } from '../flow/versions.ts';
import { apiOf } from '../http/openapi/api.ts';
import { buildDocument } from '../http/openapi/document.ts';
import type { Log } from '../observe/log/log.ts';
import type { Machine } from '../runtime/service/runtime-pins.ts';
import { DRAIN_MS, Service } from '../runtime/service/service.ts';
import type { LiveShares } from '../runtime/service/versions/live-shares.ts';
import type { HeadlessFlows } from './compile-flows.ts';

type ServerState = 'starting' | 'serving' | 'draining' | 'ended';

export interface ServedRuntime extends Pick<ListenerSpec, 'address' | 'tls' | 'keys' | 'endpoints'> {
  readonly id: string;
  readonly config: RuntimeConfig;
}

/** What outlives the process. */
interface KeptFiles {
  /** Null: no file keeps the live shares of versions. */
  readonly shares: LiveShares | null;
  /** Null: the states of keys end with the process. */
  readonly statesFolder: string | null;
}

export class HeadlessServer {
  readonly #flows: HeadlessFlows;
  readonly #served: ServedRuntime;
  readonly #service: Service;
  /** Whether a file keeps the live shares of versions. */
  readonly #areSharesKept: boolean;
  #state: ServerState = 'starting';
  /** Called with the reason if the address cannot be taken. */
  readonly #onFailed: (reason: string) => void;

  constructor(
    flows: HeadlessFlows,
    served: ServedRuntime,
    machine: Machine,
    { log, shares, statesFolder }: { readonly log: Log } & KeptFiles,
    onFailed: (reason: string) => void,
  ) {
    this.#flows = flows;
    this.#served = served;
    this.#onFailed = onFailed;
    this.#service = new Service(served.id, served.config, machine, {
      onChange: () => this.#look(),
      onDescribed: () => this.#describe(),
      log,
      statesFolder,
      ...(shares ? { shares } : {}),
    });
    this.#areSharesKept = shares !== null;
  }

  start(): void {
    const { id, config, address, tls, keys, endpoints } = this.#served;
    const { stages, routes } = this.#flows.plan.of(id);
    // A stage without an endpoint would start workers that no request can reach.
    const entries = new Set(endpoints.map(({ entry }) => entry));
    const used = routes.filter(({ entry }) => entries.has(entry));
    const needed = new Set(
      used.flatMap((route) => withVersions(this.#flows.graph, route.stages)).map((stage) => stage.id),
    );
    this.#service.start();
    const { settings } = this.#flows.source;
    const limits = { maxJson: jsonLimit(settings), paths: pathRules(settings) };
    const planned = stages.filter((stage) => needed.has(stage.id));
    this.#service.apply(planned, used, { address, tls, keys, cors: config.cors, ...limits, endpoints });
    this.#describe();
    if (this.#areSharesKept || planned.every(({ versions }) => (versions?.rollbackAbove ?? null) === null)) return;
    const message = 'a roll-back of a version ends with this process, because no --versions-file keeps it';
    this.#service.log({ level: 'info', message });
  }

  /** Answers open requests and ends all processes. */
  async drain(): Promise<void> {
    if (this.#state === 'draining' || this.#state === 'ended') return;
    this.#state = 'draining';
    await this.#service.close(true, DRAIN_MS);
    this.#state = 'ended';
  }

  #look(): void {
    if (this.#state !== 'starting') return;
    const { listener } = this.#service.snapshot();
    if (listener?.tag === 'listening') this.#state = 'serving';
    if (listener?.tag !== 'failed') return;
    this.#state = 'ended';
    this.#onFailed(listener.message);
  }

  #describe(): void {
    const { graph, nodes, plan, source } = this.#flows;
    const served = new Set(this.#served.endpoints.map(({ id }) => id));
    const described = {
      nameOf: (id: string) => plan.stageNames.get(id) ?? id,
      ...{ graph, nodes, services: [this.#service], compiled: this.#served.endpoints, root: httpRoot(source.settings) },
      runtimeOf: (id: string) => nodes.settings('stage', id)?.runtime,
      needsKey: () => this.#served.keys !== null,
    };
    const api = apiOf(described, [this.#service], (httpIn) => served.has(httpIn));
    this.#service.publishApi(JSON.stringify(buildDocument(api)));
  }
}
