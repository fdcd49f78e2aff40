/** Watches the file that a stage's modelet comes from, as long as the stage's definition asks for that. */
import { basename } from 'node:path';
import type { Clock } from '../core/clock.ts';
import type { LogRecord, StageDefinition } from '../core/model.ts';
import { FileWatch } from './file-watch.ts';

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
    const log = (level: LogRecord['level'], message: string): void => this.#host.onLog({ level, message, stage: name });
    const events = {
      onChanged: () => {
        log('info', `${basename(path)} has been saved: new workers start`);
        this.#onSaved();
      },
      onUnwatchable: (error: Error) => {
        log('warn', `saving ${basename(path)} will not be noticed, its folder cannot be watched: ${error.message}`);
      },
    };
    this.#present = { path, watch: new FileWatch(path, events, this.#host.clock) };
  }

  stop(): void {
    this.#present?.watch.close();
    this.#present = null;
  }
}
