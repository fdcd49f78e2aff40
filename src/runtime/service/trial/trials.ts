/** The trials and the measurement that run now: few at a time, so that callers cannot fill the machine with processes. */
import { ModeletError } from '../../../core/errors.ts';
import type { StageRuns } from '../../../core/queues/sizing.ts';
import type { Machine } from '../runtime-pins.ts';
import { type MeasureProgress, type MeasureSpec, measureStage } from './measure.ts';
import { Trial, type TrialReport, type TrialSpec } from './trial.ts';

const MOST_TRIALS = 2;

interface OpenMeasurement {
  readonly stop: AbortController;
  /** Resolves when its processes are gone. */
  readonly ended: Promise<unknown>;
}

export class Trials {
  readonly #open: Set<Trial> = new Set();
  /** Only one, because two would slow each other down. */
  #measurement: OpenMeasurement | null = null;

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

  /**
   * Measures a stage, and settles when its processes are gone.
   * @param gone aborts when the caller no longer wants the result; the processes are then killed
   * @throws ModeletError `capacity_exceeded` if another measurement runs, or why the stage cannot be measured
   */
  async measure(
    spec: MeasureSpec,
    machine: Machine,
    gone: AbortSignal,
    onProgress: (progress: MeasureProgress) => void,
  ): Promise<StageRuns> {
    if (this.#measurement) {
      throw new ModeletError('capacity_exceeded', 'another measurement runs; try again when it has ended', {
        retryAfterSeconds: 5,
      });
    }
    const stop = new AbortController();
    const leave = (): void => stop.abort(new ModeletError('cancelled', 'the caller went away'));
    if (gone.aborted) leave();
    gone.addEventListener('abort', leave, { once: true });
    const measured = measureStage(spec, machine, { gone: stop.signal, onProgress });
    this.#measurement = { stop, ended: measured.catch(() => {}) };
    try {
      return await measured;
    } finally {
      gone.removeEventListener('abort', leave);
      this.#measurement = null;
    }
  }

  /** Kills all that runs. Resolves when the processes are gone. */
  async closeAll(): Promise<void> {
    const error = new ModeletError('shutting_down', 'Node-RED is stopping');
    for (const trial of this.#open) trial.abort(error);
    this.#measurement?.stop.abort(error);
    await Promise.all([...[...this.#open].map(({ report }) => report), this.#measurement?.ended]);
  }
}
