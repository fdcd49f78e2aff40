/**
 * What the parent keeps of any child, process or thread: its state, its deadline, the last it said on stderr, and
 * why it ended. A child is told nothing before it has said that it runs the code of its parent.
 */
import type { Readable } from 'node:stream';
import type { Clock, Deadline, Timer } from '../../core/clock.ts';
import { asError } from '../../core/errors.ts';
import { decodeError } from '../../wire/codec/error-codec.ts';
import type { StateReport } from '../../wire/frames/bodies.ts';
import type { Frame } from '../../wire/frames/frames.ts';
import { BUILD_ID, isReplaced, packageUpdated } from '../build-id.ts';
import { type ProcessState, StateMachine } from '../process-state.ts';
import type { Child, ChildEvents } from './child.ts';
import { LineGroups } from './line-groups.ts';
import { Lines } from './lines.ts';
import { loadFailure } from './start-failure.ts';
import { StderrTail } from './stderr-tail.ts';

/** A child as its own keeper sees it. */
export interface Kept extends Child {
  /** The file of this package that it runs. */
  readonly entry: string;
  /** Sends a frame that it may be told. */
  deliver(frame: Frame): void;
}

export class ChildLife {
  readonly #child: Kept;
  readonly #events: ChildEvents;
  readonly #clock: Clock;
  readonly #machine: StateMachine;
  readonly #stderr: StderrTail = new StderrTail();
  /** What it writes to stderr, as messages. */
  readonly #complaints: LineGroups;
  /** What it is to be sent once it has reported its start; null from then on. */
  #held: Frame[] | null = [];
  #deadlineTimer: Timer | null = null;
  /** Set by whoever kills it, so that the death is told with its reason. */
  #killReason: Error | null = null;

  constructor(child: Kept, events: ChildEvents, clock: Clock) {
    this.#child = child;
    this.#events = events;
    this.#clock = clock;
    this.#machine = new StateMachine((state) => events.onState(state, child));
    this.#complaints = new LineGroups((message) => events.onOutput('stderr', message), clock);
  }

  get state(): ProcessState {
    return this.#machine.state;
  }

  send(frame: Frame): void {
    if (this.#held) this.#held.push(frame);
    else this.#child.deliver(frame);
  }

  /** Takes a frame of the child: what it says of itself is kept here, all else is handed on. */
  receive(frame: Frame): void {
    try {
      if (frame.type === 'report') this.#reported(frame.body);
      else this.#events.onFrame(frame, this.#child);
    } catch (thrown) {
      // What it sends cannot be dealt with: that must cost this child, not this process.
      this.#child.kill(asError(thrown));
    }
  }

  /** Hands on what the child writes: stdout line by line, stderr in messages. */
  read(stream: 'stdout' | 'stderr', input: Readable): void {
    input.on('error', () => {
      // A broken output pipe is not worth more than the lines it would have carried.
    });
    const lines = new Lines((line) => {
      if (stream === 'stdout') {
        this.#events.onOutput(stream, line);
        return;
      }
      this.#stderr.add(line);
      this.#complaints.push(line);
    });
    input.setEncoding('utf8');
    input.on('data', (text: string) => lines.push(text));
    input.on('end', () => {
      lines.end();
      if (stream === 'stderr') this.#complaints.end();
    });
    // A thread's output has been paused: it went elsewhere before.
    input.resume();
  }

  /** Asks it to finish, and kills it at `deadline`. */
  close(deadline: Deadline): void {
    const entered = this.#machine.enter({ tag: 'shutdown', deadline });
    if (!entered) {
      if (this.state.tag === 'startup') this.#child.kill(new Error('closed before it was ready'));
      if (this.state.tag === 'shutdown' && deadline < this.state.deadline) this.#killAt(deadline);
      return;
    }
    this.send({ type: 'close', body: { deadline } });
    this.#killAt(deadline);
  }

  /** Whoever gives a reason first is believed. */
  killedBecause(reason: Error | null): void {
    this.#killReason ??= reason;
  }

  /** The end has begun: its deadline has no more to say. */
  ending(): void {
    this.#deadlineTimer?.cancel();
  }

  /** `how` it ended, where nothing tells better why. */
  dead(how: string): void {
    this.ending();
    this.#complaints.end();
    this.#machine.enter({ tag: 'dead', error: this.#causeOfDeath(how) });
  }

  #reported(report: StateReport): void {
    if (report.state === 'startup') this.#started(report.build ?? '');
    if (report.state === 'ready') this.#machine.enter({ tag: 'ready', since: this.#clock.now() });
    if (report.state === 'error') {
      const error = report.error
        ? decodeError(Buffer.from(report.error, 'base64'))
        : new Error('failed without a cause');
      this.#machine.enter({ tag: 'error', error: report.loading ? loadFailure(error) : error });
    }
  }

  #started(build: string): void {
    if (build !== BUILD_ID) {
      this.#child.kill(packageUpdated());
      return;
    }
    const held = this.#held ?? [];
    this.#held = null;
    for (const frame of held) this.#child.deliver(frame);
  }

  #killAt(deadline: Deadline): void {
    this.#deadlineTimer?.cancel();
    this.#deadlineTimer = this.#clock.at(deadline, () => this.#child.kill(new Error('did not end in time')));
  }

  #causeOfDeath(how: string): Error {
    // Other code, or half of it, may end, or speak another language, before it says so.
    if (this.#held && isReplaced(this.#child.entry)) return packageUpdated();
    if (this.state.tag === 'error') return this.state.error;
    if (this.#killReason) return this.#killReason;
    const { text } = this.#stderr;
    return new Error(text ? `${how}: ${text}` : how);
  }
}
