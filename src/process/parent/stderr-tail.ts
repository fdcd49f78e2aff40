/** The last that a child said on stderr: where it ended without a word on its channel, this tells why. */

const MOST_LINES = 20;
/** What Node.js begins the addresses with that it prints below the reason why it aborts. */
const ADDRESSES_FOLLOW = /^-+ Native stack trace -+$/;

export class StderrTail {
  readonly #lines: string[] = [];
  /** From the addresses on nothing is kept: they would push the reason out. */
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
