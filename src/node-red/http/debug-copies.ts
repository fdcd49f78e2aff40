/**
 * Copies of one request's result for the debug nodes beside a compiled endpoint: the messages that they would get in the
 * flow, without `req` and `res`.
 */
import type { NodeAPI } from 'node-red';
import type { Deadline } from '../../core/clock.ts';
import { systemClock } from '../../core/clock.ts';
import type { EndpointSpec } from '../../core/endpoints.ts';
import type { Payload } from '../../core/model.ts';
import type { Settlement } from '../../core/routes/route.ts';
import { decodePayload } from '../../wire/codec/codec.ts';
import { appendTimings, type ModeletTrace, newTrace } from '../request/messages.ts';
import { lastPlace, sequenceOf } from '../request/part-messages.ts';

export class DebugCopies {
  readonly #RED: NodeAPI;
  readonly #spec: EndpointSpec;
  readonly #trace: ModeletTrace;
  readonly #msgid: string;
  /** Number of parts so far. */
  #count = 0;

  constructor(RED: NodeAPI, spec: EndpointSpec, requestId: string, deadline: Deadline) {
    this.#RED = RED;
    this.#spec = spec;
    this.#trace = newTrace(requestId, deadline);
    this.#msgid = RED.util.generateId();
  }

  part(part: Payload, index: number): void {
    this.#count = index + 1;
    this.#trace.totalMs = systemClock.now() - this.#trace.startedAt;
    const parts = sequenceOf(this.#trace, { index });
    for (const id of this.#spec.parts?.copies ?? []) this.#send(id, { payload: decodePayload(part), parts });
  }

  result({ timings, gathered }: Settlement, value: Payload, nameOf: (ref: number) => string): void {
    appendTimings(this.#trace, timings, nameOf);
    const branches = gathered ? { branches: gathered.branches } : {};
    for (const id of this.#spec.copies) {
      const payload = decodePayload(value);
      if (!this.#spec.parts) this.#send(id, { payload, ...branches });
      else this.#send(id, this.#end(payload));
    }
  }

  /** Returns the message that follows all parts. */
  #end(payload: unknown): object {
    const parts = sequenceOf(this.#trace, lastPlace(this.#count, payload));
    return { ...(payload === null ? {} : { payload }), parts, complete: true };
  }

  #send(id: string, content: object): void {
    const msg = { _msgid: this.#msgid, ...content, modelet: structuredClone(this.#trace) };
    this.#RED.nodes.getNode(id)?.receive(msg);
  }
}
