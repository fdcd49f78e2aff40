/**
 * Asks the engine to run the examples of all stages. One check runs at a time; concurrent callers share it.
 * Every check is answered, even if the engine dies or hangs.
 */
import type { Clock, Deadline, Timer } from '../../core/clock.ts';
import { ModeletError } from '../../core/errors.ts';
import { type CheckResult, LONGEST_CHECK_MS } from '../../core/model.ts';
import { decodeModeletError } from '../../wire/codec/error-codec.ts';
import type { CheckedStage } from '../../wire/frames/bodies.ts';

/** Result of running the examples of one stage's modelet. */
export interface StageCheck extends CheckResult, Pick<CheckedStage, 'answers'> {
  /** Id of the stage's node. */
  readonly id: string;
  readonly stage: string;
}

export const CHECK = {
  limitMs: LONGEST_CHECK_MS,
  /** Extra time for the engine's answer to arrive, in ms. */
  graceMs: 500,
} as const;

export interface ChecksHost {
  readonly clock: Clock;
  /** Sends the request for a check. Returns false if no engine is ready. */
  send(check: number, deadline: Deadline): boolean;
  /** Returns the numbers of the stages that are on a route now, and of their versions. */
  stages(): readonly number[];
  stage(ref: number): { readonly id: string; readonly name: string } | undefined;
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

  /** Starts a check, or joins the running one. Never rejects. */
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

  /** Takes the engine's answer. Ignores the answer to an earlier check. */
  checked(check: number, stages: readonly CheckedStage[]): void {
    if (this.#present?.number !== check) return;
    this.#settle(
      stages.map(({ stage, error, ...result }) => ({
        ...this.#named(stage),
        ...result,
        error: error === null ? null : decodeModeletError(Buffer.from(error, 'base64'), 'protocol_error'),
      })),
    );
  }

  /** Settles the running check, if there is one, with this error for every stage. */
  fail(error: ModeletError): void {
    this.#settle(this.#host.stages().map((stage) => ({ ...this.#named(stage), examples: 0, error })));
  }

  #named(ref: number): Pick<StageCheck, 'id' | 'stage'> {
    const stage = this.#host.stage(ref);
    return { id: stage?.id ?? '', stage: stage?.name ?? '' };
  }

  #settle(result: readonly StageCheck[]): void {
    this.#present?.timer.cancel();
    this.#present?.resolve(result);
    this.#present = null;
  }
}
