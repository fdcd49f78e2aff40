/**
 * Takes one message through one gate: sends it on when the gate admits it, or delivers the error to its handler.
 * Each request ends exactly once.
 *
 *   waiting  in the gate                                -> over
 *   over     admitted, refused, or the client has gone
 */
import type { Node, NodeAPI } from 'node-red';
import type { GateConfig } from '../../config/compile-gate.ts';
import { deadlineAfter, systemClock } from '../../core/clock.ts';
import { asModeletError, ModeletError } from '../../core/errors.ts';
import type { LeaseHold } from '../../node-red/gate-port.ts';
import { readMessageBody } from '../../node-red/http/bodies.ts';
import type { RequestContext } from '../../node-red/request/context.ts';
import { deliverError, endWithoutFlow, type Leaving } from '../../node-red/request/error-exit.ts';
import {
  checkTimeout,
  continueTrace,
  type Done,
  forgetError,
  type ModeletTrace,
  numberIn,
  type PipelineMessage,
  priorityOf,
  sendAlong,
  timeoutOf,
} from '../../node-red/request/messages.ts';
import { encodePayload } from '../../wire/codec/codec.ts';
import type { Gate } from '../gate.ts';
import type { Lease } from '../leases.ts';
import type { DeployedGate } from './gate-deployment.ts';
import { endOfMessage, type MessageLeases } from './message-leases.ts';

/** A gate and its settings at the time a message arrives. */
export interface OpenGate {
  readonly gate: Gate;
  readonly deployed: DeployedGate;
  readonly leases: MessageLeases;
  /** Counts a request that ends at the gate. Does nothing if the gate has no runtime. */
  count(error: ModeletError): void;
}

type GateRequestState = { readonly tag: 'waiting'; readonly stopWatching: () => void } | { readonly tag: 'over' };

export class GateRequest {
  readonly #context: RequestContext;
  readonly #id: string;
  readonly #open: OpenGate;
  readonly #msg: PipelineMessage;
  readonly #trace: ModeletTrace;
  readonly #leaving: Leaving;
  readonly #leaseHold: LeaseHold;
  readonly #cameAt: number = systemClock.now();
  #state: GateRequestState = { tag: 'waiting', stopWatching: () => {} };

  constructor(context: RequestContext, entry: Node, open: OpenGate, msg: PipelineMessage, done: Done) {
    this.#context = context;
    this.#id = entry.id;
    this.#open = open;
    this.#msg = msg;
    // The request's timeout starts here, not at the first stage.
    this.#trace = continueTrace(msg, deadlineAfter(systemClock, timeoutOf(msg, open.deployed.limits)));
    // A message that returns to this gate needs a new lease: end its old one with the outcome in the message.
    open.leases.end(msg, endOfMessage(msg), { gate: entry.id });
    this.#leaseHold = open.leases.enter(msg);
    this.#leaving = { msg, trace: this.#trace, done };
  }

  /** Asks the gate for admission. Never throws. */
  begin(): void {
    const { gate, deployed } = this.#open;
    let cost: number;
    try {
      checkTimeout(this.#msg);
      // Accept every media type here: the stage checks the type.
      readMessageBody(this.#msg, { mediaTypes: null, maxBytes: deployed.limits.maxPayloadBytes });
      cost = costOf(this.#context.RED, this.#msg, deployed.config);
    } catch (thrown) {
      this.#refused(asModeletError(thrown, 'invalid_input'));
      return;
    }
    let cancel = (): void => {};
    const stopWatching = this.#context.clients.watch(this.#msg, () => cancel());
    this.#state = { tag: 'waiting', stopWatching };
    const asked = gate.ask({
      cost,
      priority: priorityOf(this.#msg),
      deadline: this.#trace.deadline ?? Number.POSITIVE_INFINITY,
      admitted: (lease) => this.#admitted(lease),
      refused: (error) => this.#refused(error),
    });
    cancel = () => void asked.cancel();
  }

  /** Ends the request. Returns false if it is over already. */
  #end(): boolean {
    if (this.#state.tag === 'over') return false;
    this.#state.stopWatching();
    this.#state = { tag: 'over' };
    return true;
  }

  #admitted(lease: Lease): void {
    const { gate, leases } = this.#open;
    const { clients, whenRunning } = this.#context;
    if (!this.#end()) {
      gate.end(lease.id, { kind: 'cancelled' });
      return;
    }
    this.#trace.gateMs += systemClock.now() - this.#cameAt;
    // An error of an earlier attempt must not count for this one.
    forgetError(this.#msg);
    this.#leaseHold.leave();
    leases.hold(lease.id, this.#id, ({ end }) => gate.end(lease.id, end));
    this.#trace.leases = [...(this.#trace.leases ?? []), lease.id];
    // If another node fails, a Catch node may lead past every collector, straight to the HTTP response.
    clients.whenFailed(this.#msg, () => leases.endIfElsewhere(lease.id, { kind: 'failed' }));
    // Until the message is sent on, a deploy must not end its leases.
    const stay = leases.enter(this.#msg);
    whenRunning(() => this.#send(stay));
  }

  #send(stay: LeaseHold): void {
    const { RED, live, isStopped } = this.#context;
    const node = live.get(this.#id)?.node;
    if (!node || isStopped()) {
      stay.end('cancelled');
      endWithoutFlow(this.#leaving);
      return;
    }
    const error = sendAlong(RED, node, this.#msg, 'invalid_input');
    if (error) {
      stay.end('cancelled');
      deliverError(this.#context, this.#leaving, error, this.#id, this.#msg.payload);
      return;
    }
    stay.leave();
    this.#leaving.done();
  }

  #refused(error: ModeletError): void {
    if (!this.#end()) return;
    this.#trace.gateMs += systemClock.now() - this.#cameAt;
    this.#leaseHold.end(error);
    this.#open.count(error);
    this.#context.whenRunning(() => {
      // The client has gone: this error has no receiver.
      if (error.code === 'cancelled') this.#leaving.done();
      else deliverError(this.#context, this.#leaving, error, this.#id, this.#msg.payload);
    });
  }
}

/** Returns the cost of a message. @throws ModeletError `invalid_input` if the message lacks a valid cost property. */
export function costOf(
  RED: NodeAPI,
  msg: PipelineMessage,
  { unit, costProperty }: Pick<GateConfig, 'unit' | 'costProperty'>,
): number {
  if (unit === 'requests') return 1;
  if (costProperty === '') return sizeOf(msg.payload);
  const cost = numberIn(RED.util.getMessageProperty(msg, costProperty));
  if (cost >= 0 && Number.isFinite(cost)) return cost;
  throw new ModeletError('invalid_input', `msg.${costProperty} must be the number of ${unit}`);
}

function sizeOf(payload: unknown): number {
  if (typeof payload === 'string') return Buffer.byteLength(payload);
  if (ArrayBuffer.isView(payload)) return payload.byteLength;
  const limits = { blame: 'invalid_input', maxBytes: Number.MAX_SAFE_INTEGER } as const;
  return encodePayload(payload, limits).bytes.byteLength;
}
