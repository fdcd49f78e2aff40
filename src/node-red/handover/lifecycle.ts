/**
 * Follows Node-RED's flows through stops, starts and deploys, and tells the parts of the pipeline in their order. What
 * arrives while flows start waits; when no flow runs any more, all clients get an answer.
 */
import { systemClock } from '../../core/clock.ts';
import { ModeletError } from '../../core/errors.ts';
import { isPipelineNode, nodesOf } from '../../flow/graph.ts';
import { flowsWith } from '../../flow/read/running-nodes.ts';
import { waysOut } from '../../flow/ways-out.ts';
import type { Registry } from '../../runtime/service/registry.ts';
import type { Trials } from '../../runtime/service/trial/trials.ts';
import type { Deployer } from '../deploy/deployer.ts';
import type { HttpHold } from '../http/http-hold.ts';
import { liveFlows, type RunningLive } from '../live-nodes.ts';
import type { Arrivals } from '../request/arrivals.ts';
import { type FlowTag, flowsChanged, type RequestContext } from '../request/context.ts';
import type { Joins } from '../request/joins.ts';
import type { Handover } from './handover.ts';

/** The parts of a pipeline that a stop or start of flows concerns. */
interface LifecycleParts {
  readonly context: RequestContext;
  readonly arrivals: Arrivals;
  readonly handover: Handover;
  readonly hold: HttpHold;
  readonly joins: Joins;
  readonly registry: Registry;
  readonly trials: Trials;
  readonly deployer: Deployer;
  /** Resolves when runtimes may start. */
  readonly ready: Promise<void>;
}

/**
 * What Node-RED's flows do. Each of their events makes a new state, so that a start knows whether another has overtaken it.
 *
 *   stopped   no flows run; a message waits for the first to start            -> starting | running
 *   starting  a deploy starts flows; messages and outcomes wait               -> running | stopped
 *   running   messages begin at once                                          -> starting | stopped
 */
interface FlowState {
  readonly tag: FlowTag;
  /** The configuration of the flows that started last: a new object with every deploy. */
  readonly config: object | undefined;
}

/** An event about the stop or start of flows. */
interface FlowsEvent {
  readonly config?: object;
}

interface RuntimeEvent {
  readonly id?: string;
  readonly payload?: { readonly error?: string };
}

/** Longest time from the stop of the old flows to the start of the new. Node-RED gives nodes 15 s to close. */
const LONGEST_DEPLOY_MS = 30_000;
const LOST = new ModeletError('shutting_down', 'lost in a deploy');

export class Lifecycle {
  readonly #parts: LifecycleParts;
  /** Only this class writes it. No getter, because every request reads it. */
  state: FlowState = { tag: 'stopped', config: undefined };

  constructor(parts: LifecycleParts) {
    this.#parts = parts;
    const { events } = parts.context.RED;
    events.on('flows:stopping', (event: FlowsEvent) => this.#stopping(event?.config));
    events.on('flows:started', (event: FlowsEvent) => void this.#started(event?.config));
    events.on('runtime-event', ({ id, payload }: RuntimeEvent) => {
      // The flows cannot start, because a node type or a module is missing.
      const isFault = id === 'runtime-state' && payload?.error !== undefined;
      if (isFault && this.state.tag === 'starting') this.#stopped();
    });
  }

  #enter(tag: FlowTag, config: object | undefined = this.state.config): FlowState {
    this.state = { tag, config };
    return this.state;
  }

  #stopping(config: object | undefined): void {
    // A deploy sets the new flows before it stops the old ones. A stop does not change the flows.
    if (config === this.state.config) {
      this.#stopped();
      return;
    }
    const { arrivals, context, handover, hold } = this.#parts;
    const starting = this.#enter('starting');
    hold.hold();
    context.clients.noteEarlier();
    arrivals.safely(() => handover.pause());
    systemClock.at(systemClock.now() + LONGEST_DEPLOY_MS, () => {
      // The new flows may never start, and no client may wait for them forever.
      if (this.state === starting) this.#stopped();
    });
  }

  /** Stops because no flow runs. The engines finish their requests, which are answered directly, and then end. */
  #stopped(): void {
    const { arrivals, context, deployer, handover, hold, joins, registry, trials } = this.#parts;
    const error = new ModeletError('shutting_down', 'the flows were stopped');
    this.#enter('stopped');
    deployer.stop();
    hold.close(error);
    context.gates().closeAll(error);
    joins.failAll(error);
    void registry.closeAll();
    void trials.closeAll();
    handover.end();
    arrivals.wake();
    context.turns.dissolve();
    context.clients.answerElsewhere(error);
  }

  async #started(config: object | undefined): Promise<void> {
    const { arrivals, context, deployer, hold, joins, ready } = this.#parts;
    const started = this.#enter(this.state.tag, config);
    await ready;
    if (this.state !== started) return;
    const flows = liveFlows(context.RED);
    deployer.deploy(flows);
    this.#enter('running');
    const { nodes } = context.deployment();
    joins.tidy(nodes);
    context.sequencers.tidy(new Set([...nodes.values()].flatMap(({ exit }) => exit?.ordering ?? [])));
    arrivals.safely(() => this.#handOver(flows.running));
    arrivals.wake();
    for (const request of context.open) request.endIfStranded();
    hold.open();
  }

  /** Hands messages in progress to the nodes that run now. Answers clients without a path to a response at once. */
  #handOver(all: readonly RunningLive[]): void {
    const { arrivals, context, handover, hold, registry } = this.#parts;
    const { endpoints, graph } = context.deployment();
    const running = flowsWith(all, isPipelineNode);
    const ours = new Map(
      running.flatMap(({ node: { id } }) => {
        const node = graph.get(id);
        return node ? [[id, node] as const] : [];
      }),
    );
    const guarded = new Set(endpoints.map(({ id }) => id));
    const unguarded = nodesOf(ours, 'http in').filter(({ id }) => !guarded.has(id));
    hold.guard(endpoints, unguarded);
    const isChanged = handover.resume(running, waysOut(ours));
    const { clients } = context;
    clients.answerFrom((httpIn) => handover.isDeadEnd(httpIn), flowsChanged());
    const longestMs = Math.max(0, ...registry.services.map((service) => service.config.timeoutMs));
    if (isChanged) clients.answerInTime(longestMs, LOST, (msg) => arrivals.lost(msg));
  }
}
