/**
 * The log of one runtime: takes records of the engine, its workers and the server, and passes those of the runtime's
 * level and above to a sink, as data. Only the sink writes lines.
 */
import { type Logger, pino } from 'pino';
import type { LogLevel, LogRecord } from '../../core/model.ts';

/** A record as pino writes it. */
type PinoLine = LogRecord & { readonly runtime: string };

export class Log {
  readonly #logger: Logger;

  /**
   * @param runtime the runtime's name, a field of each record
   * @param level the least important level that reaches `sink`
   */
  constructor(runtime: string, level: LogLevel, sink: (record: LogRecord) => void) {
    this.#logger = pino(
      {
        level,
        base: { runtime },
        timestamp: false,
        messageKey: 'message',
        // Nested, so that a record's own fields cannot overwrite its level, message, stage or worker.
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
