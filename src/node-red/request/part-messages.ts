/**
 * The parts of a result as messages of their own, and the message that ends them. `msg.parts` is as a core split node
 * writes it, so that a core join node can put them together.
 */
import { systemClock } from '../../core/clock.ts';
import { ModeletError } from '../../core/errors.ts';
import { stripConnectionHeaders } from '../http/response-headers.ts';
import type { RequestContext } from './context.ts';
import { type ModeletTrace, type PipelineMessage, sendFrom, willAnswer } from './messages.ts';

/** What core split and join know of a message that is one of several. */
interface Parts {
  readonly id: string;
  readonly type: 'array';
  readonly index?: number;
  readonly count?: number;
  /** Where the part is, unless that is the payload. */
  readonly property?: string;
  /** Of the message as it was before. */
  readonly parts?: unknown;
}

export class PartMessages {
  readonly #context: RequestContext;
  readonly #msg: PipelineMessage;
  readonly #trace: ModeletTrace;
  /** The stage that makes them. */
  readonly #exit: string;
  #count = 0;

  constructor(context: RequestContext, msg: PipelineMessage, trace: ModeletTrace, exit: string) {
    this.#context = context;
    this.#msg = msg;
    this.#trace = trace;
    this.#exit = exit;
  }

  /**
   * Lets the collectors behind the stage send a part on, as these are now: a deploy may have come in between.
   * @throws ModeletError `shutting_down` where there is none any more, and what Node-RED throws where it cannot clone
   * the message
   */
  send(part: unknown, index: number): void {
    this.#count = index + 1;
    const { live, deployment, isStopped } = this.#context;
    const output = this.#output;
    const collectors = isStopped() ? [] : (deployment().parting.get(this.#exit) ?? []);
    if (output === null || collectors.length === 0) {
      throw new ModeletError('shutting_down', 'the flow was changed or stopped');
    }
    for (const id of collectors) {
      const collector = live.get(id)?.node;
      if (collector) sendFrom(collector, [this.#copy(part, output, index), null]);
    }
    willAnswer(this.#msg);
  }

  /** Marks the message that comes after all parts. One with no value of its own is no part, but the end of them. */
  end(value: unknown): void {
    const hasValue = value !== null;
    const place = hasValue ? { index: this.#count, count: this.#count + 1 } : { count: this.#count };
    const parts = this.#parts(place, this.#output ?? 'payload');
    Object.assign(this.#msg, { parts, complete: true });
  }

  get #output(): string | null {
    const exit = this.#context.live.get(this.#exit);
    return exit?.kind === 'stage' && !(exit.config instanceof ModeletError) ? exit.config.output : null;
  }

  #copy(part: unknown, output: string, index: number): PipelineMessage {
    const { RED } = this.#context;
    const bare = { ...this.#msg };
    // What will be written over need not be copied.
    if (output === 'payload') delete bare.payload;
    const copy = RED.util.cloneMessage(bare);
    RED.util.setMessageProperty(copy, output, part, true);
    Object.assign(copy, { parts: this.#parts({ index }, output) });
    // Of a way through a pipeline before.
    delete copy['complete'];
    if (copy.modelet) {
      copy.modelet.totalMs = systemClock.now() - this.#trace.startedAt;
      // They are the whole request's, and end with that.
      delete copy.modelet.leases;
      delete copy.modelet.job;
    }
    stripConnectionHeaders(copy);
    return copy;
  }

  #parts(place: { readonly index?: number; readonly count?: number }, property: string): Parts {
    const outer = this.#msg['parts'];
    return {
      // A request that was split makes several results.
      id: `${this.#trace.requestId}.${this.#trace.pass}`,
      type: 'array',
      ...place,
      ...(property === 'payload' ? {} : { property }),
      ...(outer === undefined ? {} : { parts: outer }),
    };
  }
}
