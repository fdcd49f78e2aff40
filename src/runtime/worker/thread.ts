/**
 * Entry of a worker thread: piscina calls `runTask`, one task at a time. Piscina loads it by URL; no file imports it.
 *
 * Piscina cannot reach a running task, so messages for a running batch arrive on a separate port.
 */
import { MessagePort, parentPort, workerData } from 'node:worker_threads';
import { pinThread } from '../../process/affinity.ts';
import { endWithError, GarbageCollection, introduce, threadHeap } from '../../process/child/entry.ts';
import { PortChannel, type ThreadData, unpackFrames } from '../../wire/channel/port-channel.ts';
import { WorkerProgram } from './worker-program.ts';

const memory = new GarbageCollection(() => false, threadHeap);
const channel = new PortChannel(parentPort as MessagePort, (count) => memory.noteBytes(count));
const program = new WorkerProgram(channel);
const { cpus, taskset } = workerData as ThreadData;

introduce(channel, false);

/**
 * Handles the frames of one message, one after another. The first message is the port. All results go to the parent as
 * frames. Never throws, because an error that piscina carries loses its name, code and cause.
 */
export async function runTask(message: ArrayBuffer | MessagePort): Promise<void> {
  if (message instanceof MessagePort) {
    listen(message);
    return;
  }
  memory.noteBytes(message.byteLength);
  try {
    for (const frame of unpackFrames(message)) {
      // Pin before any code of the modelet runs: threads and processes that it starts inherit the thread's cores.
      if (frame.type === 'load' && cpus) await pinThread(cpus, taskset);
      await program.receive(frame);
    }
  } catch (thrown) {
    await endWithError(channel, thrown, program.failed(thrown));
  }
}

function listen(port: MessagePort): void {
  port.on('message', (message: unknown) => {
    for (const frame of unpackFrames(message)) void program.receive(frame);
  });
  // The port must not keep an idle thread alive.
  port.unref();
}
