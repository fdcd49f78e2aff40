/** The stderr of a child: grouped into messages for the log, and its last lines kept to explain its end. */
import { type Clock, systemClock, type Timer } from '../../core/clock.ts';
import { shortened } from '../lines.ts';

/** How long a message waits for its next line, in ms. */
const MOMENT_MS = 100;
/** Most lines of a message; further lines begin a new message. */
const MOST_LINES = 100;

/** Matches the first line of a traceback: indented lines follow, then an unindented line with the error. */
const TRACEBACK = /^(?:Exception in thread .*|Traceback \(most recent call last\)):$/;
/** Matches a line that continues a message after an empty line. */
const GOES_ON =
  /^(?:Traceback \(most recent call last\):|During handling of the above exception|The above exception was|(?:Current thread|Thread) 0x|Extension modules:)/;

/**
 * Groups lines of stderr that belong together into one message: a Python traceback, a JavaScript stack, or any line
 * with indented lines below it. Passes a message on when an unrelated line arrives, or after MOMENT_MS without a line.
 */
export class LineGroups {
  readonly #onMessage: (message: string) => void;
  readonly #clock: Clock;
  #lines: string[] = [];
  /** Number of empty lines at the end. They join the message only if it continues. */
  #emptyLines = 0;
  /** Whether a traceback has begun and its last line has not arrived. */
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

  /** Passes on the current message, if any. */
  end(): void {
    this.#timer?.cancel();
    this.#timer = null;
    if (this.#lines.length === 0) return;
    const message = this.#lines.join('\n');
    const { length } = this.#lines;
    this.#lines = [];
    this.#inTraceback = false;
    this.#onMessage(shortened(message));
    // Empty lines after a single line are separate output; after several lines they only end the message.
    const emptyLines = length === 1 ? this.#emptyLines : 0;
    this.#emptyLines = 0;
    for (let index = 0; index < emptyLines; index += 1) this.#onMessage('');
  }

  #belongs(line: string): boolean {
    if (this.#lines.length + this.#emptyLines >= MOST_LINES) return false;
    if (this.#emptyLines > 0 && GOES_ON.test(line)) return true;
    if (this.#inTraceback || (this.#emptyLines === 0 && /^\s/.test(line))) return true;
    // JavaScript prints an error's own fields in braces below its stack.
    return line === '}' && this.#lines.some((before) => before.endsWith('{'));
  }

  #add(line: string): void {
    if (TRACEBACK.test(line)) this.#inTraceback = true;
    else if (!/^\s/.test(line)) this.#inTraceback = false;
    this.#lines.push(...Array.from({ length: this.#emptyLines }, () => ''), line);
    this.#emptyLines = 0;
  }
}

const TAIL_LINES = 20;
/** Matches the line above the stack addresses that Node.js prints after the reason for an abort. */
const ADDRESSES_FOLLOW = /^-+ Native stack trace -+$/;

/** Matches a line that tells why a process ends: the last line of a traceback, the message above a stack, an abort. */
const TELLS_WHY =
  /^(?:\S*(?:Error|Exception|Interrupt|Exit)(?:[:\s]|$)|(?:fatal|panic|assert|terminate called)\w*[\s:])/i;

/** Keeps the last lines of stderr, for a child that reported no error on its channel. */
export class StderrTail {
  readonly #lines: string[] = [];
  /** Whether the addresses have begun. They are not kept, because they would push the reason out. */
  #isComplete = false;

  add(line: string): void {
    this.#isComplete ||= ADDRESSES_FOLLOW.test(line);
    if (this.#isComplete) return;
    this.#lines.push(line);
    if (this.#lines.length > TAIL_LINES) this.#lines.shift();
  }

  get text(): string {
    return this.#lines.join('\n').trim();
  }

  /**
   * Explains an end. The first line has the line that tells why, because clients get nothing else: older lines may be of
   * other requests.
   * @param how how the child ended; a child that was killed from outside had no time to explain
   */
  explain(how: string, isKilled: boolean): string {
    const { text } = this;
    if (text === '') return how;
    if (isKilled) return `${how}\n${text}`;
    const lines = text.split('\n');
    const why = (lines.findLast((line) => TELLS_WHY.test(line)) ?? (lines.at(-1) as string)).trim();
    return why === text ? `${how}: ${why}` : `${how}: ${why}\n${text}`;
  }
}
