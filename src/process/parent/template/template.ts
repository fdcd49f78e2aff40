/**
 * The process from which the workers of a stage are forked. It loads what all of them need, and they share that memory with
 * it as long as they do not write there. Nothing supervises it: the first worker that finds none starts one, the workers
 * that wait for it fail with it, and their supervisors start them again.
 *
 * It lives as long as its pool, even while there are no workers; a template that was replaced ends after its last worker.
 * When it dies, its workers end too.
 */
import type { Clock } from '../../../core/clock.ts';
import type { ForkOrder } from '../../../wire/frames/bodies.ts';
import type { ControlFrame, Frame } from '../../../wire/frames/frames.ts';
import type { ChildEvents, ProcessState } from '../child.ts';
import { ChildProcess, type ChildSpec } from '../child-process.ts';
import { type ForkedStreams, ForkListener } from './fork-listener.ts';

/** A worker, as its template sees it. */
export interface TemplateWorker {
  readonly order: Omit<ForkOrder, 'address'>;
  /** Its process has called. */
  began(pid: number, streams: ForkedStreams): void;
  /** Its process has ended, or could not be forked. */
  ended(how: string): void;
  /** The template has ended. */
  lost(error: Error): void;
}

export class Template {
  readonly entry: string;
  readonly #process: ChildProcess;
  readonly #listener: ForkListener;
  /** Its workers that have not ended, by mark, and those that wait for it. */
  readonly #workers: Map<string, TemplateWorker> = new Map();
  /** Whether it gets no more workers. */
  #isRetired = false;

  /**
   * @param boot what it loads
   * @param onOutput called with what it prints
   * @throws Error if the system refuses to start it
   */
  constructor(spec: ChildSpec, boot: ControlFrame, onOutput: ChildEvents['onOutput'], clock: Clock) {
    this.entry = spec.entry;
    this.#process = new ChildProcess(
      spec,
      { onState: (state) => this.#entered(state), onFrame: (frame) => this.#receive(frame), onOutput },
      clock,
    );
    this.#listener = new ForkListener({
      expects: (mark) => this.#workers.has(mark),
      onCall: (mark, pid, streams) => this.#workers.get(mark)?.began(pid, streams),
      onError: (error) => this.#process.kill(error),
    });
    this.#process.send(boot);
  }

  get pid(): number | null {
    return this.#process.pid;
  }

  get signs(): number {
    return this.#process.signs;
  }

  get isGone(): boolean {
    return this.#process.state.tag === 'dead';
  }

  /** Whether it forks workers, now or when it is ready. */
  get isUsable(): boolean {
    const { tag } = this.#process.state;
    return !this.#isRetired && this.#process.isReachable && (tag === 'startup' || tag === 'ready');
  }

  add(worker: TemplateWorker): void {
    this.#workers.set(worker.order.mark, worker);
    if (this.#process.state.tag === 'ready') this.#fork(worker);
  }

  /** The worker does not wait any more. If it is forked nevertheless, its calls are not answered, and it ends. */
  remove({ order: { mark } }: TemplateWorker): void {
    this.#workers.delete(mark);
    this.#listener.forget(mark);
    this.#endIfUnused();
  }

  /** The worker has waited for too long. A template that is not ready hangs; another one forks no more workers. */
  fail(worker: TemplateWorker, reason: Error | null): void {
    if (!this.#workers.has(worker.order.mark)) return;
    this.#isRetired = true;
    if (this.#process.state.tag === 'startup') this.#process.kill(reason);
    this.remove(worker);
  }

  /** Ends it as soon as it has no workers. */
  retire(): void {
    this.#isRetired = true;
    this.#endIfUnused();
  }

  #endIfUnused(): void {
    if (this.#isRetired && this.#workers.size === 0) this.#process.kill(null);
  }

  #fork({ order }: TemplateWorker): void {
    this.#process.send({ type: 'fork', body: { ...order, address: this.#listener.address } });
  }

  #receive(frame: Frame): void {
    if (frame.type !== 'exited') return;
    const { mark, how } = frame.body;
    const worker = this.#workers.get(mark);
    this.#workers.delete(mark);
    this.#listener.forget(mark);
    worker?.ended(how);
    this.#endIfUnused();
  }

  #entered(state: ProcessState): void {
    if (state.tag === 'ready') for (const worker of this.#workers.values()) this.#fork(worker);
    if (state.tag === 'error') this.#process.kill(null);
    if (state.tag !== 'dead') return;
    this.#listener.close();
    for (const worker of this.#workers.values()) worker.lost(state.error);
    this.#workers.clear();
  }
}
