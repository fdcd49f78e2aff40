/**
 * Reads the rows of a CSV text piece by piece, as RFC 4180 and spreadsheets write it: the first row names the columns;
 * values in quotes may have delimiters, ends of lines and doubled quotes. Finds the delimiter in the first row.
 */
import { ModeletError } from '../../core/errors.ts';
import { counted } from '../../core/figures.ts';

interface CsvValue {
  readonly text: string;
  readonly isQuoted: boolean;
}

/**
 * Place of the reader in a value. `quote`: behind a quote in a quoted value, which is its end or the first of two.
 */
type QuoteState = 'start' | 'plain' | 'quoted' | 'quote';

const DELIMITERS = [',', ';', '\t', '|'] as const;
/** Most characters in which the delimiter is looked for. */
const SHOWN = 1 << 16;
/** Longest row, in characters: a quote that is never closed would take all of the file into one value. */
export const LONGEST_ROW: number = 1 << 24;
/** As in the core csv node. Leading zeros are part of a name or code, such as a postal code. */
const NUMBER = /^-?(?!0\d)(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?$/i;

/**
 * Yields an object for each row, or an error `bad_request` for a row that has other than one value per column. Blank
 * lines are skipped. Without quotes, numbers become numbers, and nothing becomes null.
 * @throws ModeletError `bad_request` if a row is longer than `LONGEST_ROW`
 */
export async function* csvRows(input: AsyncIterable<string | Buffer>): AsyncGenerator<unknown> {
  const table = new CsvTable();
  for await (const chunk of input) yield* table.read(`${chunk}`);
  yield* table.end();
}

/** The same for a text that is there as a whole. An error that ends the table stands behind the rows before it. */
export function csvRowsOf(text: string): unknown[] {
  const table = new CsvTable();
  const rows: unknown[] = [];
  try {
    for (const row of table.read(text)) rows.push(row);
    for (const row of table.end()) rows.push(row);
  } catch (thrown) {
    rows.push(thrown);
  }
  return rows;
}

class CsvTable {
  #reader: RowReader | null = null;
  #names: readonly string[] | null = null;
  /** The received part of the first row, whose delimiter is not known yet. */
  #first = '';

  *read(chunk: string): Generator<unknown> {
    let text = `${this.#first}${chunk}`;
    // The mark at the start of a file that Windows writes.
    if (this.#reader === null) text = text.replace(/^\uFEFF/, '');
    const isKnown = this.#reader !== null || /\n|\r./.test(text.trimStart()) || text.length >= SHOWN;
    this.#first = isKnown ? '' : text;
    if (isKnown) yield* this.#rows(text);
  }

  /** @throws ModeletError if the text ends in a value in quotes */
  *end(): Generator<unknown> {
    yield* this.#rows(this.#first);
    yield* this.#rows('\n');
    this.#reader?.end();
  }

  *#rows(text: string): Generator<unknown> {
    this.#reader ??= new RowReader(delimiterOf(text));
    for (const { values, line } of this.#reader.read(text)) {
      const names = this.#names;
      if (names === null) this.#names = namesOf(values);
      else if (values.length === names.length)
        yield Object.fromEntries(names.map((name, index) => [name, contentOf(values[index] as CsvValue)]));
      else {
        const found = `${counted(values.length, 'value')} for ${counted(names.length, 'column')}`;
        yield new ModeletError('bad_request', `line ${line}: ${found}`);
      }
    }
  }
}

/** Returns the delimiter that the first row has most often, outside of quotes. */
function delimiterOf(text: string): string {
  const start = text.slice(0, SHOWN).replace(/"(?:[^"]|"")*"/g, 'x');
  const row = start.split(/[\r\n]/).find((line) => line.trim() !== '') ?? '';
  const counts = DELIMITERS.map((delimiter) => row.split(delimiter).length);
  return DELIMITERS[counts.indexOf(Math.max(...counts))] as string;
}

class RowReader {
  readonly #delimiter: string;
  /** Finds the end of a plain value. */
  readonly #special: RegExp;
  #values: CsvValue[] = [];
  #text = '';
  #place: QuoteState = 'start';
  #isQuoted = false;
  #length = 0;
  #line = 1;
  #startedAt = 1;
  #followsReturn = false;

  constructor(delimiter: string) {
    this.#delimiter = delimiter;
    this.#special = new RegExp(`[${delimiter}\r\n]`, 'g');
  }

  *read(chunk: string): Generator<{ values: CsvValue[]; line: number }> {
    for (let at = 0; at < chunk.length; ) {
      const sign = chunk[at] as string;
      const isSecondOfEnd = sign === '\n' && this.#followsReturn;
      const isLineEnd = sign === '\r' || (sign === '\n' && !isSecondOfEnd);
      this.#followsReturn = sign === '\r';
      if (isLineEnd) this.#line += 1;
      if (this.#place !== 'quoted' && (isLineEnd || isSecondOfEnd)) {
        if (isLineEnd) yield* this.#endRow();
        at += 1;
      } else at = this.#readValue(chunk, at, sign);
    }
  }

  /** @throws ModeletError if the text ends in a value in quotes */
  end(): void {
    if (this.#place === 'quoted') throw this.#notClosed('the quotes of a value are not closed');
  }

  /** Returns where to read on. */
  #readValue(chunk: string, at: number, sign: string): number {
    if (this.#place === 'quoted') return this.#readQuoted(chunk, at);
    const isQuote = sign === '"';
    if (isQuote && this.#place === 'start') [this.#place, this.#isQuoted] = ['quoted', true];
    else if (isQuote && this.#place === 'quote') {
      this.#add(sign);
      this.#place = 'quoted';
    } else if (sign === this.#delimiter) this.#endValue();
    else return this.#readPlain(chunk, at);
    return at + 1;
  }

  #readPlain(chunk: string, at: number): number {
    this.#place = 'plain';
    this.#special.lastIndex = at;
    const end = this.#special.exec(chunk)?.index ?? chunk.length;
    this.#add(chunk.slice(at, end));
    return end;
  }

  /** Reads to the next quote, or to the next end of a line, which is counted. */
  #readQuoted(chunk: string, at: number): number {
    if (chunk[at] === '"') {
      this.#place = 'quote';
      return at + 1;
    }
    QUOTED_SPECIAL.lastIndex = at + 1;
    const end = QUOTED_SPECIAL.exec(chunk)?.index ?? chunk.length;
    this.#add(chunk.slice(at, end));
    return end;
  }

  #add(text: string): void {
    this.#text += text;
    this.#length += text.length;
    if (this.#length > LONGEST_ROW) throw this.#notClosed(`a row has more than ${LONGEST_ROW} characters`);
  }

  #endValue(): void {
    this.#values.push({ text: this.#text, isQuoted: this.#isQuoted });
    [this.#text, this.#isQuoted, this.#place] = ['', false, 'start'];
  }

  *#endRow(): Generator<{ values: CsvValue[]; line: number }> {
    this.#endValue();
    const row = { values: this.#values, line: this.#startedAt };
    [this.#values, this.#length, this.#startedAt] = [[], 0, this.#line];
    const [only] = row.values;
    const isBlank = row.values.length === 1 && only?.isQuoted === false && only.text.trim() === '';
    if (!isBlank) yield row;
  }

  #notClosed(what: string): ModeletError {
    return new ModeletError('bad_request', `line ${this.#startedAt}: ${what}`);
  }
}

const QUOTED_SPECIAL = /["\r\n]/g;

/** A column without a name gets its number, and a name that was there before gets a count. */
function namesOf(values: readonly CsvValue[]): string[] {
  const names = new Set<string>();
  const counts = new Map<string, number>();
  for (const [index, { text }] of values.entries()) {
    const name = text.trim() || `column ${index + 1}`;
    let count = counts.get(name) ?? 0;
    let unique: string;
    do {
      count += 1;
      unique = count === 1 ? name : `${name}_${count}`;
    } while (names.has(unique));
    counts.set(name, count);
    names.add(unique);
  }
  return [...names];
}

function contentOf({ text, isQuoted }: CsvValue): unknown {
  if (isQuoted) return text;
  const trimmed = text.trim();
  if (trimmed === '') return null;
  const number = Number(trimmed);
  // An integer with more digits than a number holds is a name.
  const isExact = Math.abs(number) <= Number.MAX_SAFE_INTEGER || !/^-?\d+$/.test(trimmed);
  return NUMBER.test(trimmed) && Number.isFinite(number) && isExact ? number : text;
}
