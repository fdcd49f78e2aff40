/**
 * Deploys the flows that run: starts and stops runtimes, and gives each of them, each gate and the compiled endpoints
 * their part of the deployment. `deployment.ts` compiles it.
 */
import { ModeletError } from '../../core/errors.ts';
import { clientsOf, usedRuntimes } from '../../flow/read/compiled-nodes.ts';
import type { AccessTable } from '../../http/access.ts';
import { Tracing } from '../../observe/export/tracing.ts';
import type { LoopMonitor } from '../../observe/meters/loop.ts';
import type { Registry } from '../../runtime/service/registry.ts';
import type { Machine } from '../../runtime/service/runtime-pins.ts';
import type { Service } from '../../runtime/service/service.ts';
import type { BlockingWatch } from '../functions/blocking-watch.ts';
import type { CompiledHost } from '../http/compiled-host.ts';
import type { LiveFlows } from '../live-nodes.ts';
import { logFault } from '../log.ts';
import type { RequestContext } from '../request/context.ts';
import type { StatusBadges } from '../status.ts';
import { type Deployed, type Deployment, deploy, NOTHING_DEPLOYED } from './deployment.ts';

/** The parts of a pipeline that a deploy changes. */
interface DeployerParts {
  readonly context: RequestContext;
  readonly machine: Machine;
  readonly registry: Registry;
  readonly access: AccessTable;
  readonly compiled: CompiledHost;
  readonly loop: LoopMonitor;
  readonly functions: BlockingWatch;
  readonly badges: StatusBadges;
}

export class Deployer {
  readonly #parts: DeployerParts;
  readonly #tracing: Tracing;
  /** Makes the spans of requests; null: the user had not started an SDK of OpenTelemetry when the flows started. */
  tracing: Tracing | null = null;
  /** Like `tracing`, only this class writes it. They are no getters, because every request reads them. */
  current: Deployment = NOTHING_DEPLOYED;

  constructor(parts: DeployerParts) {
    this.#parts = parts;
    const { RED } = parts.context;
    this.#tracing = new Tracing((thrown) => logFault(RED, 'tracing stops, because OpenTelemetry threw', thrown));
  }

  /** Never throws: a fault of this package must not end Node-RED. */
  deploy(flows: LiveFlows): void {
    const { access, compiled, context, functions, loop, machine, registry } = this.#parts;
    const { RED, live } = context;
    try {
      this.tracing = this.#tracing.look(RED.settings.userDir ?? process.cwd()) ? this.#tracing : null;
      registry.reconcile(usedRuntimes(live), machine);
      loop[registry.services.length > 0 ? 'start' : 'stop']();
      functions[flows.definitions.some(({ type }) => type === 'function') ? 'start' : 'stop']();
      const services = new Map(registry.services.map((service) => [service.id, service]));
      // Before the deploy, which leaves out what lets every client in.
      for (const service of services.values()) this.#setAccess(service);
      this.#apply(deploy(RED, flows, live, services, access, context.gates()));
    } catch (thrown) {
      this.current = NOTHING_DEPLOYED;
      compiled.close();
      logFault(RED, 'the pipelines could not be deployed', thrown);
    }
    this.#parts.badges.update();
  }

  /** Call when no flow runs. */
  stop(): void {
    const { compiled, functions, loop } = this.#parts;
    compiled.close();
    loop.stop();
    functions.stop();
  }

  /** Decides who may use a service from now on. */
  #setAccess(service: Service): void {
    const { access, context } = this.#parts;
    const { clients, origins } = access.of(service);
    clients.replace(clientsOf(context.live, service.id));
    origins.replace(service.config.cors);
  }

  /** Gives each service and gate its part of a deploy, and reports warnings and invalid nodes. */
  #apply({ deployment, plans, warnings, applyGates }: Deployed): void {
    const { compiled, context, registry } = this.#parts;
    for (const service of registry.services) {
      const plan = plans.get(service.id);
      if (plan) service.apply(plan.stages, plan.routes, plan.listener);
    }
    const nodes = new Map(deployment.nodes);
    for (const [id, invalid] of applyGates()) {
      const node = nodes.get(id);
      if (node) nodes.set(id, { ...node, invalid });
    }
    this.current = { ...deployment, nodes };
    compiled.serve(this.current, this.tracing);
    registry.describe();
    for (const { id, text } of warnings) (context.live.get(id)?.node ?? context.RED.nodes.getNode(id))?.warn(text);
    for (const { node, config } of context.live) {
      const invalid = config instanceof ModeletError ? config.message : nodes.get(node.id)?.invalid;
      if (invalid) node.error(`config_invalid: ${invalid}`);
    }
  }
}
