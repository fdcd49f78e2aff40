/** A request as a node, or a compiled endpoint, submits it to a runtime, and as it crosses to the engine. */
import type { Deadline } from '../core/clock.ts';
import type { Payload, RequestNumber } from '../core/model.ts';
import type { Caller } from '../ledger/ledger.ts';
import { bareItem, type WireItem } from '../wire/frames/items.ts';

/** A request as a node submits it. */
export interface SubmitRequest extends Caller {
  /** Id shown to users; need not be unique. */
  readonly requestId: string;
  /** How long the request waited at gates before it was submitted, in ms. */
  readonly gateMs: number;
  /** Id of the node at which the message entered. */
  readonly entry: string;
  readonly payload: Payload;
  readonly deadline: Deadline;
  /** Priority; a higher number goes first. */
  readonly priority: number;
  /** Whether the request waits for room instead of being refused. */
  readonly patient: boolean;
  /** How many requests come now, with this one: there must be room for all. Default: 1. */
  readonly places?: number | undefined;
  /** Group whose requests evict each other if a full queue drops the oldest; 0 means no group. */
  readonly group: number;
  /** Hash of the value whose requests stay on one version of a stage. Default: there is none. */
  readonly sticky?: number;
  /** JSON of the message properties, other than the payload, that stages may read. */
  readonly meta: Uint8Array | null;
}

/** @param id the number that the ledger gave the request */
export function toItem(request: SubmitRequest, id: RequestNumber, routeRef: number): WireItem {
  const { payload, deadline, priority, patient, group, sticky = 0, meta, onPart } = request;
  const streams = onPart !== undefined;
  return { ...bareItem(id, payload), routeRef, deadline, priority, patient, streams, group, sticky, meta };
}
