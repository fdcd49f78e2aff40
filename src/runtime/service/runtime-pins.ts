/** Pins the engine and the Node-RED process to the cores that a runtime asks for. Workers have their own pins. */
import type { RuntimeConfig } from '../../config/compile.ts';
import { formatCpus } from '../../config/formats/pins.ts';
import type { LogRecord } from '../../core/model.ts';
import { allowedCpus, pinFaults, pinProcess, resolvePin } from '../../process/affinity.ts';
import type { Launcher } from '../../process/parent/launch.ts';

/** The cores and launch helpers of this machine, read before any process was pinned. */
export interface Machine {
  readonly allowedCpus: readonly number[];
  readonly launcher: Launcher;
}

/**
 * The CPU mask of the Node-RED process. A process has one mask, so there is one instance of this class, and nothing
 * else sets the mask. Runtimes claim cores and release them. The last claim wins; without a claim the process returns
 * to the mask that it started with.
 */
class ServerPin {
  readonly #claims: Map<object, readonly number[]> = new Map();
  /** The mask before the first claim. */
  #original: readonly number[] | null = null;
  #applied: readonly number[] | null = null;
  /** Settles with the latest change. A separate process makes each change, so they must not overtake each other. */
  #turn: Promise<void> = Promise.resolve();

  /** Pins this process to `cpus` on behalf of `owner`. Rejects if the mask could not be set. */
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
  /** Cores that the engine starts on; null if pinning does not work here. */
  readonly engine: readonly number[] | null;
  /** Messages about pins that cannot be applied. */
  readonly warnings: readonly string[];
  /** Why requests are refused: a pin that cannot be applied, if the runtime is strict about pins. Otherwise null. */
  readonly barred: string | null;
  readonly #server: readonly number[] | null;
  readonly #log: (record: LogRecord) => void;

  constructor(config: RuntimeConfig, { allowedCpus, launcher }: Machine, log: (record: LogRecord) => void) {
    const engine = resolvePin(config.engineCpus, allowedCpus, launcher.taskset);
    const server = resolvePin(config.serverCpus, allowedCpus, launcher.taskset);
    const pins = [['engine', engine.missing] as const, ['Node-RED', server.missing] as const];
    this.engine = engine.cpus;
    this.warnings = pinFaults(pins, allowedCpus, config.strictPins);
    this.barred = config.strictPins && this.warnings.length > 0 ? this.warnings.join('; ') : null;
    this.#server = config.serverCpus && server.cpus;
    this.#log = log;
  }

  /** Pins this process until `release`, and logs which pins cannot be applied. */
  claim(): void {
    const cpus = this.#server;
    if (cpus) void this.#pin(() => serverPin.claim(this, cpus));
    for (const message of this.warnings) this.#log({ level: 'warn', message });
  }

  release(): Promise<void> {
    return this.#pin(() => serverPin.release(this));
  }

  /** Logs a warning if the mask cannot be set, because the runtime works without it. */
  async #pin(set: () => Promise<void>): Promise<void> {
    try {
      await set();
    } catch (thrown) {
      this.#log({ level: 'warn', message: `Node-RED could not be pinned: ${(thrown as Error).message}` });
    }
  }
}
