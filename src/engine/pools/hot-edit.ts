/**
 * Watches the file that a stage's modelet comes from: as long as the stage's definition asks for that, and while its
 * workers do not start, as nothing else would tell that they may now.
 */
import { basename } from 'node:path';
import type { Clock } from '../../core/clock.ts';
import type { LogRecord, StageDefinition } from '../../core/model.ts';
import { FileWatch, stampOf } from './file-watch.ts';

export interface HotEditHost {
  readonly clock: Clock;
  onLog(record: LogRecord): void;
}

export class HotEdit {
  readonly #host: HotEditHost;
  readonly #onSaved: () => void;
  #present: { readonly path: string; readonly watch: FileWatch } | null = null;

  /** `onSaved`: the file has another content than what the newest workers were started with. */
  constructor(host: HotEditHost, onSaved: () => void) {
    this.#host = host;
    this.#onSaved = onSaved;
  }

  /** Watches what the definition says; a file that is watched already goes on being watched. */
  follow({ name, watch, modelet: { source } }: StageDefinition): void {
    const path = watch && 'path' in source ? source.path : null;
    if (path === (this.#present?.path ?? null)) return;
    this.stop();
    if (path === null) return;
    const onSaved = (): void => {
      this.#host.onLog({ level: 'info', message: `${basename(path)} has been saved: new workers start`, stage: name });
      this.#onSaved();
    };
    this.#present = { path, watch: new FileWatch(path, onSaved, this.#host.clock) };
  }

  stop(): void {
    this.#present?.watch.close();
    this.#present = null;
  }
}

/** Tells when the file of workers that do not start is another than when they were tried. */
export class Repair {
  readonly #host: HotEditHost;
  readonly #onTouched: () => void;
  /** Before the last try. */
  #tried: { readonly path: string; readonly stamp: string } | null = null;
  #watch: FileWatch | null = null;

  constructor(host: HotEditHost, onTouched: () => void) {
    this.#host = host;
    this.#onTouched = onTouched;
  }

  /** To be called before workers are started. */
  trying({ modelet: { source } }: StageDefinition): void {
    this.stop();
    this.#tried = 'path' in source ? { path: source.path, stamp: stampOf(source.path) } : null;
  }

  /** Watches while workers are stuck, unless the definition has its file watched anyway. */
  follow({ name, watch }: StageDefinition, isStuck: boolean): void {
    if (!isStuck || watch || !this.#tried) {
      this.stop();
    } else if (!this.#watch) {
      const { path, stamp } = this.#tried;
      const onChanged = (): void => {
        const message = `${basename(path)} has changed: it is tried again`;
        this.#host.onLog({ level: 'info', message, stage: name });
        this.#onTouched();
      };
      this.#watch = new FileWatch(path, onChanged, this.#host.clock, stamp);
    }
  }

  stop(): void {
    this.#watch?.close();
    this.#watch = null;
  }
}
