/** Writes to Node-RED's log: a line for the console, and its fields for other log handlers. */
import type { Node, NodeAPI } from 'node-red';
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

/** Logs a warning that concerns no runtime alone. */
export function logWarning(RED: NodeAPI, message: string): void {
  RED.log.warn(oneLine(`modelet: ${message}`));
}

interface FlowLog {
  log?(entry: object): void;
}

/** Logs an error of a node as its method `error` does, and gives fields to other log handlers. */
export function logAtNode(RED: NodeAPI, node: Node, line: string, fields: object): void {
  const { id, type, z, name, _alias, _flow } = node as Node & { readonly _alias?: string; readonly _flow?: FlowLog };
  const msg = oneLine(line);
  // Node-RED's own method takes no fields. The node's flow adds its path.
  if (!_flow?.log) {
    node.error(msg);
    return;
  }
  const shown = { ...(_alias ? { _alias } : {}), ...(z ? { z } : {}), ...(name ? { name } : {}) };
  _flow.log({ ...fields, level: RED.log.ERROR, id, type, msg, ...shown });
}

const ESCAPES: Readonly<Record<string, string>> = { '\n': '\\n', '\r': '\\r', '\t': '\\t' };

/** Escapes control characters: names and messages from others must not start a new line or control the terminal. */
export function oneLine(text: string): string {
  return text.replace(
    /[\p{Cc}\u2028\u2029]/gu,
    (character) => ESCAPES[character] ?? `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}
