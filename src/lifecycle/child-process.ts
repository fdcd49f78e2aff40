/**
 * A child process as its parent sees it: its state, its channel, its output, its end.
 *
 * A child counts as dead only when the process has exited AND its channel is read to the end: replies that were
 * on their way at its death still count. It is told nothing before it has said that it runs the code of its parent.
 */
import { createInterface } from 'node:readline';
import { type Duplex, PassThrough, type Readable } from 'node:stream';
import { type Clock, type Deadline, systemClock, type Timer } from '../core/clock.ts';
import { asError, isModeletError } from '../core/errors.ts';
import { type Channel, SocketChannel } from '../wire/channel.ts';
import { decodeError } from '../wire/error-codec.ts';
import type { Frame, StateReport } from '../wire/frames.ts';
import { BUILD_ID, isReplaced, packageUpdated } from './build-id.ts';
import type { Child, ChildEvents } from './child.ts';
import { killGroup, killTree, type LaunchedProcess, type LaunchSpec, launch } from './launch.ts';
import { type ProcessState, StateMachine } from './process-state.ts';

/** After exit, how long to wait for the end of a channel that a grandchild may have inherited. */
const LINGERING_CHANNEL_MS = 1000;
const STDERR_TAIL_LINES = 20;

export interface ChildSpec extends LaunchSpec {
  /** The file of this package that it runs. */
  readonly entry: string;
}

export class ChildProcess implements Child {
  readonly #process: LaunchedProcess;
  readonly #machine: StateMachine;
  readonly #channel: Channel;
  readonly #events: ChildEvents;
  readonly #clock: Clock;
  readonly #stderrTail: string[] = [];
  readonly #entry: string;
  /** What it is to be sent once it has reported its start; null from then on. */
  #held: Frame[] | null = [];
  /** What is known of the end while waiting for the rest of it. */
  #exit: string | null = null;
  #channelClosed = false;
  #deadlineTimer: Timer | null = null;
  #lingerTimer: Timer | null = null;
  /** Set by whoever kills it, so that the death is told with its reason. */
  #killReason: Error | null = null;

  constructor(spec: ChildSpec, events: ChildEvents, clock: Clock = systemClock) {
    this.#events = events;
    this.#clock = clock;
    this.#entry = spec.entry;
    this.#machine = new StateMachine((state) => events.onState(state, this));
    this.#process = launch(spec);
    this.#process.on('error', (error) => this.#exited(`could not be started: ${error.message}`));
    this.#process.on('exit', (code, signal) =>
      this.#exited(signal ? `was killed by ${signal}` : `exited with code ${code}`),
    );
    // Out of file descriptors, Node hands back a process without streams, and its 'error' event follows.
    const [, stdout, stderr, pipe] = this.#process.stdio ?? [];
    this.#readLines('stdout', (stdout as Readable | undefined) ?? new PassThrough());
    this.#readLines('stderr', (stderr as Readable | undefined) ?? new PassThrough());
    this.#channel = new SocketChannel((pipe as Duplex | undefined) ?? new PassThrough(), {
      onFrame: (frame) => this.#receive(frame),
      onClose: (error) => this.#channelEnded(error),
    });
  }

  get pid(): number | null {
    return this.#process.pid ?? null;
  }

  get state(): ProcessState {
    return this.#machine.state;
  }

  get isReachable(): boolean {
    return this.#exit === null && !this.#channelClosed;
  }

  get bufferedBytes(): number {
    return this.#channel.bufferedBytes;
  }

  /** Bytes over its channel so far. */
  get bytes(): { readonly sent: number; readonly received: number } {
    return this.#channel.bytes;
  }

  send(frame: Frame): void {
    if (this.#held) this.#held.push(frame);
    else this.#channel.send(frame);
  }

  close(deadline: Deadline): void {
    const entered = this.#machine.enter({ tag: 'shutdown', deadline });
    if (!entered) {
      if (this.state.tag === 'startup') this.kill(new Error('closed before it was ready'));
      if (this.state.tag === 'shutdown' && deadline < this.state.deadline) this.#killAt(deadline);
      return;
    }
    this.#channel.send({ type: 'close', body: { deadline } });
    this.#killAt(deadline);
  }

  #killAt(deadline: Deadline): void {
    this.#deadlineTimer?.cancel();
    this.#deadlineTimer = this.#clock.at(deadline, () => this.kill(new Error('did not end in time')));
  }

  kill(reason: Error | null): void {
    if (this.#exit !== null) return;
    this.#killReason ??= reason;
    if (this.#process.pid !== undefined) killTree(this.#process.pid);
  }

  #receive(frame: Frame): void {
    try {
      if (frame.type === 'report') this.#reported(frame.body);
      else this.#events.onFrame(frame, this);
    } catch (thrown) {
      // What it sends cannot be dealt with: that must cost this child, not this process.
      this.kill(asError(thrown));
    }
  }

  #reported(report: StateReport): void {
    if (report.state === 'startup') this.#started(report.build ?? '');
    if (report.state === 'ready') this.#machine.enter({ tag: 'ready', since: this.#clock.now() });
    if (report.state === 'error') {
      const error = report.error
        ? decodeError(Buffer.from(report.error, 'base64'))
        : new Error('failed without a cause');
      this.#machine.enter({ tag: 'error', error });
    }
  }

  #started(build: string): void {
    if (build !== BUILD_ID) {
      this.kill(packageUpdated());
      return;
    }
    const held = this.#held ?? [];
    this.#held = null;
    for (const frame of held) this.#channel.send(frame);
  }

  #exited(how: string): void {
    if (this.#exit !== null) return;
    this.#exit = how;
    this.#deadlineTimer?.cancel();
    // Its children, if it left any, go with it.
    if (this.#process.pid !== undefined) killGroup(this.#process.pid);
    if (this.#channelClosed) this.#bury();
    else this.#lingerTimer = this.#clock.at(this.#clock.now() + LINGERING_CHANNEL_MS, () => this.#bury());
  }

  #channelEnded(error: Error | null): void {
    this.#channelClosed = true;
    if (this.#exit !== null) this.#bury();
    // A child without a channel is lost to us: most end by themselves, one that sent garbage or spins does not.
    // Garbage is a cause of death; that the pipe broke (ECONNRESET) is its effect.
    else this.kill(isModeletError(error) ? error : null);
  }

  #bury(): void {
    this.#lingerTimer?.cancel();
    this.#channel.close();
    this.#machine.enter({ tag: 'dead', error: this.#causeOfDeath() });
  }

  #causeOfDeath(): Error {
    // Other code, or half of it, may end, or speak another language, before it says so.
    if (this.#held && isReplaced(this.#entry)) return packageUpdated();
    if (this.state.tag === 'error') return this.state.error;
    if (this.#killReason) return this.#killReason;
    const tail = this.#stderrTail.join('\n').trim();
    return new Error(tail ? `${this.#exit}: ${tail}` : `${this.#exit}`);
  }

  #readLines(stream: 'stdout' | 'stderr', input: Readable): void {
    input.on('error', () => {
      // A broken output pipe is not worth more than the lines it would have carried.
    });
    createInterface({ input }).on('line', (line) => {
      if (stream === 'stderr') {
        this.#stderrTail.push(line);
        if (this.#stderrTail.length > STDERR_TAIL_LINES) this.#stderrTail.shift();
      }
      this.#events.onOutput(stream, line);
    });
  }
}
