/**
 * Asks the engine to run the examples of all stages. One check at a time: who asks while one runs gets its answer.
 * Each is answered, also by an engine that dies or hangs.
 */
import type { Clock, Deadline, Timer } from '../core/clock.ts';
import { ModeletError } from '../core/errors.ts';
import { decodeModeletError } from '../wire/codec/error-codec.ts';
import type { CheckedStage } from '../wire/frames/bodies.ts';

/** Whether a stage's modelet works, as far as its examples tell. */
export interface StageCheck {
  /** Name of the stage. */
  readonly stage: string;
  /** How many examples ran, a failing one included; 0 where its modelet has none. */
  readonly examples: number;
  /** Why it does not work; null where it does. */
  readonly error: ModeletError | null;
}

export const CHECK = {
  /** Milliseconds that the examples of all stages may take together. */
  limitMs: 5000,
  /** How much longer the engine may take to say so. */
  graceMs: 500,
} as const;

export interface ChecksHost {
  readonly clock: Clock;
  /** False if no engine is ready. */
  send(check: number, deadline: Deadline): boolean;
  /** The stages that are on routes now, by their numbers. */
  stages(): readonly number[];
  nameOf(stage: number): string;
}

interface Run {
  readonly number: number;
  readonly timer: Timer;
  readonly result: Promise<readonly StageCheck[]>;
  readonly resolve: (result: readonly StageCheck[]) => void;
}

export class Checks {
  readonly #host: ChecksHost;
  #present: Run | null = null;
  #count = 0;

  constructor(host: ChecksHost) {
    this.#host = host;
  }

  /** Never rejects. */
  check(): Promise<readonly StageCheck[]> {
    if (this.#present) return this.#present.result;
    const { clock } = this.#host;
    this.#count += 1;
    const number = this.#count;
    const deadline = clock.now() + CHECK.limitMs;
    let resolve: Run['resolve'] = () => {};
    const result = new Promise<readonly StageCheck[]>((resolver) => {
      resolve = resolver;
    });
    const timer = clock.at(deadline + CHECK.graceMs, () =>
      this.fail(new ModeletError('deadline_exceeded', 'the engine did not answer in time')),
    );
    this.#present = { number, timer, result, resolve };
    if (!this.#host.send(number, deadline)) this.fail(new ModeletError('engine_lost', 'the engine is not ready'));
    return result;
  }

  /** The engine's answer; one that nobody waits for any more has no effect. */
  checked(check: number, stages: readonly CheckedStage[]): void {
    if (this.#present?.number !== check) return;
    this.#settle(
      stages.map(({ stage, examples, error }) => ({
        stage: this.#host.nameOf(stage),
        examples,
        error: error === null ? null : decodeModeletError(Buffer.from(error, 'base64'), 'protocol_error'),
      })),
    );
  }

  /** Answers for all stages, if somebody waits. */
  fail(error: ModeletError): void {
    this.#settle(this.#host.stages().map((stage) => ({ stage: this.#host.nameOf(stage), examples: 0, error })));
  }

  #settle(result: readonly StageCheck[]): void {
    this.#present?.timer.cancel();
    this.#present?.resolve(result);
    this.#present = null;
  }
}
