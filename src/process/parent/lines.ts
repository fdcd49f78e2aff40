/** What a child writes, cut into lines: also where it goes on and on without ending one. */

/** Characters; of a longer line the rest is left out. */
export const LONGEST_LINE: number = 8192;

export class Lines {
  readonly #onLine: (line: string) => void;
  /** The line that has begun; not longer than one that is cut. */
  #begun = '';

  constructor(onLine: (line: string) => void) {
    this.#onLine = onLine;
  }

  /** Takes text as it comes, and hands on each line that it ends. */
  push(text: string): void {
    let from = 0;
    for (let end = text.indexOf('\n'); end >= 0; end = text.indexOf('\n', from)) {
      this.#extend(text, from, end);
      this.#finish();
      from = end + 1;
    }
    this.#extend(text, from, text.length);
  }

  /** Hands on the line that has begun, if any. */
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

/** As it is shown. */
export function shortened(line: string): string {
  return line.length > LONGEST_LINE ? `${line.slice(0, LONGEST_LINE)}...` : line;
}
