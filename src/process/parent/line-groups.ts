/**
 * Lines of stderr that belong together make one message: the traceback of Python, the stack of JavaScript, and whatever
 * goes on in indented lines. A message is handed on when a line comes that is not of it, or none comes for a moment.
 */
import { type Clock, systemClock, type Timer } from '../../core/clock.ts';
import { shortened } from './lines.ts';

/** So long a message waits for more of it. */
const MOMENT_MS = 100;
/** What is longer is more than one message. */
const MOST_LINES = 100;

/** What begins a list of indented lines that ends with one that is not, which says what has happened. */
const TRACEBACK = /^(?:Exception in thread .*|Traceback \(most recent call last\)):$/;
/** What goes on with a message after an empty line. */
const GOES_ON =
  /^(?:Traceback \(most recent call last\):|During handling of the above exception|The above exception was|(?:Current thread|Thread) 0x|Extension modules:)/;

export class LineGroups {
  readonly #onMessage: (message: string) => void;
  readonly #clock: Clock;
  #lines: string[] = [];
  /** Empty lines at the end, which count only where the message goes on. */
  #emptyLines = 0;
  /** The line that ends a traceback has not come yet. */
  #inTraceback = false;
  #timer: Timer | null = null;

  constructor(onMessage: (message: string) => void, clock: Clock = systemClock) {
    this.#onMessage = onMessage;
    this.#clock = clock;
  }

  push(line: string): void {
    if (this.#lines.length > 0 && line === '') {
      this.#emptyLines += 1;
    } else {
      if (this.#lines.length > 0 && !this.#belongs(line)) this.end();
      this.#add(line);
    }
    this.#timer?.cancel();
    this.#timer = this.#clock.at(this.#clock.now() + MOMENT_MS, () => this.end());
  }

  /** Hands on what is there. */
  end(): void {
    this.#timer?.cancel();
    this.#timer = null;
    if (this.#lines.length === 0) return;
    const message = this.#lines.join('\n');
    const { length } = this.#lines;
    this.#lines = [];
    this.#inTraceback = false;
    this.#onMessage(shortened(message));
    // Below one line they are what somebody wrote; below several they only end these.
    const emptyLines = length === 1 ? this.#emptyLines : 0;
    this.#emptyLines = 0;
    for (let index = 0; index < emptyLines; index += 1) this.#onMessage('');
  }

  #belongs(line: string): boolean {
    if (this.#lines.length >= MOST_LINES) return false;
    if (this.#emptyLines > 0 && GOES_ON.test(line)) return true;
    if (this.#inTraceback || (this.#emptyLines === 0 && /^\s/.test(line))) return true;
    // Below the stack of an error, its own fields.
    return line === '}' && this.#lines.some((before) => before.endsWith('{'));
  }

  #add(line: string): void {
    if (TRACEBACK.test(line)) this.#inTraceback = true;
    else if (!/^\s/.test(line)) this.#inTraceback = false;
    this.#lines.push(...Array.from({ length: this.#emptyLines }, () => ''), line);
    this.#emptyLines = 0;
  }
}
