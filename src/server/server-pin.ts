/**
 * The CPU mask of this process, Node-RED's own. A process has one mask, so there is one of this in a process: its
 * only writer. Runtimes claim cores and give them up; the last claim counts, and with none the process gets back
 * the mask it was started with.
 */
import { formatCpus } from '../config/pins.ts';
import { allowedCpus } from '../process/affinity.ts';
import { pinProcess } from '../process/parent/launch.ts';

class ServerPin {
  readonly #claims: Map<object, readonly number[]> = new Map();
  /** The mask before the first claim. */
  #original: readonly number[] | null = null;
  #applied: readonly number[] | null = null;
  /** Masks are set by a process each, which must not overtake one another. */
  #turn: Promise<void> = Promise.resolve();

  /** Rejects where the mask could not be set. */
  claim(owner: object, cpus: readonly number[]): Promise<void> {
    this.#original ??= allowedCpus();
    this.#claims.set(owner, cpus);
    return this.#apply();
  }

  release(owner: object): Promise<void> {
    return this.#claims.delete(owner) ? this.#apply() : Promise.resolve();
  }

  #apply(): Promise<void> {
    const pinned = this.#turn.then(async () => {
      const mask = [...this.#claims.values()].at(-1) ?? this.#original ?? [];
      if (formatCpus(mask) === formatCpus(this.#applied ?? this.#original ?? [])) return;
      await pinProcess(process.pid, mask);
      this.#applied = mask;
    });
    this.#turn = pinned.catch(() => {});
    return pinned;
  }
}

export const serverPin: ServerPin = new ServerPin();
