/** Handles messages that arrive at a gate: queues requests in memory or on disk, and carries out orders. */
import type { Node } from 'node-red';
import type { RequestContext } from '../request/context.ts';
import { refuse } from '../request/error-exit.ts';
import type { Done, PipelineMessage } from '../request/messages.ts';
import { isStoreOrder, obey } from './durable/durable-answers.ts';
import { storeMessage } from './durable/durable-request.ts';
import { GateRequest } from './gate-request.ts';
import type { Gates } from './gates.ts';

/** Takes in a request. Returns false if the node is not a usable gate. */
export function enterGate(
  context: RequestContext,
  gates: Gates,
  entry: Node,
  msg: PipelineMessage,
  done: Done,
): boolean {
  const gate = gates.get(entry.id);
  if (!gate) return false;
  const place = gates.rooms.place(entry.id);
  if (place) storeMessage(place, entry, gate, msg, done);
  else new GateRequest(context, entry, gate, msg, done).begin();
  return true;
}

/** Carries out the order in `msg.gate`, or refuses the message. */
export function orderGate(context: RequestContext, gates: Gates, entry: Node, msg: PipelineMessage, done: Done): void {
  const order = msg['gate'];
  const place = gates.rooms.place(entry.id);
  if (place && isStoreOrder(order)) {
    obey(context, entry, place.room, order, msg, done);
    return;
  }
  const error = gates.order(entry.id, order);
  if (error) refuse(context, entry, msg, done, error);
  else done();
}
