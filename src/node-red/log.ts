/** Writes to Node-RED's log: a line for the console, and its fields for other log handlers. */
import type { NodeAPI } from 'node-red';
import type { LogLevel } from '../core/model.ts';
import { Log, recordsTo } from '../observe/log/log.ts';

const LEVELS = { trace: 'TRACE', debug: 'DEBUG', info: 'INFO', warn: 'WARN', error: 'ERROR' } as const satisfies Record<
  LogLevel,
  string
>;

/** Creates a log in Node-RED's. The console shows `[modelet:runtime/stage/worker 0] message`. */
export function nodeRedLog(RED: NodeAPI): Log {
  return Log.to(
    recordsTo(({ owner: { id, ...owner }, level, message, stage, worker, fields }) => {
      const names = [...Object.values(owner), ...(stage === undefined ? [] : [stage])];
      if (worker !== undefined) names.push(`worker ${worker}`);
      const entry = {
        ...owner,
        ...fields,
        ...(stage === undefined ? {} : { stage }),
        ...(worker === undefined ? {} : { worker }),
        level: RED.log[LEVELS[level]],
        type: 'modelet',
        id,
        name: oneLine(names.join('/')),
        msg: oneLine(message),
      };
      RED.log.log(entry);
    }),
  );
}

/** Logs a fault of this package's own code. */
export function logFault(RED: NodeAPI, what: string, thrown: unknown): void {
  RED.log.error(oneLine(`modelet: ${what}: ${(thrown as Error).stack ?? String(thrown)}`));
}

const ESCAPES: Readonly<Record<string, string>> = { '\n': '\\n', '\r': '\\r', '\t': '\\t' };

/** Escapes control characters: names and messages from others must not start a new line or control the terminal. */
export function oneLine(text: string): string {
  return text.replace(
    /[\p{Cc}\u2028\u2029]/gu,
    (character) => ESCAPES[character] ?? `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}
