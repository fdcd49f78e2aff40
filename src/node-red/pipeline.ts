/**
 * The composition root in the Node-RED process: holds the live nodes, the deployment and the running services. Follows
 * Node-RED's deploys and outlives them. One per Node-RED process; node files get it from `pipelineOf(RED)`.
 *
 *   stopped   no flows run                                   -> starting
 *   starting  flows start; messages and outcomes wait        -> running | stopped
 *   running   routes are compiled                            -> starting (a deploy) | stopped
 */
import type { Node, NodeAPI } from 'node-red';
import { DEFAULT_LIMITS } from '../config/compile.ts';
import { ownFile } from '../config/folders.ts';
import { systemClock } from '../core/clock.ts';
import { ModeletError } from '../core/errors.ts';
import { AccessTable } from '../endpoint/clients/clients.ts';
import { isPipelineNode, nodesOf } from '../flow/graph.ts';
import { clientsOf, originsOf, usedRuntimes } from '../flow/read/compiled-nodes.ts';
import { flowsWith } from '../flow/read/running-nodes.ts';
import { waysOut } from '../flow/ways-out.ts';
import { Tracing } from '../observe/export/tracing.ts';
import { LoopMonitor } from '../observe/meters/loop.ts';
import { allowedCpus } from '../process/affinity.ts';
import { probeLauncher } from '../process/parent/launch.ts';
import { Registry } from '../server/registry.ts';
import type { Machine } from '../server/runtime-pins.ts';
import type { Service } from '../server/service.ts';
import { Trials } from '../server/trial/trials.ts';
import { sharesKeptIn } from '../server/versions/shares-file.ts';
import { type Deployed, type Deployment, deploy, NOTHING_DEPLOYED } from './deploy/deployment.ts';
import { Feeds } from './feed/feeds.ts';
import { Gates } from './gate/gates.ts';
import { type FlowsEvent, listenToFlows, UntilRunning } from './handover/flow-events.ts';
import { Succession } from './handover/succession.ts';
import { CompiledHost } from './http/compiled-host.ts';
import { HttpHold } from './http/http-hold.ts';
import { writeMessage } from './http/streamed-answer.ts';
import { type LiveNode, LiveNodes, liveFlows, type RunningLive } from './live-nodes.ts';
import { logFault, logWarning, nodeRedLog } from './log.ts';
import type { RequestContext, RequestInEngine } from './request/context.ts';
import { refuse } from './request/error-exit.ts';
import { HttpClients } from './request/http-clients.ts';
import { Joins } from './request/joins.ts';
import { endOfMessage, MessageLeases } from './request/message-leases.ts';
import { type Done, type PipelineMessage, sendFrom } from './request/messages.ts';
import { PipelineRequest } from './request/pipeline-request.ts';
import { type Sequencer, Sequencers } from './request/sequencer.ts';
import { StatusBadges } from './status.ts';

type PipelineState = 'stopped' | 'starting' | 'running';

/** Longest time from the stop of the old flows to the start of the new. Node-RED gives nodes 15 s to close. */
const LONGEST_DEPLOY_MS = 30_000;
const LOST = new ModeletError('shutting_down', 'lost in a deploy');
const CHANGED = new ModeletError('shutting_down', 'the flow was changed or stopped');

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
  /** Read before anything pins this process. */
  readonly allowedCpus: readonly number[] = allowedCpus();
  /** The running paced splits. */
  readonly feeds: Feeds = new Feeds(() => this.#endTimers());
  /** Measures Node-RED's event loop while a runtime exists. */
  readonly loop: LoopMonitor = new LoopMonitor();
  readonly gates: Gates;
  readonly joins: Joins = new Joins(
    () => this.#context,
    this.feeds,
    (id) => this.services.reduce((sum, service) => sum + service.gatheringAt(id), 0),
    () => this.#badges.update(),
  );
  readonly trials: Trials = new Trials();
  readonly access: AccessTable = new AccessTable(systemClock);
  readonly #clients: HttpClients = new HttpClients(() => this.#endTimers());
  readonly #leases: MessageLeases = new MessageLeases(() => this.#endTimers());
  readonly #succession: Succession;
  readonly #tracing: Tracing;
  readonly #compiled: CompiledHost;
  readonly #hold: HttpHold;
  readonly #sequencers: Sequencers = new Sequencers();
  readonly #machine: Promise<Machine>;
  /** The result of `#machine`; before the first flows run, a default without launcher tools. */
  #known: Machine = { allowedCpus: this.allowedCpus, launcher: { setpriv: false, taskset: false } };
  readonly #registry: Registry;
  readonly #badges: StatusBadges;
  readonly #context: RequestContext;
  #state: PipelineState = 'stopped';
  #deployment: Deployment = NOTHING_DEPLOYED;
  #startedConfig: object | undefined;
  /** Distinguishes this start from one that another deploy has overtaken. */
  #start = 0;
  readonly #untilRunning: UntilRunning;
  readonly #open: Set<RequestInEngine> = new Set();
  /** Builds the document of a runtime's endpoints; null until `documentedBy` is called. */
  #writeApi: ((service: Service) => string) | null = null;
  #describing: NodeJS.Immediate | null = null;

  constructor(RED: NodeAPI) {
    this.RED = RED;
    this.#untilRunning = new UntilRunning(RED);
    this.#machine = probeLauncher(this.allowedCpus).then((launcher) => ({ allowedCpus: this.allowedCpus, launcher }));
    this.#succession = new Succession(RED, {
      wait: (act) => {
        if (this.#untilRunning.isFull) return false;
        this.#untilRunning.add(act);
        return true;
      },
      stranded: (msg) => this.#clients.answerIfEarlier(msg, CHANGED),
      lost: (msg) => this.#lost(msg),
    });
    this.#tracing = new Tracing((thrown) => logFault(RED, 'tracing stops, because OpenTelemetry threw', thrown));
    this.#compiled = new CompiledHost(RED, this.#tracing, this.access);
    this.#hold = new HttpHold(RED, this.#clients, this.#compiled);
    this.#badges = new StatusBadges(this);
    const log = nodeRedLog(RED);
    this.#registry = new Registry({
      onChange: () => {
        this.gates.loadChanged();
        this.#badges.update();
      },
      onDescribed: () => this.#describe(),
      clientsOf: (service) => this.access.of(service).clients.read(),
      log,
      shares: sharesKeptIn(ownFile(RED.settings, 'versions.json'), (message) => logWarning(RED, message)),
    });
    this.gates = new Gates({
      RED,
      live: this.live,
      service: (runtime) => this.#registry.get(runtime),
      onChange: () => this.#badges.update(),
      pipeline: () => this.#context,
      machine: () => this.#known,
      log,
    });
    this.#context = {
      RED,
      access: this.access,
      live: this.live,
      clients: this.#clients,
      leases: this.#leases,
      tracing: this.#tracing,
      joins: this.joins,
      open: this.#open,
      sequencers: (stage) => (this.#deployment.ordering.get(stage) ?? []).map((id) => this.sequencer(id)),
      isStopped: () => this.isStopped,
      isCutOff: (id) => this.#succession.isCutOff(id),
      deployment: () => this.#deployment,
      whenRunning: (deliver) => this.#whenRunning(deliver),
    };
    listenToFlows(RED, {
      stopping: (event) => this.#flowsStopping(event),
      started: (event) => void this.#flowsStarted(event),
      failed: () => {
        if (this.#state === 'starting') this.#stopped();
      },
    });
  }

  get deployment(): Deployment {
    return this.#deployment;
  }

  /** Whether no flow runs or is about to start. */
  get isStopped(): boolean {
    return this.#state === 'stopped';
  }

  /** Why requests to compiled endpoints go through the flow all the same; null if they do not. */
  get barred(): string | null {
    return this.#compiled.look();
  }

  get services(): readonly Service[] {
    return this.#registry.services;
  }

  get machine(): Machine {
    return this.#known;
  }

  /** Sets who writes the OpenAPI documents of the engines that listen. A deploy, or a modelet that is ready, changes them. */
  documentedBy(writeApi: (service: Service) => string): void {
    this.#writeApi = writeApi;
    this.#describe();
  }

  add(live: LiveNode): void {
    this.live.add(live);
  }

  /** Removes a node that closes. If the flows have stopped for good, also waits for the runtimes' processes to end. */
  async remove(node: Node): Promise<void> {
    this.live.remove(node);
    if (this.#state === 'stopped')
      await Promise.all([this.#registry.closeAll(), this.gates.rooms.closed(), this.trials.closeAll()]);
  }

  /** Takes a message that a stage, batcher or gate has received. Every message is answered exactly once. */
  accept(entry: Node, msg: PipelineMessage, done: Done): void {
    this.#onceRunning(() => this.#begin(entry, msg, done), done);
  }

  /** Writes a message that has reached a stream response to its HTTP client. */
  stream(entry: Node, msg: PipelineMessage, done: Done): void {
    const node = this.live.get(entry.id);
    if (node?.kind !== 'stream' || node.config instanceof ModeletError) {
      const reason = node?.config instanceof ModeletError ? node.config : CHANGED;
      refuse(this.#context, entry, msg, done, reason);
    } else writeMessage(msg, node.config, DEFAULT_LIMITS.maxPayloadBytes, done);
  }

  /** Applies a message's order to a gate. */
  order(entry: Node, msg: PipelineMessage, done: Done): void {
    this.#onceRunning(() => this.gates.obey(entry, msg, done), done);
  }

  /** Flushes or drops the queue of the stage behind a node. */
  actOnQueue(entry: Node, action: 'flush' | 'reset'): void {
    this.#deployment.routes.get(entry.id)?.service.actOnStage(entry.id, action);
  }

  /** Sends from the node that has the id when flows run: a deploy may replace a node while a message is on its way. */
  sendBy(id: string, messages: (object | null)[], done: Done): void {
    this.#whenRunning(() => {
      const node = this.live.get(id)?.node;
      if (node) sendFrom(node, messages);
      done();
    });
  }

  /** Ends the gate leases of a message that has reached a collector. */
  collected(msg: PipelineMessage): void {
    this.#leases.end(msg, endOfMessage(msg));
  }

  /** Returns the sequencer that keeps the order of a collector's results. */
  sequencer(collector: string): Sequencer {
    return this.#sequencers.of(collector);
  }

  #onceRunning(act: () => void, done: Done): void {
    if (this.#state === 'running') act();
    else if (!this.#untilRunning.isFull) this.#untilRunning.add(act, done);
    else done(new ModeletError('capacity_exceeded', 'too many messages came before the flows had started'));
  }

  #begin(entry: Node, msg: PipelineMessage, accepted: Done): void {
    const feed = this.feeds.waiterFor(msg);
    const done: Done = (error) => {
      accepted(error);
      feed?.();
    };
    if (this.gates.enter(entry, msg, done)) return;
    if (this.live.get(entry.id)?.kind === 'join') {
      this.joins.take(entry, msg, done);
      return;
    }
    const deployed = this.#deployment.routes.get(entry.id);
    if (deployed) {
      new PipelineRequest(this.#context, entry, deployed, msg, done).begin();
      return;
    }
    const reason = this.#deployment.invalid.get(entry.id) ?? 'the node is not deployed';
    refuse(this.#context, entry, msg, done, new ModeletError('config_invalid', reason));
  }

  #whenRunning(deliver: () => void): void {
    if (this.#state === 'starting') this.#untilRunning.add(deliver);
    else this.#untilRunning.safely(deliver);
  }

  #flowsStopping(event: FlowsEvent): void {
    this.#start += 1;
    // A deploy sets the new flows before it stops the old ones. A stop does not change the flows.
    if (event?.config === this.#startedConfig) {
      this.#stopped();
      return;
    }
    this.#state = 'starting';
    this.#hold.hold();
    this.#clients.noteEarlier();
    this.#untilRunning.safely(() => this.#succession.pause(this.#isAwaited));
    const start = this.#start;
    setTimeout(() => {
      // The new flows may never start, and no client may wait for them forever.
      if (start === this.#start) this.#stopped();
    }, LONGEST_DEPLOY_MS).unref();
  }

  /** Stops because no flow runs. The engines finish their requests, which are answered directly, and then end. */
  #stopped(): void {
    const error = new ModeletError('shutting_down', 'the flows were stopped');
    this.#state = 'stopped';
    this.#compiled.close();
    this.#hold.close(error);
    this.loop.stop();
    this.gates.closeAll(error);
    this.joins.failAll(error);
    void this.#registry.closeAll();
    void this.trials.closeAll();
    this.#succession.end();
    this.#untilRunning.wake();
    this.#clients.answerElsewhere(error);
  }

  async #flowsStarted(event: FlowsEvent): Promise<void> {
    this.#startedConfig = event?.config;
    this.#start += 1;
    const start = this.#start;
    const machine = await this.#machine;
    this.#known = machine;
    if (start !== this.#start) return;
    this.#tracing.look(this.RED.settings.userDir ?? process.cwd());
    const flows = liveFlows(this.RED);
    try {
      this.#registry.reconcile(usedRuntimes(this.live), machine);
      this.loop[this.services.length > 0 ? 'start' : 'stop']();
      const services = new Map(this.services.map((service) => [service.id, service]));
      this.#apply(deploy(this.RED, flows, this.live, services, this.access));
    } catch (thrown) {
      // A fault of this package must not end Node-RED, as an unhandled rejection would.
      this.#deployment = NOTHING_DEPLOYED;
      this.#compiled.close();
      logFault(this.RED, 'the pipelines could not be deployed', thrown);
    }
    this.#state = 'running';
    this.joins.tidy(this.#deployment.joins);
    this.#sequencers.tidy(new Set([...this.#deployment.ordering.values()].flat()));
    this.#untilRunning.safely(() => this.#handOver(flows.running));
    this.#untilRunning.wake();
    for (const request of this.#open) request.endIfStranded();
    this.#hold.open();
    this.#badges.update();
  }

  /** Gives each service and gate its part of a deploy, and reports warnings and invalid nodes. */
  #apply({ deployment, plans, warnings }: Deployed): void {
    for (const service of this.services) {
      const { clients, origins } = this.access.of(service);
      clients.replace(clientsOf(this.live, service.id));
      origins.replace(originsOf(this.live, service.id));
      const plan = plans.get(service.id);
      if (plan) service.apply(plan.stages, plan.routes, plan.listener);
    }
    const invalid = new Map([...deployment.invalid, ...this.gates.apply(deployment.gates)]);
    this.#deployment = { ...deployment, invalid };
    this.#compiled.serve(this.#deployment);
    this.#describe();
    for (const { id, text } of warnings) this.live.get(id)?.node.warn(text);
    for (const [id, reason] of invalid) this.live.get(id)?.node.error(`config_invalid: ${reason}`);
  }

  /** Gives the engines that listen their documents, once for all modelets that become ready together. */
  #describe(): void {
    this.#describing ??= setImmediate(() => {
      this.#describing = null;
      const listening = this.services.filter((service) => service.listens);
      for (const service of listening) if (this.#writeApi) service.publishApi(this.#writeApi(service));
    }).unref();
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
    const isChanged = this.#succession.resume(running, waysOut(ours));
    this.#clients.answerFrom((httpIn) => this.#succession.isDeadEnd(httpIn), CHANGED);
    const longestMs = Math.max(0, ...this.services.map(({ config }) => config.timeoutMs));
    if (isChanged) this.#clients.answerInTime(longestMs, LOST, (msg) => this.#lost(msg));
  }

  /** Whether a client from before the last deploy, a paced split or a gate lease waits for a message. */
  get #isAwaited(): boolean {
    return !(this.#clients.isNoneEarlier && this.feeds.isNoneOpen && this.#leases.isNoneHeld);
  }

  #endTimers(): void {
    if (!this.#isAwaited) this.#succession.endTimers();
  }

  /** Ends a message that a deploy has left without a next node: frees its leases, its paced split and its place. */
  #lost(msg: PipelineMessage): void {
    this.#leases.end(msg, { kind: 'lost' });
    this.feeds.waiterFor(msg)?.();
    if (msg.modelet) this.#sequencers.free(msg.modelet.pass);
  }
}
