/**
 * Takes messages into a durable gate and out of it. The incoming message ends when it is on disk; the stored item
 * leaves the gate as a new message.
 */
import { randomUUID } from 'node:crypto';
import type { Node } from 'node-red';
import { systemClock, wallTime } from '../../../core/clock.ts';
import { asModeletError, ModeletError } from '../../../core/errors.ts';
import { readMessageBody } from '../../../node-red/http/bodies.ts';
import type { RequestContext } from '../../../node-red/request/context.ts';
import { deliverError, refuse } from '../../../node-red/request/error-exit.ts';
import {
  continueTrace,
  type Done,
  type PipelineMessage,
  priorityOf,
  sendAlong,
  timeoutOf,
} from '../../../node-red/request/messages.ts';
import { refusedFull } from '../../gate-errors.ts';
import type { Lease } from '../../leases.ts';
import { type Claim, isItemId, type QueueItem } from '../../store/work-queue.ts';
import type { DeployedGate } from '../gate-deployment.ts';
import { costOf, type OpenGate } from '../gate-request.ts';
import { endOfMessage, type MessageLeases } from '../message-leases.ts';
import { answerFrom, receipt } from './durable-answers.ts';
import { decodeMessage, encodeMessage, storedDeadline } from './durable-message.ts';
import type { DurableRoom, Outlet } from './durable-room.ts';

export interface StorePlace {
  readonly context: RequestContext;
  readonly leases: MessageLeases;
  readonly room: DurableRoom;
  /** Called with the names of message fields that cannot be stored. */
  readonly onDropped: (names: readonly string[]) => void;
}

/** Stores a message and sends a receipt to its HTTP client, if any. Never throws. */
export function storeMessage(place: StorePlace, entry: Node, open: OpenGate, msg: PipelineMessage, done: Done): void {
  const { context, room } = place;
  const fail = (thrown: unknown): void => {
    const error = asModeletError(thrown, 'invalid_input');
    stay.end(error);
    open.count(error);
    context.whenRunning(() => refuse(context, entry, msg, done, error));
  };
  // A message that returns to this gate needs a new lease: end its old one with the outcome in the message.
  open.leases.end(msg, endOfMessage(msg), { gate: entry.id });
  const stay = open.leases.enter(msg);
  let item: QueueItem;
  try {
    // Decode the body now: the stored item has no request, and so no media type to decode it by.
    readMessageBody(msg, { mediaTypes: null, maxBytes: open.deployed.limits.maxPayloadBytes });
    item = itemOf(place, open, msg);
  } catch (thrown) {
    fail(thrown);
    return;
  }
  room.store(item).then((enqueued) => {
    if (enqueued === 'full') {
      fail(refusedFull(open.gate.admission, open.deployed.config));
      return;
    }
    // The message ends here, so leases of other gates end as done.
    stay.end('done');
    msg['jobId'] = item.id;
    context.whenRunning(() => {
      if (msg.res) answerFrom(context, entry.id, msg, receipt(msg, item.id));
      done();
    });
  }, fail);
}

function itemOf({ onDropped }: StorePlace, { deployed: { limits } }: OpenGate, msg: PipelineMessage): QueueItem {
  const id: unknown = msg['jobId'] ?? randomUUID();
  if (typeof id !== 'string' || !isItemId(id)) {
    throw new ModeletError('invalid_input', 'msg.jobId must be text of 1 to 128 of A-Z, a-z, 0-9, ".", "_", ":", "-"');
  }
  const { payload, dropped } = encodeMessage(msg, limits.maxPayloadBytes);
  if (dropped.length > 0) onDropped(dropped);
  // No HTTP client waits for the result of a stored item, so the timeout for HTTP requests does not apply.
  const { res: _, ...stored } = msg;
  return { id, payload, priority: priorityOf(msg), deadline: storedDeadline(timeoutOf(stored, limits)) };
}

/** Returns the outlet that sends stored items on from the gate's current node. */
export function outletOf(
  place: () => StorePlace,
  deployed: () => DeployedGate,
  events: Pick<Outlet, 'onChange' | 'onTrouble'>,
): Outlet {
  return {
    ...events,
    costOf: (claim) => costOf(place().context.RED, decodeMessage(claim.payload).msg, deployed().config),
    admit: (claim, lease) => sendOn(place(), deployed(), claim, lease),
    refuse: (claim, error) => {
      const { context } = place();
      const msg = restored(claim);
      context.whenRunning(() => {
        const trace = continueTrace(msg, Number.POSITIVE_INFINITY);
        deliverError(context, { msg, trace, done: () => {} }, error, deployed().id, msg.payload);
      });
    },
  };
}

/** Restores the message of a claimed item. @throws ModeletError `protocol_error` */
function restored({ id, payload, attempt, enqueuedAt, deadline }: Claim): PipelineMessage {
  const { msg, requestId } = decodeMessage(payload);
  const end = deadline === null ? Number.POSITIVE_INFINITY : systemClock.now() + deadline - wallTime();
  const trace = continueTrace(msg, end);
  if (requestId !== null) trace.requestId = requestId;
  trace.job = { id, attempt };
  trace.gateMs += Math.max(0, wallTime() - enqueuedAt);
  msg['jobId'] = id;
  return msg;
}

function sendOn({ context, leases, room }: StorePlace, { id }: DeployedGate, claim: Claim, lease: Lease): void {
  const { live, isStopped } = context;
  let msg: PipelineMessage;
  try {
    msg = restored(claim);
  } catch (thrown) {
    room.bury(lease.id, (thrown as Error).message);
    return;
  }
  leases.hold(lease.id, id, (how) => room.settle(lease.id, how));
  if (msg.modelet) msg.modelet.leases = [lease.id];
  // Until the message is sent on, a deploy must not end its leases.
  const stay = leases.enter(msg);
  context.whenRunning(() => {
    const node = live.get(id)?.node;
    if (!node || isStopped()) {
      stay.end('cancelled');
      return;
    }
    const error = sendAlong(context.RED, node, msg, 'invalid_input');
    if (error) stay.end(error);
    else stay.leave();
  });
}
