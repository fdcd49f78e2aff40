/**
 * Replaces environment variables in JSON properties. A text that is exactly `${NAME}` becomes the variable's value, as
 * Node-RED does it for whole properties. The replacement runs after parsing and only on values: a variable's content
 * always stays one value and is not expanded again.
 */
import { invalid } from './validate.ts';

/** Looks up a variable as the node sees it: in its group, subflow, flow, or the process. */
export type LookUp = (name: string) => unknown;

const REFERENCE = /^\$\{([^{}\s]+)\}$/;
/** `$${NAME}` is an escape for the text `${NAME}`. */
const ESCAPED = /^\$(\$+\{[^{}\s]+\})$/;

export const OF_PROCESS: LookUp = (name) => process.env[name];

/**
 * Returns the value with its variables replaced.
 * @throws ModeletError `config_invalid` for a variable that is not set.
 */
export function withVariables(property: string, value: unknown, lookUp: LookUp): unknown {
  if (typeof value === 'string') return textWithVariables(property, value, lookUp);
  if (Array.isArray(value)) return value.map((part) => withVariables(property, part, lookUp));
  if (value === null || typeof value !== 'object') return value;
  // Built from entries because a key may be `__proto__`.
  return Object.fromEntries(
    Object.entries(value).map(([key, part]) => [key, withVariables(property, part, lookUp)] as const),
  );
}

function textWithVariables(property: string, text: string, lookUp: LookUp): unknown {
  const escaped = ESCAPED.exec(text)?.[1];
  if (escaped !== undefined) return escaped;
  const name = REFERENCE.exec(text)?.[1];
  if (name === undefined) return text;
  const found = lookUp(name);
  if (found !== undefined) return found;
  throw invalid(`${property}: the environment variable ${name} is not set; "$\${${name}}" is the text itself`);
}
