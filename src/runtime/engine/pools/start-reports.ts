/**
 * Logs why the workers of a stage do not start: a reason that lasts once, and another try that fails for the same reason
 * ever more rarely, however many workers have it.
 */
import type { LogRecord } from '../../../core/model.ts';
import { messageWithPlace, placeFields } from '../../../observe/log/failures.ts';
import { shortened } from '../../../process/lines.ts';
import type { LastingFailure } from '../../../process/parent/start-failure.ts';
import type { Circuit } from './circuit.ts';

export class StartReports {
  readonly #log: (record: Omit<LogRecord, 'stage'>) => void;
  /** The reason of the last failed starts, and how many in a row had it; null after a worker became ready. */
  #repeated: { readonly message: string; readonly count: number } | null = null;
  /** The last logged reason why workers are stuck; null after a worker became ready or a user asked for new ones. */
  #told: string | null = null;

  constructor(log: (record: Omit<LogRecord, 'stage'>) => void) {
    this.#log = log;
  }

  /** Notes that a worker became ready. */
  becameReady(): void {
    this.#repeated = null;
    this.#told = null;
  }

  /** Notes that all workers are tried anew: the same reason is news again. */
  triedAnew(): void {
    this.#told = null;
  }

  /** Logs a failed start that is tried again: the first, and for the same reason the second, the fourth, the eighth... */
  failed(worker: number, error: Error): void {
    const { message } = error;
    const count = this.#repeated?.message === message ? this.#repeated.count + 1 : 1;
    this.#repeated = { message, count };
    if (!isPowerOfTwo(count)) return;
    const text = `did not start${count === 1 ? '' : `, ${count} times so far`}: ${messageWithPlace(error)}`;
    this.#log({ level: 'error', message: text, worker, fields: placeFields(error) });
  }

  /** Logs a failure once, however many workers fail for the same reason. */
  lasts({ failure }: LastingFailure): void {
    const { message, stack } = failure;
    if (this.#told === message) return;
    this.#told = message;
    const text = shortened(
      `does not start: ${messageWithPlace(failure)}; its workers start again when its code, or a file that it reads, changes`,
    );
    const fields = stack === undefined ? {} : { stack, ...placeFields(failure) };
    this.#log({ level: 'error', message: text, fields });
  }

  /** Logs that the circuit has opened. Does not mention refused requests: a pool of older code may still serve. */
  opened({ refusal, isOfStarts }: Circuit): void {
    const why = refusal?.message ?? '';
    if (!isOfStarts) {
      this.#log({ level: 'error', message: why });
      return;
    }
    // A circuit that opens again and again for failed starts is one message.
    this.#log({ level: this.#told === null ? 'error' : 'debug', message: `does not start: ${why}` });
    this.#told ??= why;
  }
}

function isPowerOfTwo(count: number): boolean {
  return Number.isInteger(Math.log2(count));
}
