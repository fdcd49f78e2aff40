/**
 * Reads one metric from the text that Prometheus scrapes, in the Prometheus format and in OpenMetrics.
 *
 * Skips lines of other metrics without parsing them. Lines of the requested metric must be valid in every character.
 */
import { isDecimal } from '../../core/text.ts';

export interface Series {
  readonly labels: ReadonlyMap<string, string>;
  readonly value: number;
  /** The sample's own timestamp as written: ms since 1970, in OpenMetrics seconds. Most samples have none. */
  readonly time: number | undefined;
}

const LABEL = /\s*([a-zA-Z_][a-zA-Z0-9_]*)\s*=\s*"((?:[^"\\]|\\[\\"n])*)"\s*(?:,|(?=\}))/y;
const END_OF_LABELS = /\s*\}/y;
const INFINITY = /^[+-]?inf(?:inity)?$/i;

/** Returns all series of one metric. @throws Error that names the line. */
export function readSeries(text: string, metric: string): Series[] {
  const found: Series[] = [];
  for (let start = 0, line = 1; start < text.length; line += 1) {
    const newline = text.indexOf('\n', start);
    const end = newline < 0 ? text.length : newline;
    if (text.startsWith(metric, start)) {
      // Any other character continues the name: the line belongs to another metric.
      const rest = text.slice(start + metric.length, end);
      if (/^[\s{]/.test(rest)) found.push(readLine(rest.trim(), line));
    }
    start = end + 1;
  }
  return found;
}

function readLine(text: string, line: number): Series {
  try {
    const { labels, end } = text.startsWith('{') ? readLabels(text) : { labels: new Map<string, string>(), end: 0 };
    // The text after a hash is an exemplar, not part of the value.
    const [number = '', time, ...more] = (text.slice(end).split(' # ')[0] ?? '').trim().split(/\s+/);
    if (more.length > 0) throw new Error('the line has more than a value and a time');
    return { labels, value: readValue(number), time: time === undefined ? undefined : readTime(time) };
  } catch (error) {
    throw new Error(`line ${line} is not Prometheus text: ${(error as Error).message}`);
  }
}

function readLabels(text: string): { labels: Map<string, string>; end: number } {
  const labels = new Map<string, string>();
  for (let at = 1; ; at = LABEL.lastIndex) {
    END_OF_LABELS.lastIndex = at;
    if (END_OF_LABELS.test(text)) return { labels, end: END_OF_LABELS.lastIndex };
    LABEL.lastIndex = at;
    const [, name = '', value = ''] = LABEL.exec(text) ?? [];
    if (name === '') throw new Error('a label is malformed');
    if (labels.has(name)) throw new Error(`label ${name} appears twice`);
    labels.set(name, unescaped(value));
  }
}

function unescaped(value: string): string {
  return value.replace(/\\(.)/g, (_, escaped: string) => (escaped === 'n' ? '\n' : escaped));
}

function readValue(text: string): number {
  if (isDecimal(text)) return Number(text);
  if (INFINITY.test(text)) return text.startsWith('-') ? Number.NEGATIVE_INFINITY : Number.POSITIVE_INFINITY;
  if (/^nan$/i.test(text)) return Number.NaN;
  throw new Error('the value is not a number');
}

function readTime(text: string): number {
  if (isDecimal(text)) return Number(text);
  throw new Error('the time is not a number');
}
