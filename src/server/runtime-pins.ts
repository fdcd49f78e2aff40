/** The cores of a runtime's two processes that are not workers: the engine's, and those of Node-RED, which it claims. */
import type { RuntimeConfig } from '../config/compile.ts';
import type { LogRecord } from '../core/model.ts';
import { pinProblem, pinWarning, resolvePin } from '../process/affinity.ts';
import type { Machine } from './machine.ts';
import { serverPin } from './server-pin.ts';

export class RuntimePins {
  /** Cores that the engine starts on; null: not pinned. */
  readonly engine: readonly number[] | null;
  /** Pins that cannot be honoured, in words. */
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

  /** A mask that cannot be set is worth a warning, not a failure. */
  async #pin(set: () => Promise<void>): Promise<void> {
    try {
      await set();
    } catch (thrown) {
      this.#log({ level: 'warn', message: `Node-RED could not be pinned: ${(thrown as Error).message}` });
    }
  }
}
