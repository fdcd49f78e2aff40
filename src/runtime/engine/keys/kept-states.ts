/**
 * Keeps the snapshots of keys while no engine runs: an engine that closes writes a file for each stage, and the next one
 * takes it. From then on the file says whose it is and has no states: after a kill, no key goes back to an old state, and
 * an engine that still closes while the next one runs leaves the file alone. A file that cannot be read or written costs
 * the states of its stage, and no request: the log says so.
 */
import { randomUUID } from 'node:crypto';
import { existsSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import type { StageDefinition } from '../../../config/stage-definition.ts';
import { wallTime } from '../../../core/clock.ts';
import { asError } from '../../../core/errors.ts';
import type { LogRecord } from '../../../core/model.ts';
import { replaceFile } from '../../../process/replace-file.ts';
import { CODEC, itemsOf } from '../../../wire/codec/codec.ts';
import { writeList } from '../../../wire/codec/lists.ts';

/** The form of the file: a list with its head and then, by turns, a key and its snapshot. */
const FORM = 1;

interface Head {
  readonly form: number;
  /** The engine that may write the file. */
  readonly engine: string;
  /** Property that is the key. */
  readonly keyBy: string;
  /** Time of day. */
  readonly savedAt: number;
}

export type KeptState = readonly [key: string, snapshot: Uint8Array];

export class KeptStates {
  readonly #engine: string = randomUUID();
  readonly #folder: string;
  readonly #onLog: (record: LogRecord) => void;

  /** @param folder of this runtime alone */
  constructor(folder: string, onLog: (record: LogRecord) => void) {
    this.#folder = folder;
    this.#onLog = onLog;
  }

  /** Removes the files of all stages but these. */
  clean(stages: readonly StageDefinition[]): void {
    const kept = new Set(stages.filter(keepsStates).map(({ id }) => nameOf(id)));
    try {
      const names = existsSync(this.#folder) ? readdirSync(this.#folder) : [];
      for (const name of names) if (!kept.has(name)) rmSync(join(this.#folder, name), { force: true });
    } catch (thrown) {
      this.#onLog({ level: 'warn', message: `states of dropped stages stay on the disk: ${asError(thrown).message}` });
    }
  }

  /** Returns the states that the last engine has kept, and makes the file this engine's. */
  take(stage: StageDefinition): readonly KeptState[] {
    const states = this.#read(stage);
    this.#tryTo(stage, 'end with this process', () => this.#write(stage, []));
    return states;
  }

  /** Keeps states for the next engine, unless it has begun already. */
  keep(stage: StageDefinition, states: readonly KeptState[]): void {
    this.#tryTo(stage, 'have ended with this process', () => {
      const file = this.#fileOf(stage.id);
      if (existsSync(file) && read(file).head.engine === this.#engine) this.#write(stage, states);
    });
  }

  #read(stage: StageDefinition): readonly KeptState[] {
    const file = this.#fileOf(stage.id);
    let states: readonly KeptState[] = [];
    this.#tryTo(stage, `begin empty: ${file} cannot be read`, () => {
      if (!existsSync(file)) return;
      const { head, states: kept } = read(file);
      if (head.form !== FORM) throw new Error('it has another form');
      const { keyBy, keyIdleMs } = stage.modelet;
      // The time of day may have jumped. Then states end early or late, as they do with an idle time.
      if (head.keyBy === keyBy && wallTime() - head.savedAt < keyIdleMs) states = kept;
    });
    return states;
  }

  #write({ id, modelet }: StageDefinition, states: readonly KeptState[]): void {
    const head: Head = { form: FORM, engine: this.#engine, keyBy: modelet.keyBy, savedAt: wallTime() };
    const text = (value: unknown) => ({ codec: CODEC.json, bytes: Buffer.from(JSON.stringify(value)) });
    const raw = (bytes: Uint8Array) => ({ codec: CODEC.binary, bytes });
    const list = writeList([text(head), ...states.flatMap(([key, snapshot]) => [text(key), raw(snapshot)])]);
    replaceFile(this.#fileOf(id), list);
  }

  #fileOf(id: string): string {
    return join(this.#folder, nameOf(id));
  }

  #tryTo({ name }: StageDefinition, otherwise: string, act: () => void): void {
    try {
      act();
    } catch (thrown) {
      const message = `the states of keys ${otherwise}: ${asError(thrown).message}`;
      this.#onLog({ level: 'warn', message, stage: name });
    }
  }
}

export function keepsStates({ modelet }: Pick<StageDefinition, 'modelet'>): boolean {
  return modelet.keyBy !== '' && modelet.keySnapshotMb > 0;
}

function nameOf(id: string): string {
  return `${encodeURIComponent(id)}.states`;
}

function read(file: string): { readonly head: Head; readonly states: readonly KeptState[] } {
  const [head, ...entries] = itemsOf({ codec: CODEC.list, bytes: readFileSync(file) }).map(({ bytes }) => bytes);
  const states = entries.flatMap((snapshot, at): KeptState[] =>
    at % 2 === 1 ? [[JSON.parse(`${entries[at - 1]}`) as string, new Uint8Array(snapshot)]] : [],
  );
  return { head: JSON.parse(`${head}`) as Head, states };
}
