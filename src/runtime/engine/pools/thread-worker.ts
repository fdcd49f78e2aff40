/**
 * A worker as a thread of the engine process, for pure JavaScript modelets: a piscina pool of one thread, whose tasks
 * are whole batches, `concurrency` of them at a time. The only file that imports piscina.
 *
 * Native code that crashes ends the whole engine process, and native code that hangs keeps the thread from ending.
 */
import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';
import { MessageChannel, type MessagePort, type Worker } from 'node:worker_threads';
import type { Piscina } from 'piscina';
import type { Clock, Timer } from '../../../core/clock.ts';
import { asError } from '../../../core/errors.ts';
import type { RequestNumber } from '../../../core/model.ts';
import { type Child, type ChildEvents, StartedChild } from '../../../process/parent/child.ts';
import { type WorkerLaunch, workerEnvironment } from '../../../process/parent/worker-launch.ts';
import { programPath } from '../../../process/search-path.ts';
import type { Channel } from '../../../wire/channel/channel.ts';
import { packFrames, type ThreadData, unpackFrames } from '../../../wire/channel/port-channel.ts';
import { cancelledIn, type Frame, keepCancelled } from '../../../wire/frames/frames.ts';

/** Loads piscina with the first thread. Most engines have no threads, and start sooner without it. */
const require = createRequire(import.meta.url);
const THREAD_ENTRY = fileURLToPath(new URL('../../worker/thread.js', import.meta.url));

/** Longest wait for a thread that was told to end. A thread in native code ends when that code returns, if ever. */
const LINGERING_THREAD_MS = 1000;

/**
 *   alive   runs its tasks        -> ending | gone
 *   ending  was told to end, or has raised an error; gets no more frames -> gone
 *   gone    has ended, or was given up
 */
type ThreadState =
  | { readonly tag: 'alive' }
  | { readonly tag: 'ending'; readonly how: string | null; readonly timer: Timer }
  | { readonly tag: 'gone' };

interface ThreadLaunch extends WorkerLaunch {
  /** Number of batches that the thread runs at a time. */
  readonly concurrency: number;
}

export function startThreadWorker(spec: ThreadLaunch, events: ChildEvents, clock: Clock): Child {
  return new ThreadWorker(spec, events, clock);
}

class ThreadWorker extends StartedChild {
  readonly pid: number = process.pid;
  readonly traffic: null = null;
  readonly #pool: Piscina<ArrayBuffer | MessagePort, void>;
  /** Port to the thread's tasks. */
  readonly #port: MessagePort;
  protected readonly channel: Pick<Channel, 'send'> = { send: (frame) => this.#deliver(frame) };
  readonly #heapMb: number;
  readonly #concurrency: number;
  #state: ThreadState = { tag: 'alive' };
  /** Number of tasks that the thread runs. */
  #tasks = 0;
  /** The thread; null if it could not be created. */
  #thread: Worker | null = null;
  /** Frames that wait for the thread. Kept out of piscina's queue, so that a cancellation can still join its batch. */
  readonly #waiting: Frame[] = [];
  /** Cancelled requests that may be in batches that the thread has not seen yet. */
  readonly #cancelled: Set<RequestNumber> = new Set();

  constructor(spec: ThreadLaunch, events: ChildEvents, clock: Clock) {
    super(THREAD_ENTRY, events, clock);
    this.#heapMb = spec.heapMb;
    this.#concurrency = spec.concurrency;
    const piscina = require('piscina') as typeof import('piscina');
    this.#pool = new piscina.Piscina({
      filename: THREAD_ENTRY,
      name: 'runTask',
      // One thread, created with the first task. With a minimum of one, piscina would replace a dead thread by itself.
      minThreads: 0,
      maxThreads: 1,
      idleTimeout: Number.POSITIVE_INFINITY,
      concurrentTasksPerWorker: spec.concurrency,
      // With atomics, a thread blocks its event loop between tasks, and so the modelet's timers and sockets.
      atomics: 'disabled',
      stricterFIFO: true,
      recordTiming: false,
      env: workerEnvironment(spec) as Record<string, string>,
      workerData: { cpus: spec.cpus, taskset: programPath('taskset') } satisfies ThreadData,
      ...(spec.heapMb > 0 ? { resourceLimits: { maxOldGenerationSizeMb: spec.heapMb } } : {}),
    });
    this.#pool.on('message', (message: unknown) => this.#receive(message));
    // Without a listener this process would end. The thread's own events report the same error.
    this.#pool.on('error', () => {});
    const { port1, port2 } = new MessageChannel();
    this.#port = port1;
    // The port must not keep the process alive.
    port1.unref();
    // The first task also creates the thread.
    this.#perform(port2);
  }

  get isReachable(): boolean {
    return this.#state.tag === 'alive';
  }

  kill(reason: Error | null): void {
    if (this.#state.tag === 'gone') return;
    this.killedBecause(reason);
    if (this.#state.tag === 'ending') return;
    this.#ending(null);
    if (this.#thread) void this.#pool.destroy();
    else queueMicrotask(() => this.#bury('was not started'));
  }

  #deliver(frame: Frame): void {
    if (frame.type === 'cancel' || frame.type === 'taken') {
      const message = packFrames([frame]);
      this.#port.postMessage(message, [message]);
    }
    if (frame.type === 'taken') return;
    if (frame.type === 'cancel') {
      if (this.#waiting.length > 0) for (const id of frame.body) this.#cancelled.add(id);
      return;
    }
    this.#waiting.push(frame);
    this.#next();
  }

  #next(): void {
    if (!this.isReachable || this.#tasks >= this.#concurrency) return;
    const frame = this.#waiting.shift();
    if (frame) this.#perform(packFrames([...this.#cancellationsOf(frame), frame]));
  }

  #perform(message: ArrayBuffer | MessagePort): void {
    this.#tasks += 1;
    this.#run(message).then(
      () => {
        this.#tasks -= 1;
        this.#next();
      },
      // A task also fails if its thread has ended; then the end has already been reported, and `kill` does nothing.
      (thrown: unknown) => this.kill(asError(thrown)),
    );
  }

  async #run(message: ArrayBuffer | MessagePort): Promise<void> {
    const done = this.#pool.run(message, { transferList: [message] });
    if (!this.#thread) this.#watch(this.#pool.threads[0] as Worker);
    await done;
  }

  /** Returns cancel frames to send along with a batch, so that the thread skips its cancelled items. */
  #cancellationsOf(frame: Frame): Frame[] {
    const body = cancelledIn(frame, this.#cancelled);
    keepCancelled(this.#cancelled, this.#waiting);
    return body.length > 0 ? [{ type: 'cancel', body }] : [];
  }

  #watch(thread: Worker): void {
    this.#thread = thread;
    thread.on('error', (error) => {
      if (this.isReachable) this.#ending(this.#inWords(error));
    });
    thread.on('exit', (code) => {
      const how = this.#state.tag === 'ending' ? this.#state.how : null;
      this.#bury(how ?? `exited with code ${code}`);
    });
    // By default Node.js pipes a thread's output to this process's own, which would lose its stage and worker.
    for (const stream of ['stdout', 'stderr'] as const) {
      thread[stream].unpipe();
      this.read(stream, thread[stream]);
    }
  }

  #inWords(error: Error): string {
    if ((error as { code?: unknown }).code !== 'ERR_WORKER_OUT_OF_MEMORY') return error.message;
    return `JavaScript heap out of memory${this.#heapMb > 0 ? ` (limit ${this.#heapMb} MB)` : ''}`;
  }

  #receive(message: unknown): void {
    if (this.#state.tag === 'gone') return;
    try {
      for (const frame of unpackFrames(message)) this.receive(frame);
    } catch (thrown) {
      this.kill(asError(thrown));
    }
  }

  #ending(how: string | null): void {
    this.ending();
    const timer = this.clock.at(this.clock.now() + LINGERING_THREAD_MS, () => this.#bury(how ?? 'did not end'));
    this.#state = { tag: 'ending', how, timer };
  }

  #bury(how: string): void {
    if (this.#state.tag === 'gone') return;
    if (this.#state.tag === 'ending') this.#state.timer.cancel();
    this.#state = { tag: 'gone' };
    this.#port.close();
    this.dead(how);
  }
}
