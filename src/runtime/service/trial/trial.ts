/**
 * Tries a stage: a separate worker loads the modelet, runs one input, and ends with the trial. Nothing starts that
 * worker again, and no engine takes part. The report always comes when the worker's process is gone.
 *
 *   loading  the worker loads the modelet                            -> running | ending
 *   running  the worker has the input                                -> ending
 *   ending   the outcome is known; the worker finishes or is killed  -> gone
 *   gone     the report is given
 */
import type { ModeletDefinition } from '../../../config/stage-definition.ts';
import { type Clock, type Deadline, systemClock, type Timer } from '../../../core/clock.ts';
import { asError, ModeletError } from '../../../core/errors.ts';
import type { LogLevel, ModeletDescription, Payload, WorkerPlacement } from '../../../core/model.ts';
import { resolvePin } from '../../../process/affinity.ts';
import { type Child, type ChildEvents, levelOfOutput, type ProcessState } from '../../../process/parent/child.ts';
import { asThrown } from '../../../process/parent/start-failure.ts';
import { startProcessWorker } from '../../../process/parent/worker-launch.ts';
import { encodePayload } from '../../../wire/codec/codec.ts';
import { decodeModeletError } from '../../../wire/codec/error-codec.ts';
import type { Frame, WireItem } from '../../../wire/frames/frames.ts';
import { bareItem } from '../../../wire/frames/items.ts';
import type { Machine } from '../runtime-pins.ts';
import { exampleOf } from './example.ts';

const TRIAL = {
  /** Longest time until the worker is ready, and then for the input, in ms. Shorter limits of the stage come first. */
  startMs: 30_000,
  runMs: 10_000,
  /** Time for the modelet to stop, in ms. */
  stopMs: 2000,
  /** Largest JavaScript heap of the worker in MB, if the stage sets no limit. */
  heapMb: 512,
  inputBytes: 1024 * 1024,
  resultBytes: 4 * 1024 * 1024,
  /** Most log lines that the report keeps, and their longest length in characters. */
  lines: 200,
  lineLength: 2000,
  /** A worker that prints more lines than this is killed: reading them takes time in this process. */
  printed: 10_000,
} as const;

/** Largest input that is a file, in bytes. */
export const LARGEST_FILE: number = 16 * 1024 * 1024;

export interface TrialSpec {
  readonly stage: string;
  readonly modelet: ModeletDefinition;
  /** Longest run that the stage allows, in ms; 0: no limit. */
  readonly runTimeoutMs: number;
  /** null: the modelet's own example. */
  readonly input: Payload | null;
}

type TrialOutcome =
  | { readonly ok: true; readonly result: Payload }
  | { readonly ok: false; readonly error: ModeletError };

interface TrialLine {
  readonly level: LogLevel;
  readonly text: string;
}

export interface TrialReport {
  readonly outcome: TrialOutcome;
  /** The modelet's example, as JSON, if it was the input; else null. */
  readonly example: string | null;
  /** Time until the worker was ready, and of the run, in ms; null: it did not come to that. */
  readonly startMs: number | null;
  readonly runMs: number | null;
  readonly log: readonly TrialLine[];
  /** Number of lines that the log had no room for. */
  readonly more: number;
}

type TrialState =
  | { readonly tag: 'loading' | 'running'; readonly timer: Timer }
  | { readonly tag: 'ending' | 'gone'; readonly outcome: TrialOutcome };

export class Trial {
  /** Resolves when the worker's process is gone; never rejects. */
  readonly report: Promise<TrialReport>;
  readonly #spec: TrialSpec;
  readonly #clock: Clock;
  readonly #child: Child;
  readonly #heapMb: number;
  readonly #begunAt: number;
  readonly #log: TrialLine[] = [];
  #printed = 0;
  #description: ModeletDescription | null = null;
  #example: string | null = null;
  #startMs: number | null = null;
  #runMs: number | null = null;
  #state: TrialState;
  #tell: (report: TrialReport) => void = () => {};

  /** @throws ModeletError `config_invalid` if there is no Python for the worker, Error if it cannot be started. */
  constructor(spec: TrialSpec, machine: Machine, clock: Clock = systemClock) {
    this.#spec = spec;
    this.#clock = clock;
    this.#begunAt = clock.now();
    this.#heapMb = spec.modelet.heapMb || TRIAL.heapMb;
    this.report = new Promise((resolve) => {
      this.#tell = resolve;
    });
    const { stage, modelet } = spec;
    this.#child = startAlone(
      { stage, modelet, worker: 0, heapMb: this.#heapMb, batchSize: 1, maxPayloadBytes: TRIAL.resultBytes },
      {
        onState: (state) => this.#entered(state),
        onFrame: (frame) => this.#receive(frame),
        onOutput: (stream, text) => this.#print(levelOfOutput(stream), text),
      },
      machine,
      clock,
    );
    this.#state = { tag: 'loading', timer: this.#limit(modelet.startTimeoutMs, TRIAL.startMs, 'was not ready within') };
  }

  /** Ends the trial with this error, unless its outcome is known. Kills the worker in any case. */
  abort(error: ModeletError): void {
    this.#settle({ ok: false, error });
    this.#child.kill(error);
  }

  #limit(ofStageMs: number, mostMs: number, what: string): Timer {
    const limitMs = ofStageMs > 0 ? Math.min(ofStageMs, mostMs) : mostMs;
    return this.#clock.at(this.#clock.now() + limitMs, () =>
      this.abort(this.#failed('deadline_exceeded', `the worker ${what} ${limitMs} ms`)),
    );
  }

  #entered(state: ProcessState): void {
    if (state.tag === 'ready') this.#ready();
    else if (state.tag === 'error') this.abort(this.#notStarted(asThrown(state.error)));
    else if (state.tag === 'dead') this.#gone(state.error);
  }

  #ready(): void {
    if (this.#state.tag !== 'loading') return;
    this.#state.timer.cancel();
    this.#startMs = this.#clock.now() - this.#begunAt;
    this.#state = { tag: 'running', timer: this.#limit(this.#spec.runTimeoutMs, TRIAL.runMs, 'had no result within') };
    try {
      const payload = this.#spec.input ?? this.#exampleInput();
      this.#child.send({ type: 'batch', batch: 1, items: [{ ...bareItem(1, payload), deadline: NO_DEADLINE }] });
    } catch (thrown) {
      const error = asError(thrown);
      this.#finish({
        ok: false,
        error: error instanceof ModeletError ? error : this.#failed('invalid_input', error.message),
      });
    }
  }

  /** @throws ModeletError `invalid_input` if the modelet declares neither an example nor an input schema. */
  #exampleInput(): Payload {
    this.#example = exampleOf(this.#description);
    if (this.#example === null) throw this.#failed('invalid_input', 'the modelet has no example: type an input');
    return encodeInput(JSON.parse(this.#example));
  }

  #receive(frame: Frame): void {
    if (frame.type === 'log') this.#print(frame.body.level, frame.body.message);
    else if (frame.type === 'loaded') this.#description = frame.body.description;
    else if (frame.type === 'reply' && this.#state.tag === 'running') {
      this.#runMs = frame.runMs;
      const { ok, payload } = frame.items[0] as WireItem;
      this.#finish(
        ok ? { ok, result: payload } : { ok: false, error: decodeModeletError(payload.bytes, 'protocol_error') },
      );
    }
  }

  #print(level: LogLevel, text: string): void {
    this.#printed += 1;
    if (this.#log.length < TRIAL.lines) {
      const long = text.length > TRIAL.lineLength;
      this.#log.push({ level, text: long ? `${text.slice(0, TRIAL.lineLength)}...` : text });
    }
    if (this.#printed === TRIAL.printed)
      this.abort(this.#failed('modelet_failed', `the worker printed more than ${TRIAL.printed} lines`));
  }

  /** Settles, and lets the modelet stop as in a deployed stage. */
  #finish(outcome: TrialOutcome): void {
    this.#settle(outcome);
    this.#child.close(this.#clock.now() + TRIAL.stopMs);
  }

  /** The only place where the outcome is decided; the first one counts. */
  #settle(outcome: TrialOutcome): void {
    if ('outcome' in this.#state) return;
    this.#state.timer.cancel();
    this.#state = { tag: 'ending', outcome };
  }

  #gone(cause: Error): void {
    if (this.#state.tag === 'gone') return;
    this.#settle({ ok: false, error: this.#died(cause) });
    const { outcome } = this.#state as Extract<TrialState, { readonly outcome: TrialOutcome }>;
    this.#state = { tag: 'gone', outcome };
    this.#tell({
      outcome,
      example: this.#example,
      startMs: this.#startMs,
      runMs: this.#runMs,
      log: this.#log,
      more: this.#printed - this.#log.length,
    });
  }

  #notStarted(cause: Error): ModeletError {
    return this.#failed('stage_unavailable', `does not start: ${cause.message}`, cause);
  }

  #died(cause: Error): ModeletError {
    if (!/heap out of memory/i.test(cause.message)) {
      return this.#failed('worker_lost', `the worker died: ${cause.message}`);
    }
    const limit = `its JavaScript heap is limited to ${this.#heapMb} MB`;
    return this.#failed('worker_lost', `the worker died, because its memory was full: ${limit}`);
  }

  #failed(code: ModeletError['code'], message: string, cause?: Error): ModeletError {
    const error = new ModeletError(code, message, { stage: this.#spec.stage, cause });
    if (cause?.stack) error.stack = cause.stack;
    return error;
  }
}

interface LoneWorker extends Pick<TrialSpec, 'stage' | 'modelet'> {
  /** Its index, by which it has a placement of the stage. */
  readonly worker: number;
  /** Largest JavaScript heap; 0: no limit. */
  readonly heapMb: number;
  readonly batchSize: number;
  /** Largest result. */
  readonly maxPayloadBytes: number;
}

/** Starts a worker that belongs to no pool, and lets it load its modelet. @throws as `Trial` does */
export function startAlone(
  { stage, modelet: definition, worker, heapMb, batchSize, maxPayloadBytes }: LoneWorker,
  events: ChildEvents,
  { allowedCpus, launcher }: Machine,
  clock: Clock,
): Child {
  const { workers, ...modelet } = definition;
  const { cpus: pin, env } = workers[worker % workers.length] as WorkerPlacement;
  const { cpus, applied } = resolvePin(pin, allowedCpus, launcher.taskset);
  const child = startProcessWorker({ launcher, cpus, pin: applied, env, heapMb }, definition, events, clock);
  child.send({ type: 'load', body: { stage, worker, cpus: applied, maxPayloadBytes, batchSize, modelet } });
  return child;
}

/** The parent's own timer ends the run. */
const NO_DEADLINE: Deadline = Number.POSITIVE_INFINITY;

/** @throws ModeletError `payload_too_large` for a sample that is too large, `invalid_input` if it cannot be sent. */
export function encodeInput(value: unknown): Payload {
  const maxBytes = Buffer.isBuffer(value) ? LARGEST_FILE : TRIAL.inputBytes;
  return encodePayload(value, { blame: 'invalid_input', maxBytes });
}
