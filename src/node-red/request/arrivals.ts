/**
 * Takes the messages that nodes of this package receive. While flows start, messages and outcomes wait here in order of
 * arrival. Every message is answered exactly once.
 */
import type { Node } from 'node-red';
import { DEFAULT_LIMITS } from '../../config/compile.ts';
import { asError, ModeletError } from '../../core/errors.ts';
import type { Feeds } from '../feed/feeds.ts';
import { AGAIN } from '../http/http-hold.ts';
import { writeMessage } from '../http/streamed-answer.ts';
import type { LiveNode } from '../live-nodes.ts';
import { logFault } from '../log.ts';
import { type FlowTag, flowsChanged, type RequestContext } from './context.ts';
import { deliverToCatchNodes, endWithoutFlow, refuse } from './error-exit.ts';
import type { Joins } from './joins.ts';
import { continueTrace, type Done, type PipelineMessage, sendAlong, stripConnectionHeaders } from './messages.ts';
import { PipelineRequest } from './pipeline-request.ts';

/** The parts of a pipeline that take messages. */
interface Takers {
  readonly context: RequestContext;
  readonly joins: Joins;
  readonly feeds: Feeds;
  flows(): FlowTag;
}

type LiveOf<Kind extends LiveNode['kind']> = Extract<LiveNode, { kind: Kind }>;

/** Most messages that wait for flows to start. Each of them gets an answer; further messages are refused. */
const MOST_WAITING = 10_000;

export class Arrivals {
  readonly #takers: Takers;
  #waiting: (() => void)[] = [];

  constructor(takers: Takers) {
    this.#takers = takers;
  }

  listenTo(live: LiveNode): void {
    live.node.on('input', (msg, _send, done) => this.#take(live, msg as PipelineMessage, done));
  }

  /** Calls `deliver` now, or after the current deploy. */
  whenRunning(deliver: () => void): void {
    if (this.#takers.flows() === 'starting') this.#add(deliver);
    else this.safely(deliver);
  }

  /** Lets a call wait until `wake`. Returns false if too many wait already. */
  wait(act: () => void): boolean {
    if (this.#waiting.length >= MOST_WAITING) return false;
    this.#add(act);
    return true;
  }

  /** Runs all waiting calls in order of arrival. */
  wake(): void {
    for (const waiting of this.#waiting.splice(0)) waiting();
  }

  /**
   * Runs a call and logs its error. The error must not reach the outcome's channel, Node-RED, or the next call.
   * @param done called with the error if `act` throws
   */
  safely(act: () => void, done?: Done): void {
    try {
      act();
    } catch (thrown) {
      logFault(this.#takers.context.RED, 'a message could not be delivered', thrown);
      if (done) this.safely(() => done(asError(thrown)));
    }
  }

  /** Ends a message that a deploy has left without a next node: frees its leases, its paced split and its place. */
  lost(msg: PipelineMessage): void {
    const { context, feeds } = this.#takers;
    if (msg.modelet?.leases) context.gates().lost(msg);
    feeds.waiterFor(msg)?.();
    if (msg.modelet) context.sequencers.free(msg.modelet.pass);
  }

  #add(act: () => void, done?: Done): void {
    this.#waiting.push(() => this.safely(act, done));
  }

  #take(live: LiveNode, msg: PipelineMessage, done: Done): void {
    const { node, kind } = live;
    if (kind === 'collector') this.#collect(live, msg, done);
    else if (kind === 'stream') this.#stream(node, msg, done);
    else if (kind === 'batcher' && ('reset' in msg || 'flush' in msg)) this.#actOnQueue(node, msg, done);
    else if (this.#takers.flows() === 'running') this.#begin(live, msg, done);
    else if (this.#waiting.length < MOST_WAITING) this.#add(() => this.#begin(live, msg, done), done);
    else refuseOneMore(msg, this.#noteItem(msg, done));
  }

  #begin({ kind, node }: LiveNode, msg: PipelineMessage, accepted: Done): void {
    const { context, joins } = this.#takers;
    const done = msg['parts'] === undefined ? accepted : this.#noteItem(msg, accepted);
    if (kind === 'gate' && context.gates().enter(node, msg, done)) return;
    if (kind === 'join') {
      joins.take(node, msg, done);
      return;
    }
    const { routes, nodes } = context.deployment();
    const deployed = routes.get(node.id);
    if (deployed) {
      new PipelineRequest(context, node, deployed, msg, done).begin();
      return;
    }
    const reason = nodes.get(node.id)?.invalid ?? 'the node is not deployed';
    refuse(context, node, msg, done, new ModeletError('config_invalid', reason));
  }

  /** Has a paced split that waits for the message hear of its end. */
  #noteItem(msg: PipelineMessage, accepted: Done): Done {
    const ended = this.#takers.feeds.waiterFor(msg);
    if (!ended) return accepted;
    return (error) => {
      accepted(error);
      ended();
    };
  }

  /** Like the core batch and delay nodes: a message with `reset` or `flush` acts on the queue and goes no further. */
  #actOnQueue({ id }: Node, msg: PipelineMessage, done: Done): void {
    const deployed = this.#takers.context.deployment().routes.get(id);
    deployed?.service.actOnStage(id, 'reset' in msg ? 'reset' : 'flush');
    done();
  }

  /** Ends the leases of a message that has reached a collector, and sends it on when its turn has come. */
  #collect({ node: { id }, config }: LiveOf<'collector'>, msg: PipelineMessage, done: Done): void {
    const { RED, clients, gates, live, sequencers } = this.#takers.context;
    if (msg.modelet?.leases) gates().collected(msg);
    stripConnectionHeaders(msg);
    // By the node that has the id when flows run: a deploy may replace a node while a message is on its way.
    const emit = (): void =>
      this.whenRunning(() => {
        const node = live.get(id)?.node;
        if (!node) clients.answerIfEarlier(msg, flowsChanged());
        const error = node && sendAlong(RED, node, msg, 'modelet_failed');
        if (error) deliverToCatchNodes(RED, node, msg, error);
        done();
      });
    const inOrder = !(config instanceof ModeletError) && config.order === 'arrival';
    if (inOrder) sequencers.of(id).arrived(msg.modelet?.pass, emit);
    else emit();
  }

  /** Writes a message that has reached a stream response to its HTTP client. */
  #stream(entry: Node, msg: PipelineMessage, done: Done): void {
    const { context } = this.#takers;
    const { config } = context.live.get(entry.id) ?? {};
    const stream = context.live.settings('stream', entry.id);
    if (stream) writeMessage(msg, stream, DEFAULT_LIMITS.maxPayloadBytes, done);
    else refuse(context, entry, msg, done, config instanceof ModeletError ? config : flowsChanged());
  }
}

/** Ends a message beyond those that may wait for flows. Its client is answered directly: messages to other nodes wait, too. */
function refuseOneMore(msg: PipelineMessage, done: Done): void {
  const error = new ModeletError('capacity_exceeded', 'too many messages came before the flows had started', AGAIN);
  if (msg.res) endWithoutFlow({ msg, trace: continueTrace(msg, Number.POSITIVE_INFINITY), done }, error);
  else done(error);
}
