/**
 * Sends each part of a result as its own message, and marks the message that ends the sequence. `msg.parts` has the
 * format of a core split node, so that a core join node can join the parts.
 */
import { systemClock } from '../../core/clock.ts';
import { flowsChanged, type RequestContext } from './context.ts';
import { willAnswer } from './direct-answers.ts';
import { type ModeletTrace, type PipelineMessage, sendFrom, stripConnectionHeaders } from './messages.ts';

/** `msg.parts` as the core split and join nodes define it. */
interface SequenceParts {
  readonly id: string;
  readonly type: 'array';
  readonly index?: number;
  readonly count?: number;
  /** The property that holds the part, unless it is the payload. */
  readonly property?: string;
  /** The original message's own `msg.parts`. */
  readonly parts?: unknown;
}

type PartNumber = Pick<SequenceParts, 'index' | 'count'>;

/** Returns the `msg.parts` of a message with one part of a result, or at its end. */
export function sequenceOf({ requestId, pass }: ModeletTrace, place: PartNumber): SequenceParts {
  // A request that was split has several results, so the id includes the pass.
  return { id: `${requestId}.${pass}`, type: 'array', ...place };
}

/** Returns the place of the message that follows `count` parts. It is a part itself if it has a value. */
export function lastPlace(count: number, value: unknown): PartNumber {
  return value === null ? { count } : { index: count, count: count + 1 };
}

export class PartMessages {
  readonly #context: RequestContext;
  readonly #msg: PipelineMessage;
  readonly #trace: ModeletTrace;
  /** The id of the stage that produces the parts. */
  readonly #exit: string;
  #count = 0;

  constructor(context: RequestContext, msg: PipelineMessage, trace: ModeletTrace, exit: string) {
    this.#context = context;
    this.#msg = msg;
    this.#trace = trace;
    this.#exit = exit;
  }

  /**
   * Sends a part from each current collector behind the stage; a deploy may have changed them since the last part.
   * @throws ModeletError `shutting_down` if nothing takes parts any more; Node-RED's own error if it cannot clone the message
   */
  send(part: unknown, index: number): void {
    this.#count = index + 1;
    const { RED, live, deployment, isStopped } = this.#context;
    const output = this.#output;
    const { parting: collectors = [], streaming = null } = deployment().nodes.get(this.#exit)?.exit ?? {};
    // A stream response directly behind the stage needs no messages.
    const isWanted = collectors.length > 0 || streaming !== null;
    if (isStopped() || output === null || !isWanted) {
      throw flowsChanged();
    }
    for (const id of collectors) {
      const collector = live.get(id)?.node;
      if (collector) sendFrom(RED, collector, [this.#copy(part, output, index), null]);
    }
    willAnswer(this.#msg);
  }

  /** Marks the message that follows all parts. If it has no value, it is not a part but only ends the sequence. */
  end(value: unknown): void {
    const parts = this.#parts(lastPlace(this.#count, value), this.#output ?? 'payload');
    Object.assign(this.#msg, { parts, complete: true });
  }

  get #output(): string | null {
    return this.#context.live.settings('stage', this.#exit)?.output ?? null;
  }

  #copy(part: unknown, output: string, index: number): PipelineMessage {
    const { RED } = this.#context;
    const bare = { ...this.#msg };
    // The part replaces the payload, so the old payload need not be cloned.
    if (output === 'payload') delete bare.payload;
    const copy = RED.util.cloneMessage(bare);
    RED.util.setMessageProperty(copy, output, part, true);
    Object.assign(copy, { parts: this.#parts({ index }, output) });
    // Set by an earlier pass through a pipeline.
    delete copy['complete'];
    if (copy.modelet) {
      copy.modelet.totalMs = systemClock.now() - this.#trace.startedAt;
      // The lease and the job belong to the whole request and end with it.
      delete copy.modelet.leases;
      delete copy.modelet.job;
    }
    stripConnectionHeaders(copy);
    return copy;
  }

  #parts(place: PartNumber, property: string): SequenceParts {
    const outer = this.#msg['parts'];
    return {
      ...sequenceOf(this.#trace, place),
      ...(property === 'payload' ? {} : { property }),
      ...(outer === undefined ? {} : { parts: outer }),
    };
  }
}
