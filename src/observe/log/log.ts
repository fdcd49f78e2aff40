/**
 * The log of one runtime: records of the engine, its workers and the server go in, those of the runtime's level
 * and above come out, as data. Nothing here writes lines: the sink does.
 */
import { type Logger, pino } from 'pino';
import type { LogLevel, LogRecord } from '../../core/model.ts';

/** A record as pino writes it. */
type PinoLine = LogRecord & { readonly runtime: string };

export class Log {
  readonly #logger: Logger;

  /**
   * @param runtime its name, a field of each record
   * @param level the least important level that reaches `sink`
   */
  constructor(runtime: string, level: LogLevel, sink: (record: LogRecord) => void) {
    this.#logger = pino(
      {
        level,
        base: { runtime },
        timestamp: false,
        messageKey: 'message',
        // What a record says of itself cannot be mistaken for its level, message, stage or worker.
        nestedKey: 'fields',
        formatters: { level: (label) => ({ level: label }) },
      },
      {
        write: (line: string) => {
          const { runtime: bound, fields, ...record } = JSON.parse(line) as PinoLine;
          sink({ ...record, fields: { runtime: bound, ...fields } });
        },
      },
    );
  }

  write({ level, message, stage, worker, fields = {} }: LogRecord): void {
    if (!this.#logger.isLevelEnabled(level)) return;
    this.#logger.child({ stage, worker })[level](fields, message);
  }
}
