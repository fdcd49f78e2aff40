/**
 * A child process as its parent sees it: its channel, its output, its end.
 *
 * A child counts as dead only when the process has exited AND all that it had sent has been read: replies that were
 * on their way at its death still count. A grandchild that has the channel open as well does not keep it from ending,
 * so that the end of the channel is not waited for: it is enough that nothing more comes.
 */
import { type Duplex, PassThrough, type Readable } from 'node:stream';
import { type Clock, type Deadline, systemClock } from '../../core/clock.ts';
import { isModeletError } from '../../core/errors.ts';
import { type Channel, SocketChannel } from '../../wire/channel/channel.ts';
import type { Frame } from '../../wire/frames/frames.ts';
import type { ProcessState } from '../process-state.ts';
import type { ChildEvents } from './child.ts';
import { ChildLife, type Kept } from './child-life.ts';
import { killGroup, killTree, type LaunchedProcess, type LaunchSpec, launch } from './launch.ts';

/** After exit, how long to go on reading a channel on which something comes all the time. */
const LINGERING_CHANNEL_MS = 1000;
/** In so many turns of the event loop in a row nothing may come. What was sent is there at exit; one turn reads a part. */
const QUIET_TURNS = 3;

export interface ChildSpec extends LaunchSpec {
  /** The file of this package that it runs. */
  readonly entry: string;
}

export class ChildProcess implements Kept {
  readonly entry: string;
  readonly #process: LaunchedProcess;
  readonly #life: ChildLife;
  readonly #channel: Channel;
  /** What the channel runs on. */
  readonly #pipe: Duplex;
  readonly #clock: Clock;
  /** What is known of the end while waiting for the rest of it. */
  #exit: string | null = null;
  #channelClosed = false;
  #isBuried = false;

  constructor(spec: ChildSpec, events: ChildEvents, clock: Clock = systemClock) {
    this.entry = spec.entry;
    this.#clock = clock;
    this.#life = new ChildLife(this, events, clock);
    this.#process = launch(spec);
    this.#process.on('error', (error) => this.#exited(`could not be started: ${error.message}`));
    this.#process.on('exit', (code, signal) =>
      this.#exited(signal ? `was killed by ${signal}` : `exited with code ${code}`),
    );
    // Out of file descriptors, Node hands back a process without streams, and its 'error' event follows.
    const [, stdout, stderr, pipe] = this.#process.stdio ?? [];
    this.#life.read('stdout', (stdout as Readable | undefined) ?? new PassThrough());
    this.#life.read('stderr', (stderr as Readable | undefined) ?? new PassThrough());
    this.#pipe = (pipe as Duplex | undefined) ?? new PassThrough();
    this.#channel = new SocketChannel(this.#pipe, {
      onFrame: (frame) => this.#life.receive(frame),
      onClose: (error) => this.#channelEnded(error),
    });
  }

  get pid(): number | null {
    return this.#process.pid ?? null;
  }

  get state(): ProcessState {
    return this.#life.state;
  }

  get isReachable(): boolean {
    return this.#exit === null && !this.#channelClosed;
  }

  /** The way to it, to be looked at. */
  get traffic(): Omit<Channel, 'send' | 'flushed' | 'close'> {
    return this.#channel;
  }

  send(frame: Frame): void {
    this.#life.send(frame);
  }

  deliver(frame: Frame): void {
    this.#channel.send(frame);
  }

  close(deadline: Deadline): void {
    this.#life.close(deadline);
  }

  kill(reason: Error | null): void {
    if (this.#exit !== null) return;
    this.#life.killedBecause(reason);
    if (this.#process.pid !== undefined) killTree(this.#process.pid);
  }

  #exited(how: string): void {
    if (this.#exit !== null) return;
    this.#exit = how;
    this.#life.ending();
    // Its children, if it left any, go with it.
    if (this.#process.pid !== undefined) killGroup(this.#process.pid);
    if (this.#channelClosed) this.#bury(how);
    else this.#buryWhenQuiet(how, this.#clock.now() + LINGERING_CHANNEL_MS);
  }

  /** Immediates run after the loop has read its sockets. */
  #buryWhenQuiet(how: string, latest: Deadline, quietTurns = 0): void {
    const { received } = this.#channel.bytes;
    setImmediate(() => {
      if (this.#isBuried) return;
      const turns = this.#channel.bytes.received === received ? quietTurns + 1 : 0;
      if (turns >= QUIET_TURNS || this.#clock.now() >= latest) this.#bury(how);
      else this.#buryWhenQuiet(how, latest, turns);
    });
  }

  #channelEnded(error: Error | null): void {
    this.#channelClosed = true;
    if (this.#exit !== null) this.#bury(this.#exit);
    // A child without a channel is lost to us: most end by themselves, one that sent garbage or spins does not.
    // Garbage is a cause of death; that the pipe broke (ECONNRESET) is its effect.
    else this.kill(isModeletError(error) ? error : null);
  }

  #bury(how: string): void {
    if (this.#isBuried) return;
    this.#isBuried = true;
    // A grandchild may have the other end open for as long as it lives.
    this.#pipe.destroy();
    this.#life.dead(how);
  }
}
