/**
 * The sizes of payloads: limits their bytes and their depth, and rounds lengths. Checks during the walk over a value,
 * because encoding it may already fail.
 */
import { type ErrorCode, ModeletError } from '../../core/errors.ts';

export interface EncodeOptions {
  /** Error code for an unencodable value: the fault of the caller (an input) or of the modelet (a result). */
  readonly blame: 'invalid_input' | 'modelet_failed';
  readonly maxBytes: number;
}

/** Deepest nesting that is accepted. A recursive parser could run out of stack on deeper values. */
export const DEEPEST = 1000;

/**
 * Makes the error for an input or a result that is too large.
 * @param found the size, in words
 */
export function tooLarge({ blame, maxBytes }: EncodeOptions, found: string): ModeletError {
  const [code, what]: [ErrorCode, string] =
    blame === 'invalid_input' ? ['payload_too_large', 'payload'] : ['modelet_failed', 'the result'];
  return new ModeletError(code, `${what} is ${found}; the limit is ${maxBytes} bytes`);
}

/**
 * Counts the minimum size of a value during a walk over it. A payload repeats an object for each reference to it, so a
 * value that needs little memory may become a payload that is far too large.
 */
export class ByteBudget {
  readonly #options: EncodeOptions;
  #left: number;

  constructor(options: EncodeOptions) {
    this.#options = options;
    this.#left = options.maxBytes;
  }

  /** @throws ModeletError `payload_too_large`, or `modelet_failed` for a result. */
  spend(bytes: number): void {
    this.#left -= bytes;
    if (this.#left >= 0) return;
    // The walk ends here: the whole may be far larger. Clients get the text of a body that is not read to its end.
    const { blame, maxBytes } = this.#options;
    throw tooLarge(this.#options, blame === 'invalid_input' ? 'too large' : `at least ${maxBytes - this.#left} bytes`);
  }

  /** Counts a value in the replacer of JSON.stringify, the only place that sees the results of `toJSON`. */
  count(value: unknown): unknown {
    if (value !== undefined) this.spend(typeof value === 'string' ? value.length + 2 : 2);
    return value;
  }

  /** @throws ModeletError with the code `blame` of the options. */
  checkDepth(depth: number): void {
    if (depth > DEEPEST)
      throw new ModeletError(this.#options.blame, `the value is nested deeper than ${DEEPEST} levels`);
  }
}

/**
 * Rounds a length up to a multiple of 8. Does not use bit operations: they work on signed 32-bit numbers, and a length
 * from a hostile frame may use all 32 bits.
 */
export function padded(length: number): number {
  return Math.ceil(length / 8) * 8;
}

const ZEROS = Buffer.alloc(8);

/** Returns the bytes that fill a length up to a multiple of 8. */
export function padding(length: number): Buffer {
  return ZEROS.subarray(0, padded(length) - length);
}
