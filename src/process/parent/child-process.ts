/**
 * Controls a child process from its parent: its channel, its output, and its end. A child is launched by its parent, or
 * forked for it by a template.
 *
 * A child counts as dead only after the process has exited AND the parent has read everything that it sent, because
 * replies in transit at its death still count. The parent does not wait for the channel to close, because a grandchild
 * may keep it open; it waits until nothing more arrives.
 */
import { type Duplex, PassThrough, type Readable } from 'node:stream';
import { type Clock, type Deadline, systemClock } from '../../core/clock.ts';
import { isModeletError } from '../../core/errors.ts';
import { type Channel, type ChannelEvents, SocketChannel } from '../../wire/channel/channel.ts';
import type { ParentSlots } from '../../wire/slots/parent-slots.ts';
import { type ChildEvents, StartedChild, type Traffic } from './child.ts';
import { killGroup, killTree, type LaunchedProcess, type LaunchSpec, launch } from './launch.ts';

/**
 * A channel on which data keeps arriving is read so long after the exit, in ms, and for at least so many turns of the event
 * loop: on a busy machine, more time than that passes before the first turn.
 */
const LINGERING = { ms: 1000, turns: 100 } as const;
/**
 * The channel counts as empty after this many turns of the event loop in a row without data. At the exit all data is
 * there, but one turn reads only a part of it.
 */
const QUIET_TURNS = 3;

export interface ChildSpec extends Omit<LaunchSpec, 'slotsFds'> {
  /** File of this package that the child runs. */
  readonly entry: string;
  /** Where its large payloads travel; absent or null: through the socket pair. */
  readonly slots?: ParentSlots | null;
}

/** The streams of a child. */
export interface ChildStreams {
  readonly stdout: Readable;
  readonly stderr: Readable;
  /** Carries the channel. */
  readonly pipe: Duplex;
}

/** The common half of a launched and a forked process. */
export abstract class StartedProcess extends StartedChild {
  protected channel: Channel | null = null;
  #pipe: Duplex | null = null;
  #slots: ParentSlots | null = null;
  /** How the process exited; null until it has. */
  #exit: string | null = null;
  #channelClosed = false;
  #isBuried = false;

  get isReachable(): boolean {
    return this.channel !== null && this.#exit === null && !this.#channelClosed;
  }

  get traffic(): Traffic | null {
    return this.channel;
  }

  kill(reason: Error | null): void {
    if (this.#exit !== null) return;
    this.killedBecause(reason);
    this.end(reason);
  }

  /** Ends the process, whose exit has not been seen, and all that it has started. */
  protected abstract end(reason: Error | null): void;

  protected connect({ stdout, stderr, pipe }: ChildStreams, slots: ParentSlots | null): void {
    this.read('stdout', stdout);
    this.read('stderr', stderr);
    this.#pipe = pipe;
    this.#slots = slots;
    const channelEvents: ChannelEvents = {
      onFrame: (frame) => this.receive(frame),
      onClose: (error) => this.#channelEnded(error),
    };
    this.channel = new SocketChannel(pipe, channelEvents, { slots });
  }

  /** @param pid null: no process was there */
  protected exited(how: string, pid: number | null): void {
    if (this.#exit !== null) return;
    this.#exit = how;
    this.ending();
    // Ends any children that the process left behind.
    if (pid !== null) killGroup(pid);
    if (this.#channelClosed) this.#bury(how);
    else this.#buryWhenQuiet(how, this.clock.now() + LINGERING.ms);
  }

  /** Waits for turns without data. Immediates run after the event loop has read its sockets. */
  #buryWhenQuiet(how: string, latest: Deadline, turns = { all: 0, quiet: 0 }): void {
    const received = this.channel?.bytes.received;
    setImmediate(() => {
      if (this.#isBuried) return;
      const all = turns.all + 1;
      const quiet = this.channel?.bytes.received === received ? turns.quiet + 1 : 0;
      const lingers = all >= LINGERING.turns && this.clock.now() >= latest;
      if (quiet >= QUIET_TURNS || lingers) this.#bury(how);
      else this.#buryWhenQuiet(how, latest, { all, quiet });
    });
  }

  #channelEnded(error: Error | null): void {
    this.#channelClosed = true;
    if (this.#exit !== null) this.#bury(this.#exit);
    // The parent cannot reach a child without a channel. Most such children exit by themselves, but a child that sent
    // garbage or runs a busy loop does not. Garbage is a cause of death; a broken pipe (ECONNRESET) is only its effect.
    else this.kill(isModeletError(error) ? error : null);
  }

  #bury(how: string): void {
    if (this.#isBuried) return;
    this.#isBuried = true;
    // A grandchild may keep the other end open as long as it lives.
    this.#pipe?.destroy();
    this.#slots?.end();
    this.dead(how);
  }
}

export class ChildProcess extends StartedProcess {
  readonly #process: LaunchedProcess;

  constructor(spec: ChildSpec, events: ChildEvents, clock: Clock = systemClock) {
    super(spec.entry, events, clock);
    const slots = spec.slots ?? null;
    this.#process = launch({ ...spec, slotsFds: slots?.fds });
    this.#process.on('error', (error) => this.exited(`could not be started: ${error.message}`, this.pid));
    this.#process.on('exit', (code, signal) =>
      this.exited(signal ? `was killed by ${signal}` : `exited with code ${code}`, this.pid),
    );
    // If file descriptors run out, Node.js returns a process without streams, and emits its 'error' event later.
    const [, stdout, stderr, pipe] = this.#process.stdio ?? [];
    this.connect(
      {
        stdout: (stdout as Readable | undefined) ?? new PassThrough(),
        stderr: (stderr as Readable | undefined) ?? new PassThrough(),
        pipe: (pipe as Duplex | undefined) ?? new PassThrough(),
      },
      slots,
    );
  }

  get pid(): number | null {
    return this.#process.pid ?? null;
  }

  protected end(): void {
    if (this.pid !== null) killTree(this.pid);
  }
}
