/** From the log of a runtime to Node-RED's: a line to read on the console, and its parts for other log handlers. */
import type { NodeAPI } from 'node-red';
import type { LogLevel, LogRecord } from '../core/model.ts';
import type { Service } from '../server/service.ts';

const LEVELS = { trace: 'TRACE', debug: 'DEBUG', info: 'INFO', warn: 'WARN', error: 'ERROR' } as const satisfies Record<
  LogLevel,
  string
>;

/** Shows as `[modelet:runtime/stage/worker 0] message` on the console: Node-RED puts type and name in front. */
export function writeLog(RED: NodeAPI, { id, name }: Pick<Service, 'id' | 'name'>, record: LogRecord): void {
  const { level, message, stage, worker, fields } = record;
  const where = [name, ...(stage === undefined ? [] : [stage])];
  if (worker !== undefined) where.push(`worker ${worker}`);
  const entry = {
    ...fields,
    ...(stage === undefined ? {} : { stage }),
    ...(worker === undefined ? {} : { worker }),
    level: RED.log[LEVELS[level]],
    type: 'modelet',
    id,
    name: oneLine(where.join('/')),
    msg: oneLine(message),
  };
  RED.log.log(entry);
}

/** A fault of this package's own code. */
export function logFault(RED: NodeAPI, what: string, thrown: unknown): void {
  RED.log.error(oneLine(`modelet: ${what}: ${(thrown as Error).stack ?? String(thrown)}`));
}

const ESCAPES: Readonly<Record<string, string>> = { '\n': '\\n', '\r': '\\r', '\t': '\\t' };

/** Names and messages may come from anybody: none may begin a line of its own or speak to the terminal. */
export function oneLine(text: string): string {
  return text.replace(
    /[\p{Cc}\u2028\u2029]/gu,
    (character) => ESCAPES[character] ?? `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}
