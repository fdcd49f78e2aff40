/** Writes to Node-RED's log: a line for the console, and its fields for other log handlers. */
import type { Node, NodeAPI } from 'node-red';
import type { LogLevel } from '../core/model.ts';
import type { FailureFields } from '../observe/log/failures.ts';
import { Log, recordsTo } from '../observe/log/log.ts';

const LEVELS = { trace: 'TRACE', debug: 'DEBUG', info: 'INFO', warn: 'WARN', error: 'ERROR' } as const satisfies Record<
  LogLevel,
  string
>;

/**
 * Creates a log in Node-RED's. The console shows `[modelet:runtime/stage/worker 0] message`.
 * @param nodeOf returns the node of a stage by its name, from which its lines come in the debug sidebar
 */
export function nodeRedLog(RED: NodeAPI, nodeOf: (stage: string) => Node | undefined = () => undefined): Log {
  return Log.to(
    recordsTo(({ owner: { id, ...owner }, level, message, stage, worker, fields }) => {
      const names = [...Object.values(owner), ...(stage === undefined ? [] : [stage])];
      if (worker !== undefined) names.push(`worker ${worker}`);
      const entry = {
        ...owner,
        ...withStack(message, fields ?? {}),
        ...(stage === undefined ? {} : { stage }),
        ...(worker === undefined ? {} : { worker }),
        level: RED.log[LEVELS[level]],
        type: 'modelet',
        name: oneLine(names.join('/')),
      };
      const node = stage === undefined ? undefined : nodeOf(stage);
      if (node) writeAt(RED, node, entry);
      else RED.log.log({ ...entry, id });
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

type LogEntry = Parameters<NodeAPI['log']['log']>[0];

interface FlowLog {
  log?(entry: object): void;
}

/** Logs an error of a node as its method `error` does, and gives fields to other log handlers. */
export function logAtNode(RED: NodeAPI, node: Node, line: string, fields: FailureFields): void {
  const { type, name } = node;
  writeAt(RED, node, { ...withStack(line, fields), level: RED.log.ERROR, type, ...(name ? { name } : {}) });
}

/** Node-RED's own methods of a node take no fields. The node's flow adds its path. */
function writeAt(RED: NodeAPI, node: Node, entry: LogEntry): void {
  const { id, z, _alias, _flow } = node as Node & { readonly _alias?: string; readonly _flow?: FlowLog };
  const placed = { ...entry, id, ...(_alias ? { _alias } : {}), ...(z ? { z } : {}) };
  if (_flow?.log) _flow.log(placed);
  else RED.log.log(placed);
}

/**
 * The message and the fields of a log entry. The debug sidebar has the place of an error in inline code in the head of the
 * message, where it is never cut, and opens the message to the stack.
 */
function withStack(line: string, fields: Pick<FailureFields, 'place' | 'stack'>): object {
  const { place, stack = '' } = fields;
  const text = oneLine(line);
  const frames = stack.split('\n').filter((frame) => /^\s+at /.test(frame));
  if (frames.length === 0) return { ...fields, msg: text };
  const whole = [text, ...frames.map((frame) => `    ${oneLine(frame.trim())}`)].join('\n');
  const topic = place === undefined ? {} : { topic: place };
  // The console writes the message as a string, on one line. Editor and files get it as JSON.
  return { ...fields, ...topic, msg: { toString: () => text, toJSON: () => whole } };
}

const ESCAPES: Readonly<Record<string, string>> = { '\n': '\\n', '\r': '\\r', '\t': '\\t' };

/** Escapes control characters: names and messages from others must not start a new line or control the terminal. */
export function oneLine(text: string): string {
  return text.replace(
    /[\p{Cc}\u2028\u2029]/gu,
    (character) => ESCAPES[character] ?? `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}
