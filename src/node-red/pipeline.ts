/**
 * The composition root in the Node-RED process: holds the live nodes, the deployment and the running services. Follows
 * Node-RED's deploys and outlives them. One per Node-RED process; node files get it from `pipelineOf(RED)`.
 */
import type { Node, NodeAPI } from 'node-red';
import { ownFile } from '../config/folders.ts';
import { systemClock } from '../core/clock.ts';
import { ModeletError } from '../core/errors.ts';
import { isPipelineNode, nodesOf } from '../flow/graph.ts';
import { clientsOf, usedRuntimes } from '../flow/read/compiled-nodes.ts';
import { flowsWith } from '../flow/read/running-nodes.ts';
import { waysOut } from '../flow/ways-out.ts';
import { AccessTable } from '../http/access.ts';
import { Tracing } from '../observe/export/tracing.ts';
import { LoopMonitor } from '../observe/meters/loop.ts';
import { allowedCpus } from '../process/affinity.ts';
import { type Launcher, probeLauncher } from '../process/parent/launch.ts';
import { Registry } from '../runtime/service/registry.ts';
import type { Machine } from '../runtime/service/runtime-pins.ts';
import type { Service } from '../runtime/service/service.ts';
import { Trials } from '../runtime/service/trial/trials.ts';
import { sharesKeptIn } from '../runtime/service/versions/shares-file.ts';
import { type Deployed, type Deployment, deploy, NOTHING_DEPLOYED } from './deploy/deployment.ts';
import { Feeds } from './feed/feeds.ts';
import { BlockingWatch } from './functions/blocking-watch.ts';
import { type GatePort, NO_GATES } from './gate-port.ts';
import { Handover } from './handover/handover.ts';
import { CompiledHost } from './http/compiled-host.ts';
import { HttpHold } from './http/http-hold.ts';
import { StageModels } from './install/stage-models.ts';
import { type LiveNode, LiveNodes, liveFlows, type RunningLive } from './live-nodes.ts';
import { logFault, logWarning, nodeRedLog } from './log.ts';
import { Arrivals } from './request/arrivals.ts';
import { flowsChanged, type RequestContext } from './request/context.ts';
import { HttpClients } from './request/http-clients.ts';
import { Joins } from './request/joins.ts';
import type { PipelineMessage } from './request/messages.ts';
import { Sequencers, Turns } from './request/sequencer.ts';
import { StatusBadges } from './status.ts';
import { Previews } from './view/previews.ts';

/** An event about the stop or start of flows. */
interface FlowsEvent {
  /** The flows' configuration: a new object with every deploy. */
  readonly config?: object;
}

interface RuntimeEvent {
  readonly id?: string;
  readonly payload?: { readonly error?: string };
}

/** Longest time from the stop of the old flows to the start of the new. Node-RED gives nodes 15 s to close. */
const LONGEST_DEPLOY_MS = 30_000;
const LOST = new ModeletError('shutting_down', 'lost in a deploy');

const pipelines: WeakMap<object, Pipeline> = new WeakMap();

/** Returns the pipeline of a Node-RED. All its node files share its event emitter, which is therefore the key. */
export function pipelineOf(RED: NodeAPI): Pipeline {
  const pipeline = pipelines.get(RED.events) ?? new Pipeline(RED);
  pipelines.set(RED.events, pipeline);
  return pipeline;
}

export class Pipeline {
  readonly RED: NodeAPI;
  readonly live: LiveNodes = new LiveNodes();
  /** The cores are read before anything pins this process; the launcher is known when `#probed` resolves. */
  readonly machine: Machine & { launcher: Launcher } = {
    allowedCpus: allowedCpus(),
    launcher: { setpriv: false, taskset: false },
  };
  readonly #probed: Promise<void>;
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
  readonly access: AccessTable = new AccessTable(systemClock);
  /** Takes the messages of the nodes; its state is that of the flows. */
  readonly #arrivals: Arrivals;
  readonly #handover: Handover;
  readonly #tracing: Tracing;
  readonly #compiled: CompiledHost;
  readonly #hold: HttpHold;
  readonly #badges: StatusBadges;
  readonly context: RequestContext;
  #deployment: Deployment = NOTHING_DEPLOYED;
  /** Whether the user had started an SDK of OpenTelemetry when the flows started. */
  #isTraced = false;
  #startedConfig: object | undefined;
  /** Distinguishes this start from a start that another deploy has overtaken. */
  #start = 0;

  constructor(RED: NodeAPI) {
    this.RED = RED;
    this.#probed = probeLauncher(this.machine.allowedCpus).then((launcher) => {
      this.machine.launcher = launcher;
    });
    this.functions = new BlockingWatch(RED);
    const clients = new HttpClients();
    this.#handover = new Handover(RED, {
      wait: (act) => this.#arrivals.wait(act),
      stranded: (msg) => clients.answerIfEarlier(msg, flowsChanged()),
      lost: (msg) => this.#lost(msg),
    });
    this.#tracing = new Tracing((thrown) => logFault(RED, 'tracing stops, because OpenTelemetry threw', thrown));
    this.#compiled = new CompiledHost(RED, this.access);
    this.#hold = new HttpHold(RED, clients, this.#compiled);
    this.#badges = new StatusBadges(this);
    this.models = new StageModels(this, () => this.#badges.update());
    const log = nodeRedLog(RED, (stage) => this.live.get(this.deployment.stageIds.get(stage) ?? '')?.node);
    this.registry = new Registry({
      onChange: () => {
        this.gates.loadChanged();
        this.#badges.update();
      },
      clientsOf: (service) => this.access.of(service).clients.read(),
      log,
      statesFolder: ownFile(RED.settings, 'key-states'),
      shares: sharesKeptIn(ownFile(RED.settings, 'versions.json'), (message) => logWarning(RED, message)),
    });
    this.context = {
      RED,
      live: this.live,
      clients,
      joins: this.joins,
      open: new Set(),
      sequencers: new Sequencers(),
      turns: new Turns(),
      showStatus: (node, status) => this.#badges.setOwn(node, status),
      isStopped: () => this.isStopped,
      isCutOff: (id) => this.#handover.isCutOff(id),
      deployment: () => this.#deployment,
      gates: () => this.gates,
      tracing: () => (this.#isTraced ? this.#tracing : null),
      whenRunning: (deliver) => this.#arrivals.whenRunning(deliver),
    };
    this.#arrivals = new Arrivals({ context: this.context, joins: this.joins, feeds: this.feeds });
    RED.events.on('flows:stopping', (event: FlowsEvent) => this.#flowsStopping(event));
    RED.events.on('flows:started', (event: FlowsEvent) => void this.#flowsStarted(event));
    RED.events.on('runtime-event', ({ id, payload }: RuntimeEvent) => {
      // The flows cannot start, because a node type or a module is missing.
      const isFault = id === 'runtime-state' && payload?.error !== undefined;
      if (isFault && this.#arrivals.state === 'starting') this.#stopped();
    });
  }

  get deployment(): Deployment {
    return this.#deployment;
  }

  /** Whether no flow runs or is about to start. */
  get isStopped(): boolean {
    return this.#arrivals.state === 'stopped';
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

  #flowsStopping(event: FlowsEvent): void {
    this.#start += 1;
    // A deploy sets the new flows before it stops the old ones. A stop does not change the flows.
    if (event?.config === this.#startedConfig) {
      this.#stopped();
      return;
    }
    this.#arrivals.enter('starting');
    this.#hold.hold();
    this.context.clients.noteEarlier();
    this.#arrivals.safely(() => this.#handover.pause());
    const start = this.#start;
    setTimeout(() => {
      // The new flows may never start, and no client may wait for them forever.
      if (start === this.#start) this.#stopped();
    }, LONGEST_DEPLOY_MS).unref();
  }

  /** Stops because no flow runs. The engines finish their requests, which are answered directly, and then end. */
  #stopped(): void {
    const error = new ModeletError('shutting_down', 'the flows were stopped');
    this.#arrivals.enter('stopped');
    this.#compiled.close();
    this.#hold.close(error);
    this.loop.stop();
    this.functions.stop();
    this.gates.closeAll(error);
    this.joins.failAll(error);
    void this.registry.closeAll();
    void this.trials.closeAll();
    this.#handover.end();
    this.#arrivals.wake();
    this.context.clients.answerElsewhere(error);
  }

  async #flowsStarted(event: FlowsEvent): Promise<void> {
    this.#startedConfig = event?.config;
    this.#start += 1;
    const start = this.#start;
    await this.#probed;
    if (start !== this.#start) return;
    this.#isTraced = this.#tracing.look(this.RED.settings.userDir ?? process.cwd());
    const flows = liveFlows(this.RED);
    try {
      this.registry.reconcile(usedRuntimes(this.live), this.machine);
      this.loop[this.services.length > 0 ? 'start' : 'stop']();
      this.functions[hasFunctions(this.RED) ? 'start' : 'stop']();
      const services = new Map(this.services.map((service) => [service.id, service]));
      // Before the deploy, which leaves out what lets every client in.
      for (const service of this.services) this.#setAccess(service);
      this.#apply(deploy(this.RED, flows, this.live, services, this.access, this.gates));
    } catch (thrown) {
      // A fault of this package must not end Node-RED, as an unhandled rejection would.
      this.#deployment = NOTHING_DEPLOYED;
      this.#compiled.close();
      logFault(this.RED, 'the pipelines could not be deployed', thrown);
    }
    this.#arrivals.enter('running');
    const { nodes } = this.#deployment;
    this.joins.tidy(nodes);
    this.context.sequencers.tidy(new Set([...nodes.values()].flatMap(({ exit }) => exit?.ordering ?? [])));
    this.#arrivals.safely(() => this.#handOver(flows.running));
    this.#arrivals.wake();
    for (const request of this.context.open) request.endIfStranded();
    this.#hold.open();
    this.#badges.update();
  }

  /** Decides who may use a service from now on. */
  #setAccess(service: Service): void {
    const { clients, origins } = this.access.of(service);
    clients.replace(clientsOf(this.live, service.id));
    origins.replace(this.live.settings('runtime', service.id)?.cors ?? []);
  }

  /** Gives each service and gate its part of a deploy, and reports warnings and invalid nodes. */
  #apply({ deployment, plans, warnings, applyGates }: Deployed): void {
    for (const service of this.services) {
      const plan = plans.get(service.id);
      if (plan) service.apply(plan.stages, plan.routes, plan.listener);
    }
    const nodes = new Map(deployment.nodes);
    for (const [id, invalid] of applyGates()) {
      const node = nodes.get(id);
      if (node) nodes.set(id, { ...node, invalid });
    }
    this.#deployment = { ...deployment, nodes };
    this.#compiled.serve(this.#deployment, this.context.tracing());
    this.registry.describe();
    for (const { id, text } of warnings) (this.live.get(id)?.node ?? this.RED.nodes.getNode(id))?.warn(text);
    for (const { node, config } of this.live) {
      const invalid = config instanceof ModeletError ? config.message : nodes.get(node.id)?.invalid;
      if (invalid) node.error(`config_invalid: ${invalid}`);
    }
  }

  /** Hands messages in progress to the nodes that run now. Answers clients without a path to a response at once. */
  #handOver(all: readonly RunningLive[]): void {
    const { endpoints, graph } = this.#deployment;
    const running = flowsWith(all, isPipelineNode);
    const ours = new Map(
      running.flatMap(({ node: { id } }) => {
        const node = graph.get(id);
        return node ? [[id, node] as const] : [];
      }),
    );
    const guarded = new Set(endpoints.map(({ id }) => id));
    const unguarded = nodesOf(ours, 'http in').filter(({ id }) => !guarded.has(id));
    this.#hold.guard(endpoints, unguarded);
    const isChanged = this.#handover.resume(running, waysOut(ours));
    const { clients } = this.context;
    clients.answerFrom((httpIn) => this.#handover.isDeadEnd(httpIn), flowsChanged());
    const longestMs = Math.max(0, ...this.services.map(({ config }) => config.timeoutMs));
    if (isChanged) clients.answerInTime(longestMs, LOST, (msg) => this.#lost(msg));
  }

  /** Ends a message that a deploy has left without a next node: frees its leases, its paced split and its place. */
  #lost(msg: PipelineMessage): void {
    if (msg.modelet?.leases) this.gates.lost(msg);
    this.feeds.waiterFor(msg)?.();
    if (msg.modelet) this.context.sequencers.free(msg.modelet.pass);
  }
}

function hasFunctions(RED: NodeAPI): boolean {
  let found = false;
  RED.nodes.eachNode(({ type }) => {
    found ||= type === 'function';
  });
  return found;
}
