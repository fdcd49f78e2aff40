/** What keeps a payload small and shallow enough. Checked while a value is walked: encoding it first may be too late. */
import { type ErrorCode, ModeletError } from '../../core/errors.ts';

export interface EncodeOptions {
  /** Whose fault an unencodable value is: the caller's (an input) or the modelet's (a result). */
  readonly blame: 'invalid_input' | 'modelet_failed';
  readonly maxBytes: number;
}

/** Deeper values are refused: whoever parses them recursively would run out of stack. */
const DEEPEST = 1000;

/** `found`: how large it is, in words. */
export function tooLarge({ blame, maxBytes }: EncodeOptions, found: string): ModeletError {
  const code: ErrorCode = blame === 'invalid_input' ? 'payload_too_large' : 'modelet_failed';
  return new ModeletError(code, `payload is ${found}; the limit is ${maxBytes} bytes`);
}

/**
 * Counts the fewest bytes that a value can take as it is walked. References may be shared and so multiply: a value that
 * fits in little memory may be a payload that fits nowhere.
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
    if (this.#left < 0) throw tooLarge(this.#options, 'too large');
  }

  /** A value on its way through JSON.stringify: objects that say themselves how they become JSON are walked only there. */
  count(value: unknown): unknown {
    if (value !== undefined) this.spend(typeof value === 'string' ? value.length + 2 : 2);
    return value;
  }

  /** @throws ModeletError with the code of whoever is to blame. */
  checkDepth(depth: number): void {
    if (depth > DEEPEST)
      throw new ModeletError(this.#options.blame, `the value is nested deeper than ${DEEPEST} levels`);
  }
}
