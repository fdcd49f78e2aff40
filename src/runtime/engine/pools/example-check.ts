/**
 * Runs a stage's examples one after the other, each in the first free worker, with requests in between. An example does
 * not count as an item, a batch or an answer. A worker that dies on an example is shown as dead but does not count
 * towards the circuit: a check must not stop a stage that serves.
 *
 *   none     no check runs                                            -> waiting
 *   waiting  the next example waits for a free worker                 -> trying | none
 *   trying   a worker runs an example                                 -> waiting | overdue | none
 *   overdue  the worker still runs it after the deadline; a new check waits for that worker, so that examples that
 *            hang occupy at most one worker                           -> waiting | none
 */
import type { Clock, Deadline, Timer } from '../../../core/clock.ts';
import { ModeletError } from '../../../core/errors.ts';
import type { CheckResult } from '../../../core/model.ts';
import { RunTimeout } from './pool.ts';

/** A ready worker as a check sees it. */
export interface Triable {
  /** Whether the worker could begin an example now. */
  readonly hasPlace: boolean;
  /** Number of examples in the worker's modelet. */
  readonly examples: number;
  /** Starts an example. The worker must have a place. */
  tryExample(example: number, deadline: Deadline): void;
}

export interface CheckHost {
  readonly clock: Clock;
  /** Returns the workers that may run examples. */
  ready(): readonly Triable[];
  /** Returns the reason why no worker may run examples. */
  whyNone(): string;
  /** Announces that a worker has become occupied or free. */
  onChange(): void;
}

interface CheckRun {
  readonly deadline: Deadline;
  readonly timer: Timer;
  readonly result: Promise<CheckResult>;
  readonly resolve: (result: CheckResult) => void;
  /** Number of examples that have run. */
  ran: number;
}

type CheckState =
  | { readonly tag: 'none' }
  | { readonly tag: 'waiting' | 'trying'; readonly run: CheckRun }
  | { readonly tag: 'overdue'; readonly run: CheckRun | null };

export class ExampleCheck {
  readonly #host: CheckHost;
  #state: CheckState = { tag: 'none' };

  constructor(host: CheckHost) {
    this.#host = host;
  }

  /** Whether an example waits for a free worker. If so, the pool must send no batch ahead to any worker. */
  get isWaiting(): boolean {
    return this.#state.tag === 'waiting';
  }

  /** Starts a check, or joins the running check, including its deadline. Never rejects. */
  begin(deadline: Deadline): Promise<CheckResult> {
    const present = this.#state.tag === 'none' ? null : this.#state.run;
    if (present) return present.result;
    const run = this.#run(deadline);
    if (this.#state.tag === 'overdue') {
      this.#state = { tag: 'overdue', run };
    } else {
      this.#state = { tag: 'waiting', run };
      this.advance();
    }
    return run.result;
  }

  /** Starts the next example if possible. Call when a worker may have become free, ready or not ready. */
  advance(): void {
    if (this.#state.tag !== 'waiting') return;
    const { run } = this.#state;
    const ready = this.#host.ready();
    if (ready.length === 0) {
      this.#settle(run, new ModeletError('stage_unavailable', this.#host.whyNone()));
    } else if (ready.every(({ examples }) => examples <= run.ran)) {
      this.#settle(run, null);
    } else {
      const worker = ready.find(({ hasPlace, examples }) => hasPlace && examples > run.ran);
      if (!worker) return;
      this.#state = { tag: 'trying', run };
      worker.tryExample(run.ran, run.deadline);
      this.#host.onChange();
    }
  }

  /** Notes that the worker has finished its example. */
  tried(error: ModeletError | null): void {
    const { tag } = this.#state;
    const run = tag === 'trying' || tag === 'overdue' ? this.#state.run : null;
    if (tag === 'trying' && run) run.ran += 1;
    if (run && tag === 'trying' && error) this.#settle(run, error);
    else this.#goOn(run);
  }

  /** Notes that the worker with the example has died. */
  lost(error: Error): void {
    if (this.#state.tag === 'trying') {
      const code = error instanceof RunTimeout ? 'deadline_exceeded' : 'worker_lost';
      const { run } = this.#state;
      const message = `the worker died at example ${run.ran}: ${error.message}`;
      this.#settle(run, new ModeletError(code, message, { cause: error }));
    } else if (this.#state.tag === 'overdue') {
      this.#goOn(this.#state.run);
    }
  }

  #goOn(run: CheckRun | null): void {
    this.#state = run ? { tag: 'waiting', run } : { tag: 'none' };
    this.#host.onChange();
    // Requests that waited for the worker go first.
    setImmediate(() => this.advance());
  }

  #run(deadline: Deadline): CheckRun {
    let resolve: CheckRun['resolve'] = () => {};
    const result = new Promise<CheckResult>((resolver) => {
      resolve = resolver;
    });
    const run: CheckRun = {
      deadline,
      timer: this.#host.clock.at(deadline, () => this.#late(run)),
      result,
      resolve,
      ran: 0,
    };
    return run;
  }

  #late(run: CheckRun): void {
    const { tag } = this.#state;
    if (tag === 'none' || this.#state.run !== run) return;
    const why = {
      waiting: 'no worker was free for the examples in time',
      trying: `example ${run.ran} was not through in time`,
      overdue: 'a worker is still not through with an example of an earlier check',
    }[tag];
    this.#settle(run, new ModeletError('deadline_exceeded', why));
    if (tag !== 'waiting') this.#state = { tag: 'overdue', run: null };
  }

  #settle(run: CheckRun, error: ModeletError | null): void {
    run.timer.cancel();
    this.#state = { tag: 'none' };
    this.#host.onChange();
    run.resolve({ examples: run.ran, error });
  }
}
