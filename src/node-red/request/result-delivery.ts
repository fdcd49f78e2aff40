/**
 * Delivers the results of one request: as messages from the node at the end of its route, in parts where something takes
 * them, and straight to an HTTP client that reads a stream. The counterpart of error-exit.ts.
 */
import type { Node } from 'node-red';
import { asModeletError, ModeletError } from '../../core/errors.ts';
import type { Payload } from '../../core/model.ts';
import { errorBody } from '../../http/client-text.ts';
import type { ResultStream } from '../../http/streaming/result-stream.ts';
import { decodePayload } from '../../wire/codec/codec.ts';
import type { DeployedRoute } from '../deploy/deployment.ts';
import { noteResult } from '../http/answer-form.ts';
import { isStreamOver, streamTo, whenClientRead } from '../http/streamed-answer.ts';
import type { RequestContext } from './context.ts';
import { answerWithResult } from './direct-answers.ts';
import { keepingClient, type ModeletTrace, type PipelineMessage, sendFrom, writeResult } from './messages.ts';
import { PartMessages } from './part-messages.ts';
import type { Sequencer } from './sequencer.ts';
import { WholeMessage } from './whole-message.ts';

export class ResultDelivery {
  readonly #context: RequestContext;
  readonly #deployed: DeployedRoute;
  readonly #msg: PipelineMessage;
  readonly #trace: ModeletTrace;
  /** The collectors that keep the order of arrival. The request has a place in each from its start. */
  readonly #sequencers: readonly Sequencer[];
  /** Sends the parts of the result; null if nothing behind the last stage takes parts. */
  readonly #parts: PartMessages | null;
  /** Writes the parts to the HTTP client; null if the flow does that, or if no client waits. */
  readonly #stream: ResultStream | null;
  /** For a stage whose code takes and makes whole messages; else null. */
  readonly whole: WholeMessage | null;

  constructor(context: RequestContext, deployed: DeployedRoute, msg: PipelineMessage, trace: ModeletTrace) {
    this.#context = context;
    this.#deployed = deployed;
    this.#msg = msg;
    this.#trace = trace;
    const { exit } = deployed.route;
    const { ordering = [], parting = [], streaming = null } = context.deployment().nodes.get(exit)?.exit ?? {};
    const maxBytes = deployed.service.config.maxPayloadBytes;
    this.#parts = streaming || parting.length > 0 ? new PartMessages(context, msg, trace, exit) : null;
    this.#stream = streaming ? streamTo(msg, trace.requestId, streaming, maxBytes) : null;
    this.whole = deployed.whole && new WholeMessage(context, deployed, deployed.whole, msg);
    this.#sequencers = ordering.map((id) => context.sequencers.of(id));
    for (const sequencer of this.#sequencers) sequencer.enter(trace.pass);
  }

  get areInParts(): boolean {
    return this.#parts !== null || this.#deployed.whole?.use.sends === true;
  }

  /** Returns the node that can send a result, and the property for it; null if it is gone or invalid. */
  senderOf(id: string): { readonly node: Node; readonly output: string } | null {
    const found = this.#context.live.get(id);
    if (!found || found.config instanceof ModeletError) return null;
    if (found.kind === 'join') return { node: found.node, output: 'payload' };
    return found.kind === 'stage' ? { node: found.node, output: found.config.output } : null;
  }

  /**
   * Sends a part, now or after the current deploy.
   * @param taken called when the modelet may make the next part
   * @param abandon called if no further part can be delivered
   */
  part(part: Payload, index: number, taken: () => void, abandon: (error: ModeletError) => void): void {
    this.#context.whenRunning(() => {
      try {
        const value = this.whole || this.#parts ? decodePayload(part) : undefined;
        if (!this.#apply(value, part)) {
          this.#stream?.part(part);
          this.#parts?.send(value, index);
        }
      } catch (thrown) {
        abandon(asModeletError(thrown, 'modelet_failed'));
      }
      // Node-RED queued its own delivery before this. Data for a client that does not read stays in memory, so the
      // stage makes no further parts until the client reads.
      setImmediate(() => {
        // A node of the flow may end an answer before the modelet ends its result.
        if (isStreamOver(this.#msg)) abandon(new ModeletError('cancelled', 'the answer has ended'));
        else whenClientRead(this.#msg, taken);
      });
    });
  }

  /** Sends a copy of the message, with one stage's result, to the nodes off the route that are wired to that stage. */
  tap(ref: number, value: Payload): void {
    const { RED } = this.#context;
    const id = this.#deployed.service.node(ref) ?? '';
    const sender = this.senderOf(id);
    if (!sender) return;
    for (const target of this.#deployed.route.taps.get(id) ?? []) {
      keepingClient(this.#msg, () => {
        const copy = RED.util.cloneMessage(this.#msg);
        RED.util.setMessageProperty(copy, sender.output, decodePayload(value), true);
        RED.nodes.getNode(target)?.receive(copy);
      });
    }
  }

  /**
   * Sends the message on with its result. Returns false if the node that sends it is gone.
   * @throws if the result cannot be decoded, or the message cannot be cloned for a second wire
   */
  send(value: Payload): boolean {
    const sender = this.senderOf(this.#deployed.route.exit);
    if (!sender) return false;
    const result = decodePayload(value);
    if (this.#apply(result, value)) {
      this.whole?.end();
      return true;
    }
    writeResult(this.#context.RED, this.#msg, sender.output, this.#parts && result === null ? undefined : result);
    this.#parts?.end(result);
    this.#stream?.end(value);
    noteResult(this.#msg);
    sendFrom(this.#context.RED, sender.node, [this.#msg]);
    for (const sequencer of this.#sequencers) sequencer.sent(this.#trace.pass);
    return true;
  }

  /** Does what code with whole messages did. Returns false if the value is a plain result. */
  #apply(result: unknown, { bytes }: Payload): boolean {
    if (!this.whole?.apply(result, bytes.byteLength)) return false;
    noteResult(this.#msg);
    if (this.whole.hasSent) for (const sequencer of this.#sequencers) sequencer.sent(this.#trace.pass);
    return true;
  }

  /**
   * Answers the HTTP client as its HTTP response node would have, because the flows have stopped.
   * @returns the error if JSON cannot represent the result, for example a BigInt
   */
  answerPastTheFlow(value: Payload): ModeletError | undefined {
    const answer = this.#context.deployment().nodes.get(this.#deployed.route.exit)?.exit?.response;
    try {
      // The message that ends a sequence of parts is not the answer that the client waits for.
      if (this.#stream) this.#stream.end(value);
      else if (this.whole) return;
      else if (answer && !this.#parts) answerWithResult(this.#msg, decodePayload(value), answer);
      return;
    } catch (thrown) {
      return asModeletError(thrown, 'modelet_failed');
    }
  }

  /** Says an error in a stream that has begun. */
  endStream(error: ModeletError): void {
    this.#stream?.fail(errorBody(error, this.#trace.requestId));
  }

  /** Frees the places of a request without a result. A result that was sent on keeps its place until it is collected. */
  end(): void {
    for (const sequencer of this.#sequencers) sequencer.freeUnsent(this.#trace.pass);
  }
}
