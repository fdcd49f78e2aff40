/**
 * The pipeline side of one Node-RED: which nodes live, what is deployed, what runs. Follows Node-RED's deploys
 * and outlives them. One per process of Node-RED; node files reach it through `pipelineOf(RED)`.
 *
 *   stopped   no flows run                                   -> starting
 *   starting  flows start; messages and outcomes wait        -> running | stopped
 *   running   routes are compiled                            -> starting (a deploy) | stopped
 */
import type { Node, NodeAPI } from 'node-red';
import {
  allowedCpus,
  LoopMonitor,
  type Machine,
  ModeletError,
  probeLauncher,
  Registry,
  type RuntimeConfig,
  type Service,
  Tracing,
} from '../../src/index.ts';
import { type Deployment, deploy, NOTHING_DEPLOYED } from './deployment.ts';
import { Feeds } from './feeds.ts';
import { Hops } from './hops.ts';
import { HttpClients } from './http-clients.ts';
import { HttpHold } from './http-hold.ts';
import { type LiveNode, LiveNodes } from './live-nodes.ts';
import { logFault, writeLog } from './log.ts';
import type { PipelineMessage } from './messages.ts';
import { type Done, Passage, refuse, type Surroundings } from './passage.ts';
import { Sequencer } from './sequencer.ts';
import { StatusBadges } from './status.ts';

type PipelineState = 'stopped' | 'starting' | 'running';

/** Most messages that wait for flows to start; each is answered, more are refused. */
const MOST_WAITING = 10_000;
/** From the stop of the old flows to the start of the new; Node-RED gives nodes 15 s to close. */
const LONGEST_DEPLOY_MS = 30_000;
/** After a deploy, for messages that were kept and are on their way to their HTTP response again. */
const UNDER_WAY_MS = 500;

interface FlowsEvent {
  /** The flows that this is about: a new object with every deploy. */
  readonly config?: object;
  readonly type?: string;
}

interface RuntimeEvent {
  readonly id?: string;
  readonly payload?: { readonly error?: string };
}

const pipelines: WeakMap<object, Pipeline> = new WeakMap();

/** All node files of one Node-RED share its event emitter, and with it this. */
export function pipelineOf(RED: NodeAPI): Pipeline {
  let pipeline = pipelines.get(RED.events);
  if (!pipeline) {
    pipeline = new Pipeline(RED);
    pipelines.set(RED.events, pipeline);
  }
  return pipeline;
}

export class Pipeline {
  readonly RED: NodeAPI;
  readonly live: LiveNodes = new LiveNodes();
  /** Read before anything pins this process. */
  readonly allowedCpus: readonly number[] = allowedCpus();
  /** The paced splits that run. */
  readonly feeds: Feeds = new Feeds();
  /** Measures Node-RED's event loop while there is a runtime. */
  readonly loop: LoopMonitor = new LoopMonitor();
  readonly #clients: HttpClients = new HttpClients();
  readonly #hops: Hops;
  readonly #tracing: Tracing;
  readonly #hold: HttpHold;
  /** HTTP responses whose message has come to a pipeline node. */
  readonly #accepted: WeakSet<object> = new WeakSet();
  /** By collector that keeps the order of arrival. */
  readonly #sequencers: Map<string, Sequencer> = new Map();
  readonly #machine: Promise<Machine>;
  readonly #registry: Registry;
  readonly #badges: StatusBadges;
  readonly #surroundings: Surroundings;
  #state: PipelineState = 'stopped';
  #deployment: Deployment = NOTHING_DEPLOYED;
  #startedConfig: object | undefined;
  /** Distinguishes this start from one that another deploy has overtaken. */
  #start = 0;
  #waiting: (() => void)[] = [];

  constructor(RED: NodeAPI) {
    this.RED = RED;
    this.#machine = probeLauncher(this.allowedCpus).then((launcher) => ({ allowedCpus: this.allowedCpus, launcher }));
    this.#hops = new Hops(RED);
    this.#tracing = new Tracing((thrown) => logFault(RED, 'no more spans, OpenTelemetry has thrown', thrown));
    this.#hold = new HttpHold(RED, (response) => this.#accepted.has(response));
    this.#badges = new StatusBadges(this);
    this.#registry = new Registry({
      onChange: () => this.#badges.update(),
      onLog: (service, record) => writeLog(RED, service, record),
    });
    this.#surroundings = {
      RED,
      live: this.live,
      clients: this.#clients,
      hops: this.#hops,
      tracing: this.#tracing,
      sequencers: (stage) => (this.#deployment.ordering.get(stage) ?? []).map((id) => this.sequencer(id)),
      isStopped: () => this.isStopped,
      deployment: () => this.#deployment,
      whenRunning: (deliver) => this.#whenRunning(deliver),
    };
    RED.events.on('flows:stopping', (event: FlowsEvent) => this.#flowsStopping(event));
    RED.events.on('flows:started', (event: FlowsEvent) => void this.#flowsStarted(event));
    RED.events.on('runtime-event', (event: RuntimeEvent) => {
      // Flows that lack a node type or a module are stopped and do not start.
      const failed = event?.id === 'runtime-state' && event.payload?.error !== undefined;
      if (failed && this.#state === 'starting') this.#stopped();
    });
  }

  get deployment(): Deployment {
    return this.#deployment;
  }

  /** No flow runs, nor is one about to. */
  get isStopped(): boolean {
    return this.#state === 'stopped';
  }

  get services(): readonly Service[] {
    return this.#registry.services;
  }

  add(live: LiveNode): void {
    this.live.add(live);
  }

  /** A node closes. Its runtime's processes end only if the flows stop for good; that is waited for. */
  async remove(node: Node): Promise<void> {
    this.live.remove(node);
    if (this.#state === 'stopped') await this.#registry.closeAll();
  }

  /** Takes a message that a stage or batcher has received; it is answered once, whatever happens. */
  accept(entry: Node, msg: PipelineMessage, done: Done): void {
    if (msg.res?._res) this.#accepted.add(msg.res._res);
    if (this.#state === 'running') this.#begin(entry, msg, done);
    else if (this.#waiting.length < MOST_WAITING) this.#waiting.push(() => this.#begin(entry, msg, done));
    else done(new ModeletError('capacity_exceeded', 'too many messages came before the flows had started'));
  }

  /** Lets what waits at the stage behind a node leave at once, or drops it. */
  actOnQueue(entry: Node, action: 'flush' | 'reset'): void {
    this.#deployment.routes.get(entry.id)?.service.actOnStage(entry.id, action);
  }

  /** Sends by the node that bears the id once flows run: a deploy may replace a node while a message comes to it. */
  sendBy(id: string, messages: (object | null)[], done: Done): void {
    this.#whenRunning(() => {
      const node = this.live.get(id)?.node;
      if (node) this.#hops.send(node, messages);
      done();
    });
  }

  /** Keeps the order of one collector's results. */
  sequencer(collector: string): Sequencer {
    let sequencer = this.#sequencers.get(collector);
    if (!sequencer) {
      sequencer = new Sequencer();
      this.#sequencers.set(collector, sequencer);
    }
    return sequencer;
  }

  #begin(entry: Node, msg: PipelineMessage, accepted: Done): void {
    const feed = this.feeds.waiterFor(msg);
    const done: Done = (error) => {
      accepted(error);
      feed?.();
    };
    const deployed = this.#deployment.routes.get(entry.id);
    if (deployed) {
      new Passage(this.#surroundings, entry, deployed, msg, done).begin();
      return;
    }
    const reason = this.#deployment.invalid.get(entry.id) ?? 'the node is not deployed';
    refuse(this.#surroundings, entry, msg, done, new ModeletError('config_invalid', reason));
  }

  #whenRunning(deliver: () => void): void {
    const safely = (): void => {
      try {
        deliver();
      } catch (thrown) {
        // It must not reach the channel that the outcome came by, nor Node-RED.
        logFault(this.RED, 'an outcome could not be delivered', thrown);
      }
    };
    if (this.#state === 'starting') this.#waiting.push(safely);
    else safely();
  }

  #flowsStopping(event: FlowsEvent): void {
    this.#start += 1;
    // A deploy puts new flows in place before it stops the old ones; a stop leaves them as they are.
    if (event?.config === this.#startedConfig) {
      this.#stopped();
      return;
    }
    this.#state = 'starting';
    this.#hold.hold(event?.type === 'full');
    this.#clients.noteElsewhere();
    this.#hops.note((id) => this.live.get(id) !== undefined);
    const start = this.#start;
    setTimeout(() => {
      // Whatever keeps the new flows from starting, nobody may wait for them for ever.
      if (start === this.#start) this.#stopped();
    }, LONGEST_DEPLOY_MS).unref();
  }

  /** No flow runs: what is in the engine is finished and answered past the flow, and the processes end. */
  #stopped(): void {
    const error = new ModeletError('shutting_down', 'the flows were stopped');
    this.#state = 'stopped';
    this.#hold.close(error);
    this.loop.stop();
    void this.#registry.closeAll();
    this.#wake();
    this.#clients.noteElsewhere();
    this.#clients.answerElsewhere(error);
  }

  async #flowsStarted(event: FlowsEvent): Promise<void> {
    this.#startedConfig = event?.config;
    this.#start += 1;
    const start = this.#start;
    const machine = await this.#machine;
    if (start !== this.#start) return;
    this.#tracing.look(this.RED.settings.userDir ?? process.cwd());
    try {
      this.#registry.reconcile(this.#runtimes(), machine);
      this.loop[this.services.length > 0 ? 'start' : 'stop']();
      this.#deployment = deploy(this.RED, this.live, this.#registry, this.RED.settings.userDir ?? process.cwd());
      for (const [id, reason] of this.#deployment.invalid) this.live.get(id)?.node.error(`config_invalid: ${reason}`);
    } catch (thrown) {
      // A fault of ours must not end Node-RED, which an unhandled rejection would.
      this.#deployment = NOTHING_DEPLOYED;
      logFault(this.RED, 'the pipelines could not be deployed', thrown);
    }
    this.#state = 'running';
    this.#hold.guard(this.#deployment.endpoints);
    this.#tidySequencers(event?.type === 'full');
    this.#wake();
    this.#hops.deliver();
    this.#hold.open();
    if (event?.type === 'full') this.#answerLost(start);
    this.#badges.update();
  }

  /** A message that was between two other nodes when all nodes were replaced is lost: its client is told. */
  #answerLost(start: number): void {
    setTimeout(() => {
      if (start === this.#start) this.#clients.answerElsewhere(new ModeletError('shutting_down', 'lost in a deploy'));
    }, UNDER_WAY_MS).unref();
  }

  #tidySequencers(wiresReplaced: boolean): void {
    const ordering = new Set([...this.#deployment.ordering.values()].flat());
    for (const [collector, sequencer] of this.#sequencers) {
      if (wiresReplaced) sequencer.freeSent();
      if (ordering.has(collector)) continue;
      sequencer.dissolve();
      this.#sequencers.delete(collector);
    }
  }

  #runtimes(): Map<string, RuntimeConfig> {
    const used = new Set(
      this.live.of('stage').map(({ config }) => (config instanceof ModeletError ? '' : config.runtime)),
    );
    const runtimes = new Map<string, RuntimeConfig>();
    for (const { node, config } of this.live.of('runtime')) {
      // Where it is looked at from is no part of what runs: changing that restarts nothing.
      if (used.has(node.id) && !(config instanceof ModeletError)) runtimes.set(node.id, { ...config, publicPath: '' });
    }
    return runtimes;
  }

  #wake(): void {
    for (const waiting of this.#waiting.splice(0)) waiting();
  }
}
