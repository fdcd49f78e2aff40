/** Checks and reads message properties by the expressions that users write: `payload`, `payload.image`, `list[0]`. */
import type { NodeAPI, NodeMessage } from 'node-red';
import { asError, ModeletError } from '../../core/errors.ts';

/**
 * Checks the syntax of a property expression.
 * @throws ModeletError `config_invalid` if Node-RED cannot parse the expression
 */
export function checkMessageProperty(RED: NodeAPI, property: string, expression: string): void {
  try {
    RED.util.normalisePropertyExpression(expression);
  } catch (thrown) {
    throw new ModeletError('config_invalid', `${property}: ${asError(thrown).message}`);
  }
}

/**
 * Returns the value that a stage reads. A missing property is undefined, as in Node-RED's core nodes.
 * @throws ModeletError `invalid_input` if the object that would hold the property is missing; names the missing part
 */
export function readMessageProperty(RED: NodeAPI, msg: NodeMessage, expression: string): unknown {
  try {
    return RED.util.getMessageProperty(msg, expression);
  } catch (thrown) {
    const missing = missingPart(RED, msg, expression);
    if (missing === null) throw thrown;
    const what = /^req\.files\b/.test(missing) ? 'no file was sent' : `${missing} is missing`;
    throw new ModeletError('invalid_input', `${what}: the stage reads msg.${expression}`);
  }
}

/** Returns the first missing part of a path, for example `payload.image` of `payload.image.data`; null if none is. */
function missingPart(RED: NodeAPI, msg: NodeMessage, expression: string): string | null {
  let part: unknown = msg;
  let way = '';
  for (const key of RED.util.normalisePropertyExpression(expression, msg)) {
    if (part === undefined || part === null) return way;
    part = (part as Record<string | number, unknown>)[key as string];
    way += typeof key === 'number' ? `[${key}]` : `${way === '' ? '' : '.'}${String(key)}`;
  }
  return null;
}
