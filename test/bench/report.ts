/** The results of a part of the benchmark, and their form: Markdown tables, ready for the docs. */

export interface Table {
  readonly title: string;
  readonly columns: readonly string[];
  readonly rows: readonly (readonly string[])[];
  /** Facts that a reader needs to read the figures right. */
  readonly notes?: readonly string[];
}

export interface Budget {
  readonly what: string;
  readonly target: string;
  readonly measured: string;
  /** Null: this run does not measure it. */
  readonly met: boolean | null;
  /** Whether `--gate` fails for it: ratios within one run and CPU per item do, times of a noisy machine do not. */
  readonly gates: boolean;
}

export interface PartResult {
  readonly tables: readonly Table[];
  readonly budgets: readonly Budget[];
}

export interface Part {
  readonly letter: string;
  readonly title: string;
  run(scale: Scale): Promise<PartResult>;
}

/** How long to measure. */
export interface Scale {
  readonly rounds: number;
  /** Duration of one subject's load in one round, for throughput and CPU. */
  readonly seconds: number;
}

/** A figure and its budget. `gates` as in `Budget`. */
export interface Measured {
  readonly what: string;
  readonly value: number;
  readonly limit: number;
  readonly unit: string;
  readonly gates: boolean;
  /** The text before the figures in the target, if the bound is not plain. */
  readonly target?: string;
}

export function atMost(measured: Measured): Budget {
  return budget(measured, '<=', measured.value <= measured.limit);
}

export function atLeast(measured: Measured): Budget {
  return budget(measured, '>=', measured.value >= measured.limit);
}

function budget({ what, value, limit, unit, gates, target }: Measured, sign: string, met: boolean): Budget {
  return { what, target: target ?? `${sign} ${limit}${unit}`, measured: `${figure(value)}${unit}`, met, gates };
}

/** Three digits that matter. */
export function figure(value: number): string {
  if (!Number.isFinite(value)) return '-';
  const size = Math.abs(value);
  if (size >= 100) return String(Math.round(value));
  return value.toFixed(size >= 10 ? 1 : size >= 0.995 ? 2 : 3);
}

export function ratio(value: number): string {
  return `${figure(value)}x`;
}

export function renderTable({ title, columns, rows, notes = [] }: Table): string {
  const widths = columns.map((column, index) => Math.max(column.length, ...rows.map((row) => row[index]?.length ?? 0)));
  const line = (cells: readonly string[]): string =>
    `| ${widths.map((width, index) => pad(cells[index] ?? '', width, index > 0)).join(' | ')} |`;
  const ruler = `|${widths.map((width, index) => `${'-'.repeat(width + 1)}${index > 0 ? ':' : '-'}`).join('|')}|`;
  const footnotes = notes.length > 0 ? ['', ...notes] : [];
  return [`### ${title}`, '', line(columns), ruler, ...rows.map(line), ...footnotes, ''].join('\n');
}

function pad(text: string, width: number, right: boolean): string {
  return right ? text.padStart(width) : text.padEnd(width);
}

export function budgetTable(budgets: readonly Budget[]): Table {
  const verdict = ({ met }: Budget): string => (met === null ? 'not run' : met ? 'met' : 'MISSED');
  return {
    title: 'Budgets',
    columns: ['budget', 'target', 'measured', 'met / missed'],
    rows: budgets.map((entry) => [entry.what, entry.target, entry.measured, verdict(entry)]),
  };
}
