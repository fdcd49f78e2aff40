/**
 * A child process as its parent sees it: its channel, its output, its end.
 *
 * A child counts as dead only when the process has exited AND its channel is read to the end: replies that were
 * on their way at its death still count.
 */
import { type Duplex, PassThrough, type Readable } from 'node:stream';
import { type Clock, type Deadline, systemClock, type Timer } from '../core/clock.ts';
import { isModeletError } from '../core/errors.ts';
import { type Channel, SocketChannel } from '../wire/channel.ts';
import type { Frame } from '../wire/frames.ts';
import type { ChildEvents } from './child.ts';
import { ChildLife, type Kept } from './child-life.ts';
import { killGroup, killTree, type LaunchedProcess, type LaunchSpec, launch } from './launch.ts';
import type { ProcessState } from './process-state.ts';

/** After exit, how long to wait for the end of a channel that a grandchild may have inherited. */
const LINGERING_CHANNEL_MS = 1000;

export interface ChildSpec extends LaunchSpec {
  /** The file of this package that it runs. */
  readonly entry: string;
}

export class ChildProcess implements Kept {
  readonly entry: string;
  readonly #process: LaunchedProcess;
  readonly #life: ChildLife;
  readonly #channel: Channel;
  readonly #clock: Clock;
  /** What is known of the end while waiting for the rest of it. */
  #exit: string | null = null;
  #channelClosed = false;
  #lingerTimer: Timer | null = null;

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
    this.#channel = new SocketChannel((pipe as Duplex | undefined) ?? new PassThrough(), {
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

  get bufferedBytes(): number {
    return this.#channel.bufferedBytes;
  }

  /** Bytes over its channel so far. */
  get bytes(): { readonly sent: number; readonly received: number } {
    return this.#channel.bytes;
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
    else this.#lingerTimer = this.#clock.at(this.#clock.now() + LINGERING_CHANNEL_MS, () => this.#bury(how));
  }

  #channelEnded(error: Error | null): void {
    this.#channelClosed = true;
    if (this.#exit !== null) this.#bury(this.#exit);
    // A child without a channel is lost to us: most end by themselves, one that sent garbage or spins does not.
    // Garbage is a cause of death; that the pipe broke (ECONNRESET) is its effect.
    else this.kill(isModeletError(error) ? error : null);
  }

  #bury(how: string): void {
    this.#lingerTimer?.cancel();
    this.#channel.close();
    this.#life.dead(how);
  }
}
