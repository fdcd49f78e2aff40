/** Writes to Node-RED's log: a line for the console, and its fields for other log handlers. */
import type { Node, NodeAPI } from 'node-red';
import type { LogLevel } from '../core/model.ts';
import type { FailureFields } from '../observe/log/failures.ts';
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

/**
 * Logs an error of a node as its method `error` does, and gives fields to other log handlers. With a stack among them, the
 * debug sidebar shows an error that opens to it.
 */
export function logAtNode(RED: NodeAPI, node: Node, line: string, fields: FailureFields): void {
  const { id, type, z, name, _alias, _flow } = node as Node & { readonly _alias?: string; readonly _flow?: FlowLog };
  const { stack, ...rest } = fields;
  const text = oneLine(line);
  const msg = stack === undefined ? text : new LoggedError(text, stack);
  // Node-RED's own method takes no fields. The node's flow adds its path.
  if (!_flow?.log) {
    node.error(text);
    return;
  }
  const shown = { ...(_alias ? { _alias } : {}), ...(z ? { z } : {}), ...(name ? { name } : {}) };
  _flow.log({ ...rest, level: RED.log.ERROR, id, type, msg, ...shown });
}

/** An error as its line in the log: `modelet_failed: TypeError: x is not a function (Predict:3:14)`. */
class LoggedError extends Error {
  constructor(line: string, stack: string) {
    const [code = ''] = line.split(': ', 1);
    super(line.slice(code.length + 2));
    this.name = code;
    this.stack = stack;
  }

  /** Log handlers that write JSON get the line, as for any other message. */
  toJSON(): string {
    return String(this);
  }
}

const ESCAPES: Readonly<Record<string, string>> = { '\n': '\\n', '\r': '\\r', '\t': '\\t' };

/** Escapes control characters: names and messages from others must not start a new line or control the terminal. */
export function oneLine(text: string): string {
  return text.replace(
    /[\p{Cc}\u2028\u2029]/gu,
    (character) => ESCAPES[character] ?? `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}
