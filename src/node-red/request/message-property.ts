/** Where in a message something is, as people write it: `payload`, `payload.image`, `list[0]`. */
import type { NodeAPI, NodeMessage } from 'node-red';
import { asError, ModeletError } from '../../core/errors.ts';

/** @throws ModeletError `config_invalid` for what Node-RED cannot find its way by, whatever the message is. */
export function checkMessageProperty(RED: NodeAPI, property: string, expression: string): void {
  try {
    RED.util.normalisePropertyExpression(expression);
  } catch (thrown) {
    throw new ModeletError('config_invalid', `${property}: ${asError(thrown).message}`);
  }
}

/**
 * The value that a stage reads. One that is not there is undefined, as in core.
 * @throws ModeletError `invalid_input` where the message has nothing that could hold it; names the part that is missing.
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

/** The first part of the way that leads nowhere: `payload.image` of `payload.image.data`; null where there is none. */
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
