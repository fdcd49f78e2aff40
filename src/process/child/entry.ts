/**
 * The template of every child's main file: open the channel, report states, end when the channel ends.
 */
import { asError, isModeletError } from '../../core/errors.ts';
import { type Channel, type ChannelEvents, openParentChannel } from '../../wire/channel/channel.ts';
import { encodeError } from '../../wire/codec/error-codec.ts';
import type { StateReport } from '../../wire/frames/bodies.ts';
import type { Frame } from '../../wire/frames/frames.ts';
import { BUILD_ID } from '../build-id.ts';
import { QuietCollection } from './quiet-collection.ts';

export interface ChildProgram {
  onFrame(frame: Frame, channel: Channel): void;
  /** The process ends, for whatever reason: last chance to stop others. */
  onExit(): void;
}

/** What a child needs of its way to the parent in order to tell. */
export type Reports = Pick<Channel, 'send' | 'flushed'>;

export function runChild(program: ChildProgram): void {
  // Ctrl-C and service managers signal the whole group: a child ends by frame, by loss of its channel, or by SIGKILL.
  process.on('SIGINT', () => {});
  process.on('SIGTERM', () => {});

  const memory = new QuietCollection(() => channel.bufferedBytes > 0 || channel.waitingBytes > 0);
  const events: ChannelEvents = {
    onFrame: (frame) => program.onFrame(frame, channel),
    onClose: (error) => {
      // That the pipe broke is the parent's end, not this one's trouble.
      const garbage = isModeletError(error);
      if (garbage) console.error(error.stack);
      process.exit(garbage ? 1 : 0);
    },
  };
  const channel = openParentChannel(events, (count) => memory.noteBytes(count));
  process.on('exit', () => program.onExit());
  introduce(channel);
}

/**
 * Says that it has started, and of which code it is. From then on, what nobody catches ends the child: a process, or
 * in a thread that thread alone.
 */
export function introduce(channel: Reports): void {
  const fail = (thrown: unknown): void => {
    console.error(asError(thrown).stack);
    void endWithError(channel, thrown);
  };
  process.on('uncaughtException', fail);
  process.on('unhandledRejection', fail);
  report(channel, { state: 'startup', build: BUILD_ID });
}

export function report(channel: Reports, state: StateReport): void {
  channel.send({ type: 'report', body: state });
}

/** Reports why and exits: recovery is always a new child. `loading`: it came while the code was loaded, before `setup`. */
export async function endWithError(channel: Reports, thrown: unknown, loading: boolean = false): Promise<never> {
  report(channel, { state: 'error', error: Buffer.from(encodeError(thrown)).toString('base64'), loading });
  await channel.flushed();
  process.exit(1);
}
