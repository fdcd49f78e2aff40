/** Writes the findings of a soak run as tables, and judges them. */

export interface Tally {
  sent: number;
  readonly codes: Map<string, number>;
  /** Results that belong to another request. */
  wrong: number;
  /** Milliseconds, of results. */
  readonly latencies: number[];
  readonly faults: Map<string, number>;
}

/** Resident memory in MB; of the workers the mean; 0 where there was none. */
export interface Sample {
  readonly minutes: number;
  readonly nodeRed: number;
  readonly engine: number;
  readonly workers: number;
}

export interface SoakResult {
  readonly tally: Tally;
  readonly samples: readonly Sample[];
  /** Requests that the runtime says it has settled. */
  readonly settled: number;
  readonly minutes: number;
}

/** Ends of a request that are no answer. */
const LOST = ['connection lost', 'no answer'];
const PROCESSES = { nodeRed: 'Node-RED', engine: 'engine', workers: 'a worker' } as const;
const MOST_MB_A_MINUTE = 1;
/** A shorter run is all warm-up. */
const SHORTEST_JUDGED_MINUTES = 5;
/** Share of the run that is not counted. */
const WARM_UP = 0.3;

/** In Markdown. */
export function report(result: SoakResult): string {
  const { tally, samples } = result;
  const sorted = tally.latencies.toSorted((a, b) => a - b);
  const count = (what: string, value: number): string => `| ${what} | ${value} |`;
  return [
    '| requests | |',
    '|---|--:|',
    count('sent', tally.sent),
    ...[...tally.codes].map(([code, times]) => count(described(code), times)),
    count('lost, all in all', lost(result)),
    count('duplicated', duplicated(result)),
    count("answered with another's result", tally.wrong),
    count('p50, ms', quantile(sorted, 0.5)),
    count('p99, ms', quantile(sorted, 0.99)),
    '',
    '| fault | times |',
    '|---|--:|',
    ...[...tally.faults].map(([name, times]) => count(name, times)),
    '',
    '| resident memory, MB | start | end | slope a minute |',
    '|---|--:|--:|--:|',
    ...keys().map((key) => {
      const values = present(samples, key);
      const [first, last] = [values[0], values.at(-1)];
      return `| ${PROCESSES[key]} | ${round(first?.mb)} | ${round(last?.mb)} | ${round(slope(warm(values)))} |`;
    }),
    '',
  ].join('\n');
}

/** The findings that are not good enough, in words. */
export function verdict(result: SoakResult): string[] {
  const failures: string[] = [];
  if (lost(result) > 0) failures.push('requests were lost');
  if (duplicated(result) > 0) failures.push('requests were answered twice');
  if (result.tally.wrong > 0) failures.push("requests got another's result");
  if (result.minutes < SHORTEST_JUDGED_MINUTES) return failures;
  for (const key of keys()) {
    if (slope(warm(present(result.samples, key))) >= MOST_MB_A_MINUTE) failures.push(`${PROCESSES[key]} grows`);
  }
  return failures;
}

function described(code: string): string {
  if (code === 'ok') return 'answered with their result';
  return LOST.includes(code) ? `lost: ${code}` : `answered with \`${code}\``;
}

function lost({ tally }: SoakResult): number {
  return LOST.reduce((sum, code) => sum + (tally.codes.get(code) ?? 0), 0);
}

/** A request that settles twice is counted twice. */
function duplicated({ tally, settled }: SoakResult): number {
  return Math.max(0, settled - tally.sent);
}

interface Point {
  readonly minutes: number;
  readonly mb: number;
}

function keys(): (keyof typeof PROCESSES)[] {
  return Object.keys(PROCESSES) as (keyof typeof PROCESSES)[];
}

function present(samples: readonly Sample[], key: keyof typeof PROCESSES): Point[] {
  return samples.map((sample) => ({ minutes: sample.minutes, mb: sample[key] })).filter(({ mb }) => mb > 0);
}

function warm(points: readonly Point[]): readonly Point[] {
  return points.slice(Math.floor(points.length * WARM_UP));
}

/** Slope of the least-squares line through the points. */
function slope(points: readonly Point[]): number {
  const average = (read: (point: Point) => number): number =>
    points.reduce((sum, point) => sum + read(point), 0) / Math.max(1, points.length);
  const [minutes, mb] = [average((point) => point.minutes), average((point) => point.mb)];
  const spread = points.reduce((sum, point) => sum + (point.minutes - minutes) ** 2, 0);
  const common = points.reduce((sum, point) => sum + (point.minutes - minutes) * (point.mb - mb), 0);
  return spread === 0 ? 0 : common / spread;
}

function quantile(sorted: readonly number[], share: number): number {
  return round(sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))]);
}

function round(value: number | undefined): number {
  return Math.round((value ?? 0) * 100) / 100;
}
