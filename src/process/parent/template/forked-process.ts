/** A worker that a template forks. It is no child of this process: the template tells how it ends. */
import { randomUUID } from 'node:crypto';
import type { Clock, Deadline } from '../../../core/clock.ts';
import type { ForkOrder } from '../../../wire/frames/bodies.ts';
import type { ParentSlots } from '../../../wire/slots/parent-slots.ts';
import type { ChildEvents } from '../child.ts';
import { StartedProcess } from '../child-process.ts';
import { killMarked } from '../family.ts';
import { diesFirst, killTree } from '../launch.ts';
import type { ForkedStreams } from './fork-listener.ts';
import type { Template, TemplateWorker } from './template.ts';

/** How long a process that loses its template may take to end, in ms, and how often it is looked at meanwhile. */
const ORPHANED_MS = 1000;
const LOOK_MS = 10;

export interface ForkSpec extends Pick<ForkOrder, 'env' | 'cpus'> {
  readonly slots: ParentSlots | null;
}

/** The death of a worker because its template has died. Tells nothing of the worker itself. */
export class TemplateLost extends Error {
  constructor(death: Error) {
    super(`ended with its template, which ${death.message}`, { cause: death });
    this.name = 'TemplateLost';
  }
}

export class ForkedProcess extends StartedProcess implements TemplateWorker {
  readonly order: TemplateWorker['order'];
  readonly #slots: ParentSlots | null;
  readonly #template: Template;
  /** Null until the process has called. */
  #pid: number | null = null;

  constructor(template: Template, { env, cpus, slots }: ForkSpec, events: ChildEvents, clock: Clock) {
    super(template.entry, events, clock);
    this.order = { mark: randomUUID(), env, cpus };
    this.#slots = slots;
    this.#template = template;
    template.add(this);
  }

  /** Until the process has called, its template works for it. */
  get pid(): number | null {
    return this.#pid ?? this.#template.pid;
  }

  override get signs(): number {
    return super.signs + this.#template.signs;
  }

  override close(deadline: Deadline): void {
    // Others may wait for the template that it waits for.
    if (this.#pid === null) this.#template.remove(this);
    super.close(deadline);
  }

  began(pid: number, streams: ForkedStreams): void {
    this.#pid = pid;
    diesFirst(pid);
    this.connect(streams, this.#slots);
  }

  ended(how: string): void {
    killMarked(this.order.mark);
    this.exited(how, this.#pid);
  }

  lost(error: Error): void {
    this.killedBecause(this.#pid === null ? error : new TemplateLost(error));
    this.#awaitEnd(this.clock.now() + ORPHANED_MS);
  }

  protected end(reason: Error | null): void {
    if (this.#pid === null) {
      this.#template.fail(this, reason);
      this.exited('was not forked', null);
    } else if (!this.#template.isGone) {
      killTree(this.#pid);
      killMarked(this.order.mark);
    }
  }

  /** The system ends it, and it may write to its slots until then: its channel closes when it can no more. */
  #awaitEnd(latest: Deadline): void {
    if (!this.isReachable || this.clock.now() >= latest) this.exited('lost its template', this.#pid);
    else this.clock.at(this.clock.now() + LOOK_MS, () => this.#awaitEnd(latest));
  }
}
