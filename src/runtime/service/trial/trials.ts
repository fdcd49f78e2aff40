/** The trials that run now: few at a time, so that callers cannot fill the machine with processes. */
import { ModeletError } from '../../../core/errors.ts';
import type { Machine } from '../runtime-pins.ts';
import { Trial, type TrialReport, type TrialSpec } from './trial.ts';

const MOST_TRIALS = 2;

export class Trials {
  readonly #open: Set<Trial> = new Set();

  /**
   * Runs a trial, and resolves when its process is gone.
   * @param gone aborts when the caller no longer wants the report; the trial's process is then killed
   * @throws ModeletError `capacity_exceeded` if too many run, `config_invalid` if there is no Python for the worker;
   * Error if the worker cannot be started.
   */
  async run(spec: TrialSpec, machine: Machine, gone: AbortSignal): Promise<TrialReport> {
    if (this.#open.size >= MOST_TRIALS) {
      throw new ModeletError('capacity_exceeded', `${MOST_TRIALS} tests run already; try again in a moment`, {
        retryAfterSeconds: 1,
      });
    }
    const trial = new Trial(spec, machine);
    this.#open.add(trial);
    const leave = (): void => trial.abort(new ModeletError('cancelled', 'the caller went away'));
    if (gone.aborted) leave();
    gone.addEventListener('abort', leave, { once: true });
    try {
      return await trial.report;
    } finally {
      gone.removeEventListener('abort', leave);
      this.#open.delete(trial);
    }
  }

  /** Kills all trials. Resolves when their processes are gone. */
  async closeAll(): Promise<void> {
    const error = new ModeletError('shutting_down', 'Node-RED is stopping');
    for (const trial of this.#open) trial.abort(error);
    await Promise.all([...this.#open].map(({ report }) => report));
  }
}
