/**
 * Logs requests whose failure no node catches: the first ones in full, the others in one line per interval with their
 * number by code. Each line has the place in the stage's code, as people see the code. A client that sends only invalid
 * requests must not fill the disk.
 */
import type { Clock } from '../../core/clock.ts';
import type { ErrorCode, ModeletError } from '../../core/errors.ts';
import { counted } from '../../core/figures.ts';
import { byNumber } from './refusals.ts';

const INTERVAL_MS = 10_000;
/** Number of failures logged in full in the first interval of a series, and in each further interval. */
const FIRST = 5;
const FURTHER = 1;

/** A series begins with the first failure and lasts until an interval has none. */
type FailureSeries =
  | { readonly tag: 'quiet' }
  | { readonly tag: 'failing'; whole: number; readonly counts: Map<ErrorCode, number> };

type LoggedFailure = Pick<ModeletError, 'code' | 'message'> & Partial<Pick<ModeletError, 'stack' | 'cause'>>;

/** The failed request that a line tells of, for programs; a sum of several has none. */
export interface FailureFields {
  readonly code?: ErrorCode;
  readonly requestId?: string;
  /** The tab, line and column of the stage's inline code that threw the error, and the error's stack; else both are missing. */
  readonly place?: string;
  readonly stack?: string;
}

export class Failures {
  readonly #clock: Clock;
  readonly #write: (line: string, fields: FailureFields) => void;
  #series: FailureSeries = { tag: 'quiet' };

  constructor(clock: Clock, write: (line: string, fields: FailureFields) => void) {
    this.#clock = clock;
    this.#write = write;
  }

  /** Writes a line about the error of a request, or only counts it. */
  note(error: LoggedFailure, requestId: string): void {
    const { code } = error;
    const series = this.#series.tag === 'failing' ? this.#series : this.#interval(FIRST);
    this.#series = series;
    if (series.whole < 1) {
      series.counts.set(code, (series.counts.get(code) ?? 0) + 1);
      return;
    }
    series.whole -= 1;
    this.#write(`${code}: ${messageWithPlace(error)}`, { code, requestId, ...placeFields(error) });
  }

  #interval(whole: number): Extract<FailureSeries, { tag: 'failing' }> {
    this.#clock.at(this.#clock.now() + INTERVAL_MS, () => this.#end());
    return { tag: 'failing', whole, counts: new Map() };
  }

  #end(): void {
    if (this.#series.tag === 'quiet') return;
    const { counts } = this.#series;
    this.#series = counts.size === 0 ? { tag: 'quiet' } : this.#interval(FURTHER);
    if (counts.size === 0) return;
    const { total, text } = byNumber(counts);
    this.#write(`${counted(total, 'more request')} failed in ${INTERVAL_MS / 1000} s: ${text}`, {});
  }
}

/** The tabs of inline code: `scale: Predict:3:14` in a stack, and `File "scale: Predict", line 3, in` in one of Python. */
const PLACE = /: (On Start|Predict|On Stop):(\d+):(\d+)\)?$/m;
const PYTHON_PLACE = /^ {2}File ".*: (On Start|Predict|On Stop)", line (\d+), in /gm;

/**
 * @returns the innermost place of the stage's own code in a stack, as `Predict:3:14`, or `Predict:3` for Python, whose stacks
 * have the innermost call last; null if it has none
 */
export function placeIn(stack: string | undefined): string | null {
  if (stack === undefined) return null;
  const found = PLACE.exec(stack) ?? [...stack.matchAll(PYTHON_PLACE)].at(-1);
  return found?.slice(1).join(':') ?? null;
}

/** @returns the place of an error with its stack, as fields of a log entry; none if no inline code threw it */
export function placeFields({ stack }: Thrown): Pick<FailureFields, 'place' | 'stack'> {
  const place = placeIn(stack);
  return place === null ? {} : { place, stack: stack as string };
}

interface Thrown {
  readonly message: string;
  readonly stack?: string | undefined;
  readonly cause?: unknown;
}

/** @returns the message with the class of the error and its place: `TypeError: x is not a function (Predict:3:14)` */
export function messageWithPlace({ message, stack, cause }: Thrown): string {
  const place = placeIn(stack);
  if (!place) return message;
  const name = cause instanceof Error ? cause.name : 'Error';
  const shown = name === 'Error' || name === 'ModeletError' ? message : `${name}: ${message}`;
  return `${shown} (${place})`;
}
