/**
 * Entry of a worker thread: piscina calls `runTask`, one task at a time. Found by URL, imported by nobody.
 *
 * A task cannot be told anything while it runs: what concerns one that does comes by a port of its own.
 */
import { MessagePort, parentPort, workerData } from 'node:worker_threads';
import { endWithError, introduce } from '../process/child/entry.ts';
import { QuietCollection } from '../process/child/quiet-collection.ts';
import { pinThread } from '../process/parent/launch.ts';
import { PortChannel, type ThreadData, unpackFrames } from '../wire/channel/port-channel.ts';
import { WorkerProgram } from './worker-program.ts';

const memory = new QuietCollection(() => false);
const channel = new PortChannel(parentPort as MessagePort, (count) => memory.noteBytes(count));
const program = new WorkerProgram(channel);
const { cpus, taskset } = workerData as ThreadData;

introduce(channel);

/**
 * Does what the frames of one message ask for, one after the other; the first message is the port. All that comes of it goes to the parent as
 * frames: this never throws, as an error that piscina carried would lose its name, its code and its cause.
 */
export async function runTask(message: ArrayBuffer | MessagePort): Promise<void> {
  if (message instanceof MessagePort) {
    listen(message);
    return;
  }
  memory.noteBytes(message.byteLength);
  try {
    for (const frame of unpackFrames(message)) {
      // Before any code of the modelet: what that starts inherits the cores of the thread.
      if (frame.type === 'load' && cpus) await pinThread(cpus, taskset);
      await program.receive(frame);
    }
  } catch (thrown) {
    await endWithError(channel, thrown, program.isLoading);
  }
}

function listen(port: MessagePort): void {
  port.on('message', (message: unknown) => {
    for (const frame of unpackFrames(message)) void program.receive(frame);
  });
  // It keeps no thread alive that has nothing to do.
  port.unref();
}
