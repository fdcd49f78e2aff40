/**
 * Keeps the parent's record of one child, process or thread: its state, its deadline, its last lines of stderr, and why
 * it ended. Sends a child nothing until the child has reported that it runs the same build as its parent.
 */
import type { Readable } from 'node:stream';
import type { Clock, Deadline, Timer } from '../../core/clock.ts';
import { asError } from '../../core/errors.ts';
import type { Channel } from '../../wire/channel/channel.ts';
import { decodeError } from '../../wire/codec/error-codec.ts';
import type { StateReport } from '../../wire/frames/bodies.ts';
import type { Frame } from '../../wire/frames/frames.ts';
import { BUILD_ID, isReplaced, packageUpdated } from '../build-id.ts';
import { Lines } from '../lines.ts';
import { type ProcessState, StateMachine } from '../process-state.ts';
import type { Child, ChildEvents, Traffic } from './child.ts';
import { LineGroups, StderrTail } from './output.ts';
import { startFailure } from './start-failure.ts';

/** What a started process and a started thread have in common; each has its own way to carry frames, and to end. */
export abstract class StartedChild implements Child {
  abstract readonly pid: number | null;
  abstract readonly isReachable: boolean;
  abstract readonly traffic: Traffic | null;
  /** Carries frames to the child once it has reported its build. */
  protected abstract readonly channel: Pick<Channel, 'send'>;
  /** File of this package that the child runs. */
  readonly #entry: string;
  readonly #events: ChildEvents;
  protected readonly clock: Clock;
  readonly #machine: StateMachine;
  readonly #stderr: StderrTail = new StderrTail();
  /** Whether the child has ended without being asked to. */
  #dies = false;
  /** The child's stderr, grouped into messages. */
  readonly #complaints: LineGroups;
  /** Frames to send once the child has reported its start; null from then on. */
  #held: Frame[] | null = [];
  #deadlineTimer: Timer | null = null;
  /** Reason of the first kill that gave one; becomes the cause of death. */
  #killReason: Error | null = null;
  #signs = 0;

  constructor(entry: string, events: ChildEvents, clock: Clock) {
    this.#entry = entry;
    this.#events = events;
    this.clock = clock;
    this.#machine = new StateMachine((state) => events.onState(state, this));
    this.#complaints = new LineGroups(
      (message) => events.onOutput(this.#dies ? 'last words' : 'stderr', message),
      clock,
    );
  }

  get state(): ProcessState {
    return this.#machine.state;
  }

  get signs(): number {
    return this.#signs;
  }

  send(frame: Frame): void {
    if (this.#held) this.#held.push(frame);
    else this.channel.send(frame);
  }

  abstract kill(reason: Error | null): void;

  /** Takes a frame from the child: handles reports of its state here and passes all other frames on. */
  protected receive(frame: Frame): void {
    this.#signs += 1;
    try {
      if (frame.type === 'report') this.#reported(frame.body);
      else this.#events.onFrame(frame, this);
    } catch (thrown) {
      // A frame that cannot be handled must end only the child, not this process.
      this.kill(asError(thrown));
    }
  }

  /** Passes on the child's output: stdout by line, stderr by message. */
  protected read(stream: 'stdout' | 'stderr', input: Readable): void {
    input.on('error', () => {
      // A broken output pipe only loses the lines that it would have carried.
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
    input.on('data', (text: string) => {
      // Bars of progress are redrawn without a new line.
      this.#signs += 1;
      lines.push(text);
    });
    // The last message of stderr waits a moment longer, for the end that it may explain.
    input.on('end', () => lines.end());
    // The output of a thread is paused, because another reader had it before.
    input.resume();
  }

  /** Asks the child to finish, and kills it at `deadline`. */
  close(deadline: Deadline): void {
    const entered = this.#machine.enter({ tag: 'shutdown', deadline });
    if (!entered) {
      if (this.state.tag === 'startup') this.kill(new Error('closed before it was ready'));
      if (this.state.tag === 'shutdown' && deadline < this.state.deadline) this.#killAt(deadline);
      return;
    }
    this.send({ type: 'close', body: { deadline } });
    this.#killAt(deadline);
  }

  /** Records why the child was killed. The first reason wins. */
  protected killedBecause(reason: Error | null): void {
    this.#killReason ??= reason;
  }

  /** Cancels the deadline, because the child is already ending. */
  protected ending(): void {
    this.#deadlineTimer?.cancel();
  }

  /**
   * Marks the child as dead.
   * @param how how it ended; used in the error if there is no better cause
   */
  protected dead(how: string): void {
    this.ending();
    this.#dies = this.state.tag !== 'shutdown';
    this.#complaints.end();
    this.#machine.enter({ tag: 'dead', error: this.#causeOfDeath(how) });
  }

  #reported(report: StateReport): void {
    if (report.state === 'startup') this.#started(report.build ?? '');
    // The kill of a child comes too late for what it has sent already.
    if (report.state === 'ready' && !this.#killReason) this.#machine.enter({ tag: 'ready', since: this.clock.now() });
    if (report.state === 'error') {
      const error = report.error
        ? decodeError(Buffer.from(report.error, 'base64'))
        : new Error('failed without a cause');
      this.#machine.enter({ tag: 'error', error: startFailure(error, report.loading === true, report.files ?? []) });
    }
  }

  #started(build: string): void {
    if (build !== BUILD_ID) {
      this.kill(packageUpdated());
      return;
    }
    const held = this.#held ?? [];
    this.#held = null;
    for (const frame of held) this.channel.send(frame);
  }

  #killAt(deadline: Deadline): void {
    this.#deadlineTimer?.cancel();
    this.#deadlineTimer = this.clock.at(deadline, () => this.kill(new Error('did not end in time')));
  }

  #causeOfDeath(how: string): Error {
    // A child with different or incomplete code may end, or send unreadable frames, before it reports its build.
    if (this.#held && isReplaced(this.#entry)) return packageUpdated();
    if (this.state.tag === 'error') return this.state.error;
    if (this.#killReason) return this.#killReason;
    return new Error(this.#stderr.explain(how, how.includes('SIGKILL')));
  }
}
