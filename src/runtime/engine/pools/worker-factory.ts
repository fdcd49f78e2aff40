/** Creates the workers of one stage: picks each worker's cores and its launcher, and builds its first frame. */
import type { ModeletDefinition, StageDefinition } from '../../../config/stage-definition.ts';
import type { Clock } from '../../../core/clock.ts';
import { ModeletError } from '../../../core/errors.ts';
import type { Pin, WorkerPlacement } from '../../../core/model.ts';
import { pinFaults, resolvePin } from '../../../process/affinity.ts';
import type { Child, ChildEvents } from '../../../process/parent/child.ts';
import type { Template } from '../../../process/parent/template/template.ts';
import {
  forkWorker,
  startProcessWorker,
  startTemplate,
  type WorkerLaunch,
} from '../../../process/parent/worker-launch.ts';
import type { EngineBoot } from '../../../wire/frames/bodies.ts';
import type { ControlFrame } from '../../../wire/frames/frames.ts';
import type { ParentSlots } from '../../../wire/slots/parent-slots.ts';
import { startThreadWorker } from './thread-worker.ts';

export interface PoolBoot extends EngineBoot {
  /** Where large payloads travel; absent: through the channels of the workers. */
  readonly slots?: () => ParentSlots | null;
}

export class WorkerFactory {
  #modelet: ModeletDefinition;
  readonly #boot: PoolBoot;
  readonly #clock: Clock;
  /** Warnings about pins that could not be applied. */
  readonly pinWarnings: readonly string[];
  /** With `strictPins`, the reason why no worker of the stage may start; otherwise null. */
  readonly refusal: ModeletError | null;

  #launches: number[] = [];
  /** Forks the workers of a stage that shares what it loads. */
  #template: Template | null = null;

  constructor(modelet: ModeletDefinition, boot: PoolBoot, clock: Clock) {
    this.#modelet = modelet;
    this.#boot = boot;
    this.#clock = clock;
    const pins = modelet.workers.map((_, index) => [`worker ${index}`, this.#pin(index).missing] as const);
    const faults = pinFaults(pins, boot.allowedCpus, boot.strictPins);
    const isRefused = boot.strictPins && faults.length > 0;
    this.refusal = isRefused ? new ModeletError('config_invalid', faults.join('; ')) : null;
    this.pinWarnings = isRefused ? [] : faults;
  }

  /** Takes over the same modelet with another number of workers. */
  redefine(modelet: ModeletDefinition): void {
    this.#modelet = modelet;
  }

  /** Notes how many workers there are: a later one at a higher index is new. */
  keep(count: number): void {
    this.#launches = this.#launches.slice(0, count);
  }

  get startTimeoutMs(): number {
    return this.#modelet.startTimeoutMs;
  }

  /** Number of workers launched at the index after the first. */
  restarts(index: number): number {
    return Math.max(0, (this.#launches[index] ?? 0) - 1);
  }

  launch(stage: StageDefinition, index: number, events: ChildEvents): Child {
    this.#launches[index] = (this.#launches[index] ?? 0) + 1;
    const { isolation, heapMb, concurrency } = this.#modelet;
    const { cpus, applied } = this.#pin(index);
    const spec = {
      launcher: this.#boot.launcher,
      cpus,
      pin: applied,
      env: this.#placement(index).env,
      heapMb,
    };
    if (isolation === 'thread') return startThreadWorker({ ...spec, concurrency }, events, this.#clock);
    const launch = { ...spec, slots: this.#slots() };
    return this.#forked(stage, index, launch, events) ?? startProcessWorker(launch, this.#modelet, events, this.#clock);
  }

  /** Lets later workers begin with what is on the disk then. Earlier ones stay as they are. */
  renew(): void {
    this.#template?.retire();
    this.#template = null;
  }

  /** Returns null if the stage does not share what it loads. */
  #forked(stage: StageDefinition, index: number, launch: WorkerLaunch, events: ChildEvents): Child | null {
    const { preload, source, requireFrom } = this.#modelet;
    if (!preload || source.kind !== 'python' || process.platform !== 'linux') return null;
    if (!this.#template?.isUsable) {
      const spec = { ...launch, slots: this.#slots() };
      const boot = this.loadFrame(stage, index);
      this.#template = startTemplate(spec, { source, requireFrom }, boot, events, this.#clock);
    }
    return forkWorker(this.#template, launch, events, this.#clock);
  }

  #slots(): ParentSlots | null {
    return this.#boot.slots?.() ?? null;
  }

  /** Returns the first frame for a new worker. */
  loadFrame({ name, batching }: StageDefinition, index: number): ControlFrame {
    const { workers: _, ...modelet } = this.#modelet;
    return {
      type: 'load',
      body: {
        stage: name,
        worker: index,
        cpus: this.appliedPin(index),
        maxPayloadBytes: this.#boot.maxPayloadBytes,
        batchSize: batching.maxBatchSize,
        modelet,
      },
    };
  }

  /** Returns the cores that a worker is really pinned to, or null if it is not pinned. */
  appliedPin(index: number): Pin {
    return this.#pin(index).applied;
  }

  /** Workers beyond a range that became smaller run until they are idle. All workers of a range have one placement. */
  #placement(index: number): WorkerPlacement {
    const { workers } = this.#modelet;
    return (workers[index] ?? workers[0]) as WorkerPlacement;
  }

  #pin(index: number): ReturnType<typeof resolvePin> {
    return resolvePin(this.#placement(index).cpus, this.#boot.allowedCpus, this.#boot.launcher.taskset);
  }
}
