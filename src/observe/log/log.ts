/**
 * The log of a process: pino with one destination. Each runtime and each gate logs through a child of it, with
 * its own bindings, and a runtime with its own level. No secret reaches the destination.
 */
import { type DestinationStream, type LogFn, type Logger, levels, destination as openDestination, pino } from 'pino';
import type { LogLevel, LogRecord, LogValue } from '../../core/model.ts';

/** Takes the lines of a log. */
export type LogDestination = DestinationStream;

/** The node that a log belongs to: its id, and the name shown to users. */
export type LogOwner =
  | { readonly id: string; readonly runtime: string }
  | { readonly id: string; readonly gate: string };

/** A record as data: with the owner of the log that it was written to. */
export type OwnedRecord = LogRecord & { readonly owner: LogOwner };

export class Log {
  readonly #logger: Logger;

  private constructor(logger: Logger) {
    this.#logger = logger;
  }

  /** Creates the log of a process. */
  static to(destination: LogDestination): Log {
    const logger = pino(
      {
        // Each runtime sets its own level.
        level: 'trace',
        base: null,
        timestamp: pino.stdTimeFunctions.isoTime,
        messageKey: 'message',
        // Nested, so that a record's own fields cannot overwrite its level, message, stage or worker.
        nestedKey: 'fields',
        formatters: { level: (label) => ({ level: label }) },
        hooks: { logMethod: logWithoutSecrets },
      },
      destination,
    );
    return new Log(logger);
  }

  /**
   * Returns the log of one runtime or gate.
   * @param level the least important level that reaches the destination
   */
  of(owner: LogOwner, level: LogLevel = 'trace'): Log {
    return new Log(this.#logger.child(owner, { level }));
  }

  write({ level, message, stage, worker, fields = {} }: LogRecord): void {
    if (!this.#logger.isLevelEnabled(level)) return;
    this.#logger.child({ stage, worker })[level](fields, message);
  }
}

/**
 * Returns a destination that writes JSON, one record a line, and loses no line when the process exits.
 * @param file a path, or the number of an open file; 1 is the standard output
 */
export function jsonLines(file: string | number): LogDestination {
  return openDestination({ dest: file, sync: true });
}

/** Returns a destination that passes records on as data. It ignores the lines, so nothing has to parse them. */
export function recordsTo(take: (record: OwnedRecord) => void): LogDestination {
  const destination = {
    // Makes pino set the properties below before it writes a line.
    [Symbol.for('pino.metadata')]: true,
    lastLevel: 0,
    lastMsg: '',
    lastObj: {} as NonNullable<LogRecord['fields']>,
    lastLogger: undefined as Logger | undefined,
    write(): void {
      const { lastLevel, lastMsg: message, lastObj: fields, lastLogger } = destination;
      const { stage, worker, ...owner } = (lastLogger as Logger).bindings() as LogOwner &
        Pick<LogRecord, 'stage' | 'worker'>;
      take({
        level: levels.labels[lastLevel] as LogLevel,
        message,
        ...(stage === undefined ? {} : { stage }),
        ...(worker === undefined ? {} : { worker }),
        fields,
        owner,
      });
    },
  };
  return destination;
}

/** Redacts before pino writes anything, so that every destination gets the same. */
function logWithoutSecrets(this: Logger, [fields, message]: Parameters<LogFn>, method: LogFn): void {
  method.apply(this, [withoutSecrets(fields as unknown as LogValue), withoutSecrets(message ?? '')]);
}

const REDACTED = '[Redacted]';
/** Matches names of fields whose values are secret. A modelet or a library may print any of them. */
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
