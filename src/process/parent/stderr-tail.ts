/** Keeps the last lines of a child's stderr. They explain the end of a child that reported no error on its channel. */

const MOST_LINES = 20;
/** Matches the line above the stack addresses that Node.js prints after the reason for an abort. */
const ADDRESSES_FOLLOW = /^-+ Native stack trace -+$/;

export class StderrTail {
  readonly #lines: string[] = [];
  /** Whether the addresses have begun. They are not kept, because they would push the reason out. */
  #isComplete = false;

  add(line: string): void {
    this.#isComplete ||= ADDRESSES_FOLLOW.test(line);
    if (this.#isComplete) return;
    this.#lines.push(line);
    if (this.#lines.length > MOST_LINES) this.#lines.shift();
  }

  get text(): string {
    return this.#lines.join('\n').trim();
  }
}
