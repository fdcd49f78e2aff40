/** Where in a message something is, as people write it: `payload`, `payload.image`, `list[0]`. */
import type { NodeAPI } from 'node-red';
import { asError, ModeletError } from '../../src/index.ts';

/** @throws ModeletError `config_invalid` for what Node-RED cannot find its way by, whatever the message is. */
export function checkMessageProperty(RED: NodeAPI, property: string, expression: string): void {
  try {
    RED.util.normalisePropertyExpression(expression);
  } catch (thrown) {
    throw new ModeletError('config_invalid', `${property}: ${asError(thrown).message}`);
  }
}
