/**
 * Takes one message through one route: from its entry node to the node that sends it on, or to the handler of its
 * error. Every request ends exactly once.
 *
 *   new       not submitted yet, it may wait for its turn                          -> open | over
 *   open      the service has it, or its outcome waits for flows to start          -> answered | over
 *   answered  a deploy has removed its way to its client, who has an answer by now -> over
 *   over      the message has left, or its error has
 */
import type { Node } from 'node-red';
import type { HttpSettings } from '../../config/http/http-settings.ts';
import { systemClock } from '../../core/clock.ts';
import { asModeletError, isOfRequest, ModeletError } from '../../core/errors.ts';
import { itemCostOf, NO_COST, type Payload, type RequestNumber } from '../../core/model.ts';
import type { Settlement } from '../../core/routes/route.ts';
import { hashOf, type ItemKey, itemKeyOf, LONGEST_KEY_BYTES } from '../../core/text.ts';
import { stickyHash } from '../../core/versions.ts';
import type { TracedRequest } from '../../observe/export/tracing.ts';
import { byteLengthOf } from '../../wire/codec/chunks.ts';
import { decodePayload, encodePayload } from '../../wire/codec/codec.ts';
import { keyBounds } from '../../wire/frames/key-snapshots.ts';
import { encodeMeta } from '../../wire/frames/metas.ts';
import type { DeployedRoute } from '../deploy/deployment.ts';
import { holdLeases, type LeaseHold } from '../gate-port.ts';
import { noteResult } from '../http/answer-form.ts';
import { readRequest } from '../http/bodies.ts';
import { fullPath, type HttpRequest } from '../http/http-types.ts';
import { flowsChanged, type RequestContext } from './context.ts';
import { deliverError, endWithoutFlow, type Leaving } from './error-exit.ts';
import {
  appendTimings,
  continueTrace,
  type Done,
  type ModeletTrace,
  noteGathers,
  type PipelineMessage,
  priorityOf,
  readMessageProperty,
  timeoutOf,
  valueIn,
  writeValue,
} from './messages.ts';
import { ResultDelivery } from './result-delivery.ts';

export class PipelineRequest {
  readonly #context: RequestContext;
  readonly #entry: Node;
  readonly #msg: PipelineMessage;
  readonly #deployed: DeployedRoute;
  readonly #trace: ModeletTrace;
  readonly #traced: TracedRequest | null;
  readonly #leaving: Leaving;
  readonly #results: ResultDelivery;
  readonly #leases: LeaseHold;
  #state: 'new' | 'open' | 'answered' | 'over' = 'new';
  /** The stage that has the request as its only one; null: it may have others. */
  #turn: string | null = null;
  #id: RequestNumber = 0;

  constructor(context: RequestContext, entry: Node, deployed: DeployedRoute, msg: PipelineMessage, done: Done) {
    this.#context = context;
    this.#entry = entry;
    this.#deployed = deployed;
    this.#msg = msg;
    this.#trace = continueTrace(msg, deployed.service.desk.deadlineFor(timeoutOf(msg, deployed.service.config)));
    this.#leases = holdLeases(context.gates(), msg);
    this.#traced = context.tracing()?.begin(msg.req) ?? null;
    this.#results = new ResultDelivery(context, deployed, msg, this.#trace);
    const gathered = (): void => this.#leases.leave();
    this.#leaving = { msg, trace: this.#trace, done: () => this.#ended(done), gathered };
  }

  /** Submits the request to the service, now or when its turn has come. Never throws. */
  begin(): void {
    const { first, route, whole } = this.#deployed;
    if (!whole?.takesTurns) {
      this.#submit();
      return;
    }
    const { turns } = this.#context;
    let stopWaiting = (): void => {};
    this.#turn = route.exit;
    const giveUp = turns.enter(route.exit, first.capacity, () => {
      stopWaiting();
      // It may have ended just before its turn.
      if (this.#state === 'over') turns.leave(route.exit);
      else this.#submit();
    });
    const full = 'the stage takes one message at a time, as its code reads what it wrote before, and too many wait';
    if (!giveUp) this.#endBeforeTurn(new ModeletError('capacity_exceeded', full));
    else if (this.#state === 'new') stopWaiting = this.#awaitTurn(giveUp);
  }

  /** Ends the request at its deadline, or when its client goes away. Returns a function that stops waiting for either. */
  #awaitTurn(giveUp: () => void): () => void {
    const end = (error: ModeletError) => (): void => {
      stop();
      giveUp();
      this.#endBeforeTurn(error);
    };
    const late = end(new ModeletError('deadline_exceeded', 'not answered before its deadline'));
    const timer = systemClock.at(this.#trace.deadline ?? Number.POSITIVE_INFINITY, late);
    const stopWatching = this.#context.clients.watch(this.#msg, end(clientGone()));
    const stop = (): void => {
      timer.cancel();
      stopWatching();
    };
    return stop;
  }

  #endBeforeTurn(error: ModeletError): void {
    if (this.#state !== 'new') return;
    this.#state = 'over';
    this.#turn = null;
    this.#deployed.service.desk.countRefused(error);
    const settlement: Settlement = { outcome: { ok: false, error }, timings: [], gathered: null };
    this.#endSpans(settlement);
    this.#context.whenRunning(() => this.#settled(settlement));
  }

  #submit(): void {
    const { service, first, route, wantsMeta } = this.#deployed;
    const { RED } = this.#context;
    const maxBytes = service.config.maxPayloadBytes;
    try {
      this.#checkClient();
      readRequest(this.#msg, this.#trace, first, maxBytes);
      const input = readMessageProperty(RED, this.#msg, first.input);
      const payload = encodePayload(input, { blame: 'invalid_input', maxBytes });
      const key = route.keyBy === '' ? null : itemKeyOf(valueIn(RED, this.#msg, route.keyBy));
      const meta = this.#meta(wantsMeta, key, maxBytes - byteLengthOf(payload));
      let stopWatching = (): void => {};
      this.#id = service.desk.submit({
        entry: this.#entry.id,
        requestId: this.#trace.requestId,
        gateMs: this.#trace.gateMs,
        payload,
        deadline: this.#trace.deadline ?? Number.POSITIVE_INFINITY,
        priority: priorityOf(this.#msg),
        patient: first.overflow === 'wait' || (first.overflow === 'auto' && !this.#msg.res),
        group: route.dropKey === '' ? 0 : hashOf(String(valueIn(RED, this.#msg, route.dropKey))),
        sticky: route.sticky === '' ? 0 : stickyHash(valueIn(RED, this.#msg, route.sticky)),
        key: key?.hash ?? 0,
        cost: route.costBy === '' ? NO_COST : itemCostOf(valueIn(RED, this.#msg, route.costBy)),
        meta,
        onSettled: (settlement) => {
          stopWatching();
          this.#endSpans(settlement);
          // Its leases end with an error at once, even during a deploy, unless it is that of a branch, whose message may go
          // on. They end with a result when the next node has it.
          const { outcome } = settlement;
          if (!outcome.ok && !this.#isOfBranch(this.#failingNode(outcome.error, settlement)))
            this.#leases.end(outcome.error);
          this.#context.whenRunning(() => this.#settled(settlement));
        },
        ...(this.#results.areInParts
          ? { onPart: (part, index, taken) => this.#results.part(part, index, taken, (error) => this.#abandon(error)) }
          : {}),
        onTap: (stage, value) => this.#context.whenRunning(() => this.#results.tap(stage, value)),
      });
      this.#state = 'open';
      stopWatching = this.#context.clients.watch(this.#msg, () => {
        this.#abandon(clientGone());
      });
      this.#context.open.add(this);
    } catch (thrown) {
      const error = asModeletError(thrown, 'invalid_input');
      // The service counts its own refusals.
      if (isOfRequest(error.code)) service.desk.countRefused(error);
      this.#refused(error);
    }
  }

  #refused(error: ModeletError): void {
    this.#endSpans({ outcome: { ok: false, error }, timings: [], gathered: null });
    this.#fail(error, this.#deployed.route.stages[0]);
  }

  /** Returns what else of the message its stages get; null: nothing. */
  #meta(wantsTopic: boolean, key: ItemKey | null, maxBytes: number): Uint8Array | null {
    const { topic, _msgid } = this.#msg;
    const { options } = this.#trace;
    const message = this.#results.whole?.parts(maxBytes);
    if (!wantsTopic && options === undefined && !message && !key) return null;
    const more = {
      ...(options === undefined ? {} : { modelet: { options } }),
      ...(message && { _msgid, message }),
      ...(key && { key: key.text, ...keyBounds(this.#msg) }),
    };
    // The sizes of properties are checked before they are text.
    const limit = maxBytes + (message ? message.bytes.length : 0) + (key ? LONGEST_KEY_BYTES : 0);
    const meta = encodeMeta({ ...(wantsTopic ? { topic, _msgid } : {}), ...more }, limit);
    if (meta !== null) return meta;
    if (options !== undefined) throw new ModeletError('invalid_input', 'JSON cannot hold msg.modelet.options');
    // The topic alone is at fault, and among the properties it travels anyway.
    return message || key ? encodeMeta(more, limit) : null;
  }

  /**
   * Admits a request that has come a way which the wires do not show, such as a link call to a name that a message bears.
   * All others were admitted before they became messages.
   * @throws ModeletError `unauthorized`, `forbidden`, `rate_limited`
   */
  #checkClient(): void {
    const { req, res } = this.#msg;
    const { clients } = this.#deployed;
    if (!clients || !res?._res) return;
    const { headers = {}, path = '' } = (req ?? {}) as Partial<HttpRequest>;
    clients.admit(headers, res._res, fullPath(this.#context.RED.settings as HttpSettings, { path }));
  }

  #abandon(error: ModeletError): void {
    if (this.#state === 'open' || this.#state === 'answered') this.#deployed.service.desk.abandon(this.#id, error);
  }

  /** Call after a deploy: ends the request at once if no node is left to send its result on. */
  endIfStranded(): void {
    const { exit } = this.#deployed.route;
    const isCutOff = this.#msg.res !== undefined && this.#context.isCutOff(exit);
    if (this.#results.senderOf(exit) && !isCutOff) return;
    const error = flowsChanged();
    // The error could not reach an HTTP response either.
    if (isCutOff) {
      this.#context.clients.answerIfEarlier(this.#msg, error);
      this.#state = 'answered';
    }
    this.#abandon(error);
  }

  #endSpans({ outcome, timings, gathered }: Settlement): void {
    if (!this.#traced) return;
    const { service } = this.#deployed;
    this.#traced.end({
      runtime: service.name,
      requestId: this.#trace.requestId,
      error: outcome.ok ? null : outcome.error,
      stages: timings.map(({ stage, ...timing }) => ({ name: this.#nameOf(stage), ...timing })),
      gathered,
    });
  }

  #nameOf(ref: number): string {
    return this.#deployed.service.stage(ref)?.name ?? String(ref);
  }

  #settled(settlement: Settlement): void {
    const { outcome, timings, gathered } = settlement;
    const { service } = this.#deployed;
    const passed = this.#trace.stages.length;
    appendTimings(this.#trace, timings, (ref) => this.#nameOf(ref));
    if (gathered) noteGathers(this.#msg, gathered, passed, (ref) => service.node(ref));
    if (outcome.ok && this.#context.isStopped()) {
      this.#leases.end('cancelled');
      endWithoutFlow(this.#leaving, this.#results.answerPastTheFlow(outcome.value));
    } else if (outcome.ok) {
      this.#succeed(outcome.value);
    } else if (outcome.error.code === 'cancelled' || this.#state === 'answered') {
      // No client waits for this error any more, and the service has counted it.
      this.#leases.end(outcome.error);
      this.#leaving.done();
      this.#results.endStream(outcome.error);
    } else {
      this.#fail(outcome.error, this.#failingNode(outcome.error, settlement), outcome.input);
    }
  }

  /** Returns the node whose errors include this one: a stage, or a node that gathers branches. */
  #failingNode({ stage }: ModeletError, { timings, gathered }: Settlement): string | undefined {
    const { service, route } = this.#deployed;
    if (gathered && gathered.failed !== null) return service.node(gathered.failed);
    // Without a name, the stages that the request has passed tell, unless they are in branches.
    const at = route.leg.next ? 0 : timings.length;
    return (stage === undefined ? route.stages[at] : this.#nodeOf(stage)) ?? route.stages[0];
  }

  /** Returns the node of the route that speaks for a stage: the stage's own, or that of its base. */
  #nodeOf(stage: string): string | undefined {
    const { stageIds, nodes } = this.#context.deployment();
    const id = stageIds.get(stage);
    if (id === undefined || this.#deployed.route.stages.includes(id)) return id;
    return nodes.get(id)?.base ?? id;
  }

  /** Whether a node that gathers branches handles the errors of a stage. */
  #isOfBranch(failing: string | undefined): boolean {
    return this.#context.deployment().nodes.get(failing ?? '')?.handler?.kind === 'join';
  }

  #succeed(value: Payload): void {
    const { exit } = this.#deployed.route;
    try {
      if (!this.#results.send(value)) {
        this.#leases.end('cancelled');
        endWithoutFlow(this.#leaving);
        return;
      }
    } catch (thrown) {
      this.#fail(asModeletError(thrown, 'modelet_failed'), exit);
      return;
    }
    if (this.#context.deployment().nodes.get(exit)?.exit?.isCollected) this.#leases.leave();
    this.#leaving.done();
  }

  #ended(done: Done): void {
    this.#state = 'over';
    this.#context.open.delete(this);
    done();
    this.#leases.end('done');
    this.#results.end();
    if (this.#turn !== null) this.#context.turns.leave(this.#turn);
  }

  /**
   * Returns the value that the failing stage received; undefined if it cannot be read. A value that an earlier stage of
   * the route made is also written to the message, as that stage would have done outside the engine.
   */
  #input(failing: string, made: Payload | undefined): unknown {
    const { RED, live } = this.#context;
    try {
      if (!made) return RED.util.getMessageProperty(this.#msg, this.#deployed.first.input);
      const value = decodePayload(made);
      writeValue(RED, this.#msg, live.settings('stage', failing)?.input ?? 'payload', value);
      noteResult(this.#msg);
      return value;
    } catch {
      return undefined;
    }
  }

  #fail(error: ModeletError, stageId: string | undefined, made?: Payload): void {
    const failing = stageId !== undefined && this.#context.live.get(stageId) ? stageId : this.#entry.id;
    this.#log(error, failing);
    if (!this.#isOfBranch(failing)) this.#leases.end(error);
    deliverError(this.#context, this.#leaving, error, failing, this.#input(failing, made));
    this.#results.endStream(error);
  }

  /** Logs at debug level: under overload there are many errors, and few readers need a single request's error. */
  #log(error: ModeletError, failing: string): void {
    const { code, message } = error;
    const stage = error.stage ?? this.#context.deployment().nodes.get(failing)?.name;
    const fields = { requestId: this.#trace.requestId, code };
    this.#deployed.service.log({ level: 'debug', message: `${code}: ${message}`, fields, ...(stage ? { stage } : {}) });
  }
}

function clientGone(): ModeletError {
  return new ModeletError('cancelled', 'the HTTP client went away');
}
