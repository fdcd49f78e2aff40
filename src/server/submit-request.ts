/** A request as Node-RED's side submits it. Interface only. */
import type { Deadline } from '../core/clock.ts';
import type { Payload } from '../core/model.ts';
import type { Caller } from './ledger.ts';

export interface SubmitRequest extends Caller {
  /** By which people know the request; need not be unique. */
  readonly requestId: string;
  /** How long it waited at a gate before, in ms. */
  readonly gateMs: number;
  /** The node at which the message entered. */
  readonly entry: string;
  readonly payload: Payload;
  readonly deadline: Deadline;
  /** Higher goes first. */
  readonly priority: number;
  /** Waits where there is no room, instead of being refused. */
  readonly patient: boolean;
  /** Requests of one group evict each other where a full queue drops the oldest; 0: no group. */
  readonly group: number;
  /** JSON of what stages may want of the message besides its payload. */
  readonly meta: Uint8Array | null;
}
