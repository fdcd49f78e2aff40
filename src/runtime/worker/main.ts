/** Entry of a worker process: connects a `WorkerProgram` to the process's channel. The engine starts it by URL. */
import { endWithError, runChild } from '../../process/child/entry.ts';
import { WorkerSlots } from '../../wire/slots/worker-slots.ts';
import { WorkerProgram } from './worker-program.ts';

let program: WorkerProgram | null = null;

runChild({
  slots: (onBytes) => new WorkerSlots(onBytes),
  onFrame: (frame, channel) => {
    program ??= new WorkerProgram(channel);
    const receiver = program;
    receiver.receive(frame).catch((thrown: unknown) => endWithError(channel, thrown, receiver.failed(thrown)));
  },
  onExit: () => {},
});
