/** The cores of the engine's process and of Node-RED's process, as a runtime wants them. Workers have pins of their own. */
import type { RuntimeConfig } from '../config/compile.ts';
import { formatCpus } from '../config/pins.ts';
import type { LogRecord } from '../core/model.ts';
import { allowedCpus, pinProblem, pinWarning, resolvePin } from '../process/affinity.ts';
import { type Launcher, pinProcess } from '../process/parent/launch.ts';

/** The cores and launch helpers of this machine, read before anything was pinned. */
export interface Machine {
  readonly allowedCpus: readonly number[];
  readonly launcher: Launcher;
}

/**
 * The CPU mask of this process, Node-RED's own. A process has one mask, so this object exists once in a process and is
 * its only writer. Runtimes claim cores and give them up; the last claim counts, and without a claim the process gets
 * back the mask that it was started with.
 */
class ServerPin {
  readonly #claims: Map<object, readonly number[]> = new Map();
  /** The mask before the first claim. */
  #original: readonly number[] | null = null;
  #applied: readonly number[] | null = null;
  /** A process of its own sets each mask; they must not overtake one another. */
  #turn: Promise<void> = Promise.resolve();

  /** Rejects if the mask could not be set. */
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

const serverPin: ServerPin = new ServerPin();

export class RuntimePins {
  /** Cores that the engine starts on; null: not pinned. */
  readonly engine: readonly number[] | null;
  /** Messages about pins that cannot be honoured. */
  readonly warnings: readonly string[];
  readonly #server: readonly number[] | null;
  readonly #log: (record: LogRecord) => void;

  constructor(config: RuntimeConfig, { allowedCpus, launcher }: Machine, log: (record: LogRecord) => void) {
    const engine = resolvePin(config.engineCpus, allowedCpus, launcher.taskset);
    const server = resolvePin(config.serverCpus, allowedCpus, launcher.taskset);
    const say = config.strictPins ? pinProblem : pinWarning;
    const warn = (who: string, missing: readonly number[]): string[] =>
      missing.length > 0 ? [say(who, missing, allowedCpus)] : [];
    this.engine = engine.cpus;
    this.warnings = [...warn('engine', engine.missing), ...warn('Node-RED', server.missing)];
    this.#server = config.serverCpus && server.cpus;
    this.#log = log;
  }

  /** Pins this process, until `release`; says which pins cannot be honoured. */
  claim(): void {
    const cpus = this.#server;
    if (cpus) void this.#pin(() => serverPin.claim(this, cpus));
    for (const message of this.warnings) this.#log({ level: 'warn', message });
  }

  release(): Promise<void> {
    return this.#pin(() => serverPin.release(this));
  }

  /** Logs a warning if the mask cannot be set: a runtime works without it. */
  async #pin(set: () => Promise<void>): Promise<void> {
    try {
      await set();
    } catch (thrown) {
      this.#log({ level: 'warn', message: `Node-RED could not be pinned: ${(thrown as Error).message}` });
    }
  }
}
