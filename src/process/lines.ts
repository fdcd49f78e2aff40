/** Splits a child's output into lines. Limits the memory for a line that never ends. */

/** Most characters of a line; the rest of a longer line is dropped. */
export const LONGEST_LINE: number = 8192;

export class Lines {
  readonly #onLine: (line: string) => void;
  /** Start of the line that has not ended; at most one character longer than `LONGEST_LINE`. */
  #begun = '';

  constructor(onLine: (line: string) => void) {
    this.#onLine = onLine;
  }

  /** Takes text as it arrives, and passes on each line that the text completes. */
  push(text: string): void {
    let from = 0;
    for (let end = text.indexOf('\n'); end >= 0; end = text.indexOf('\n', from)) {
      this.#extend(text, from, end);
      this.#finish();
      from = end + 1;
    }
    this.#extend(text, from, text.length);
  }

  /** Passes on the unfinished line, if any. */
  end(): void {
    if (this.#begun !== '') this.#finish();
  }

  #finish(): void {
    const line = this.#begun;
    this.#begun = '';
    this.#onLine(shortened(line.endsWith('\r') ? line.slice(0, -1) : line));
  }

  #extend(text: string, from: number, to: number): void {
    const room = LONGEST_LINE + 1 - this.#begun.length;
    if (room > 0) this.#begun += text.slice(from, Math.min(to, from + room));
  }
}

/** Returns the text, cut after `LONGEST_LINE` characters. */
export function shortened(line: string): string {
  return line.length > LONGEST_LINE ? `${line.slice(0, LONGEST_LINE)}...` : line;
}
