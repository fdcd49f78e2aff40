/**
 * The composition root in the Node-RED process: makes the parts, and outlives all deploys. One per Node-RED process;
 * node files get it from `pipelineOf(RED)`.
 */
import type { Node, NodeAPI, NodeDef } from 'node-red';
import { configure } from '../config/configure.ts';
import { ownFile } from '../config/folders.ts';
import type { Raw } from '../config/validate.ts';
import { systemClock } from '../core/clock.ts';
import type { KindSettings } from '../flow/read/compiled-nodes.ts';
import { AccessTable } from '../http/access.ts';
import { LoopMonitor } from '../observe/meters/loop.ts';
import { allowedCpus } from '../process/affinity.ts';
import { type Launcher, probeLauncher } from '../process/parent/launch.ts';
import { Registry } from '../runtime/service/registry.ts';
import type { Machine } from '../runtime/service/runtime-pins.ts';
import type { Service } from '../runtime/service/service.ts';
import { Trials } from '../runtime/service/trial/trials.ts';
import { sharesKeptIn } from '../runtime/service/versions/shares-file.ts';
import { Deployer } from './deploy/deployer.ts';
import type { Deployment } from './deploy/deployment.ts';
import { Feeds } from './feed/feeds.ts';
import { BlockingWatch } from './functions/blocking-watch.ts';
import { type GatePort, NO_GATES } from './gate-port.ts';
import { Handover } from './handover/handover.ts';
import { Lifecycle } from './handover/lifecycle.ts';
import { CompiledHost } from './http/compiled-host.ts';
import { HttpHold } from './http/http-hold.ts';
import { StageModels } from './install/stage-models.ts';
import { type LiveNode, LiveNodes } from './live-nodes.ts';
import { logWarning, nodeRedLog } from './log.ts';
import { Arrivals } from './request/arrivals.ts';
import { flowsChanged, type RequestContext } from './request/context.ts';
import { HttpClients } from './request/http-clients.ts';
import { Joins } from './request/joins.ts';
import { Sequencers, Turns } from './request/sequencer.ts';
import { StatusBadges } from './status.ts';
import { Previews } from './view/previews.ts';

const pipelines: WeakMap<object, Pipeline> = new WeakMap();

/** Returns the pipeline of a Node-RED. All its node files share its event emitter, which is therefore the key. */
export function pipelineOf(RED: NodeAPI): Pipeline {
  const pipeline = pipelines.get(RED.events) ?? new Pipeline(RED);
  pipelines.set(RED.events, pipeline);
  return pipeline;
}

/**
 * Registers a type of nodes that only have settings: the pipeline compiles them into its plan, and does the rest.
 * @param compile returns the settings of a node; throws if they cannot be used
 * @param options what Node-RED takes of a type, such as its credentials
 */
export function registerPart<Kind extends LiveNode['kind']>(
  RED: NodeAPI,
  kind: Kind,
  compile: (raw: Raw, node: Node) => KindSettings<Kind>,
  options: object = {},
): void {
  const pipeline = pipelineOf(RED);
  const type = `modelet-${kind}`;
  const construct = function (this: Node, definition: NodeDef): void {
    RED.nodes.createNode(this, definition);
    const config = configure(type, () => compile({ ...definition }, this));
    pipeline.add({ kind, node: this, config } as LiveNode);
  };
  RED.nodes.registerType(type, construct, options);
}

export class Pipeline {
  readonly RED: NodeAPI;
  readonly live: LiveNodes = new LiveNodes();
  /** The cores are read before anything pins this process; runtimes start when the launcher is known. */
  readonly machine: Machine & { launcher: Launcher } = {
    allowedCpus: allowedCpus(),
    launcher: { setpriv: false, taskset: false },
  };
  /** The running paced splits. */
  readonly feeds: Feeds = new Feeds();
  /** Measures Node-RED's event loop while a runtime exists. */
  readonly loop: LoopMonitor = new LoopMonitor();
  /** Watches function nodes, also where there is no pipeline yet. */
  readonly functions: BlockingWatch;
  readonly registry: Registry;
  /** Set when Node-RED loads the gate node. */
  gates: GatePort = NO_GATES;
  readonly joins: Joins = new Joins(
    () => this.context,
    this.feeds,
    (id) => this.services.reduce((sum, service) => sum + service.gatheringAt(id), 0),
    () => this.#badges.update(),
  );
  readonly trials: Trials = new Trials();
  /** The newest pictures of the flows, for the editor. */
  readonly previews: Previews = new Previews();
  /** Known models that come from hubs. */
  readonly models: StageModels;
  /** Who may use each runtime. */
  readonly access: AccessTable = new AccessTable(systemClock);
  readonly context: RequestContext;
  readonly #badges: StatusBadges;
  readonly #compiled: CompiledHost;
  readonly #arrivals: Arrivals;
  readonly #deployer: Deployer;
  readonly #lifecycle: Lifecycle;

  constructor(RED: NodeAPI) {
    this.RED = RED;
    const { live, machine, feeds, loop, joins, trials, access } = this;
    const ready = probeLauncher(machine.allowedCpus).then((launcher) => {
      machine.launcher = launcher;
    });
    const functions = new BlockingWatch(RED);
    const compiled = new CompiledHost(RED, access);
    const clients = new HttpClients();
    const hold = new HttpHold(RED, clients, compiled);
    const handover = new Handover(RED, {
      wait: (act) => this.#arrivals.wait(act),
      stranded: (msg) => clients.answerIfEarlier(msg, flowsChanged()),
      lost: (msg) => this.#arrivals.lost(msg),
    });
    const badges = new StatusBadges(this);
    const registry = new Registry({
      onChange: () => {
        this.gates.loadChanged();
        badges.update();
      },
      clientsOf: (service) => access.of(service).clients.read(),
      log: nodeRedLog(RED, (stage) => live.get(this.deployment.stageIds.get(stage) ?? '')?.node),
      statesFolder: ownFile(RED.settings, 'key-states'),
      shares: sharesKeptIn(ownFile(RED.settings, 'versions.json'), (message) => logWarning(RED, message)),
    });
    const context: RequestContext = {
      RED,
      live,
      clients,
      joins,
      open: new Set(),
      sequencers: new Sequencers(),
      turns: new Turns(),
      showStatus: (node, status) => badges.setOwn(node, status),
      isStopped: () => this.isStopped,
      isCutOff: (id) => handover.isCutOff(id),
      deployment: () => this.#deployer.current,
      gates: () => this.gates,
      tracing: () => this.#deployer.tracing,
      whenRunning: (deliver) => this.#arrivals.whenRunning(deliver),
    };
    const arrivals = new Arrivals({ context, joins, feeds, flows: () => this.#lifecycle.state.tag });
    const deployer = new Deployer({ context, machine, registry, access, compiled, loop, functions, badges });
    this.#lifecycle = new Lifecycle({ context, joins, registry, trials, ready, arrivals, handover, hold, deployer });
    this.functions = functions;
    this.registry = registry;
    this.context = context;
    this.models = new StageModels(this, () => badges.update());
    this.#badges = badges;
    this.#compiled = compiled;
    this.#arrivals = arrivals;
    this.#deployer = deployer;
  }

  get deployment(): Deployment {
    return this.#deployer.current;
  }

  /** Whether no flow runs or is about to start. */
  get isStopped(): boolean {
    return this.#lifecycle.state.tag === 'stopped';
  }

  /** Why requests to compiled endpoints go through the flow all the same; null if they do not. */
  get barred(): string | null {
    return this.#compiled.look();
  }

  get services(): readonly Service[] {
    return this.registry.services;
  }

  /** Takes in a node until it closes, with the messages that it receives. */
  add(live: LiveNode): void {
    const { node } = live;
    this.live.add(live);
    this.#arrivals.listenTo(live);
    // Without a second parameter, Node-RED gives no `done`.
    node.on('close', (_removed: boolean, done: () => void) => {
      this.#remove(node).then(done, (error: unknown) => {
        node.warn(`while closing: ${(error as Error).message}`);
        done();
      });
    });
  }

  /** Removes a node that closes. If the flows have stopped for good, also waits for the runtimes' processes to end. */
  async #remove(node: Node): Promise<void> {
    this.live.remove(node);
    if (this.isStopped) await Promise.all([this.registry.closeAll(), this.gates.closed(), this.trials.closeAll()]);
  }

  showBadges(): void {
    this.#badges.update();
  }
}
