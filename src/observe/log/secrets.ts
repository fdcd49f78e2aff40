/**
 * Removes secrets from what is logged: values of fields whose name tells that they are secret, the password in a URL,
 * and the credentials of an Authorization header. A modelet or a library may print any of them.
 */
import type { LogValue } from '../../core/model.ts';

const REDACTED = '[Redacted]';
const SECRET_NAME = /(?:authorization|cookie|passphrase|password|secret|token|api[_-]?key)$/i;
/** Matches `://user:password@`. A slash ends a match, so each stretch of text is read once. */
const URL_PASSWORD = /(:\/\/[^\s/@:]*:)[^\s/]+@/g;
const AUTHORIZATION = /\b(authorization["']?[:=] ?["']?(?:basic|bearer) )[^\s"',;]+/gi;

/** Returns a text, or the fields of a record, with each secret replaced. */
export function withoutSecrets<Value extends LogValue>(value: Value): Value {
  return redacted(value) as Value;
}

function redacted(value: LogValue): LogValue {
  if (typeof value === 'string') {
    return value.replace(URL_PASSWORD, `$1${REDACTED}@`).replace(AUTHORIZATION, `$1${REDACTED}`);
  }
  if (value === null || typeof value !== 'object') return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, inner]) => [
      name,
      SECRET_NAME.test(name) && inner !== null ? REDACTED : redacted(inner),
    ]),
  );
}
