/**
 * Has a worker host run the examples of a remote stage: a job of the stage's queue that the first host with room takes.
 * A check ends with the answer of the host, or at its deadline.
 */
import { type Clock, type Deadline, systemClock, type Timer } from '../core/clock.ts';
import { asModeletError, ModeletError } from '../core/errors.ts';
import type { CheckResult, Payload } from '../core/model.ts';
import { outcomeOf } from '../wire/frames/failures.ts';
import type { BatchQueue } from './batch-queue.ts';
import { decodeReplies, encodeWork } from './batches.ts';
import type { RemoteRegistry } from './registry.ts';

interface OpenCheck {
  readonly resolve: (result: CheckResult) => void;
  readonly timer: Timer;
}

/** Before all batches that wait. */
const PRIORITY = 2 ** 20;

export class HostChecks {
  readonly #clock: Clock;
  readonly #asked: Map<string, OpenCheck> = new Map();

  constructor(clock: Clock = systemClock) {
    this.#clock = clock;
  }

  /** Never rejects. @param id of the job; no other has it */
  ask(id: string, queue: BatchQueue, registry: RemoteRegistry, deadline: Deadline): Promise<CheckResult> {
    return new Promise((resolve) => {
      const late = (): void => this.#end(id, failed(new ModeletError('deadline_exceeded', 'no host answered in time')));
      this.#asked.set(id, { resolve, timer: this.#clock.at(deadline, late) });
      queue
        .add(
          id,
          encodeWork({ tag: 'check', deadline }, (time) => registry.toServer(time)),
          PRIORITY,
        )
        .catch((thrown: unknown) => this.fail(id, thrown));
    });
  }

  /** Whether a job is a check whose result is still wanted. */
  has(id: string): boolean {
    return this.#asked.has(id);
  }

  /** @param answer of the host */
  answered(id: string, answer: Payload | null): void {
    try {
      const [reply] = answer ? decodeReplies(answer).replies : [];
      if (!reply) throw new Error('the host sent no result of its examples');
      const outcome = outcomeOf(reply);
      this.#end(id, { examples: reply.part, error: outcome.ok ? null : outcome.error });
    } catch (thrown) {
      this.fail(id, thrown);
    }
  }

  fail(id: string, thrown: unknown): void {
    this.#end(id, failed(asModeletError(thrown, 'stage_unavailable')));
  }

  #end(id: string, result: CheckResult): void {
    const asked = this.#asked.get(id);
    this.#asked.delete(id);
    asked?.timer.cancel();
    asked?.resolve(result);
  }
}

function failed(error: ModeletError): CheckResult {
  return { examples: 0, error };
}
