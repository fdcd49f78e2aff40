/** The state of a stage in a few words, the same on its badge, in the sidebar and in the documentation. Pure. */
import { duration } from '../../core/figures.ts';
import { timesOf } from './interval.ts';
import type { RuntimeSnapshot, StageSnapshot } from './snapshot.ts';
import { overdueOf } from './why.ts';

/** Characters in a badge: about 280 px in the canvas's font. A stage that serves has at most 30 or so. */
export const LONGEST_BADGE = 44;
/** Characters read of a message. Longer messages quote a client or a modelet. */
const READ_AT_MOST = 300;

/** Parts of a message that a badge says in fewer characters, or not at all. */
const SHORTER: readonly (readonly [part: RegExp, instead: string])[] = [
  // `SyntaxError: `: the words after it say more. After `KeyError: ` comes the key alone.
  [/^(?!KeyError: )\w*(?:Error|Exception): /, ''],
  // The stage's own name before a place in its code: `scale: Predict:2: `.
  [/^[^:]*: (?=(?:On |)[^\s:]+:\d+: )/, ''],
  [/^Predict:(\d+): /, 'line $1: '],
  // A syntax error in a Python file.
  [/^([^(]*) \([^(),]*, (line \d+)\)$/, '$2: $1'],
  [/^was not ready within \d+ ms \(Start timeout\): (\S+ (?:ms|s|min) so far).*/, 'Start timeout, $1'],
  [/ \((?:from|allowed)[^()]*\)/g, ''],
  // The folders of an absolute path or a file's URL.
  [/(?:file:\/\/|(?<![\w.])[A-Za-z]:\\|(?<![\w.:/\\])\/)[^\s'"]*[/\\](?=[^\s'"/\\])/g, ''],
  [/the environment variable (\w+)/, '$${$1}'],
];

/** `ready`: all workers serve. `partly`: some do. `startup`: none yet. `error`: none, because something is wrong. */
export type StageHealth = 'ready' | 'partly' | 'startup' | 'error';

/** How long a badge tells why the number of workers has changed, in ms. */
export const NEWS_MS = 10_000;
/** A start is told its time after this long, in ms. */
const LONG_START_MS = 5000;

export interface StageWords {
  readonly health: StageHealth;
  /** For a badge: at most `LONGEST_BADGE` characters. */
  readonly text: string;
  /** The same with the whole of what the badge cuts. */
  readonly whole: string;
}

type EngineSummary = Pick<RuntimeSnapshot['engine'], 'state' | 'error'>;
type Runtime = Pick<RuntimeSnapshot, 'refuses'> & { readonly engine: EngineSummary };
type StageSummary = Pick<
  StageSnapshot,
  'busy' | 'concurrency' | 'ready' | 'queue' | 'workers' | 'circuit' | 'doesNotStart' | 'successorError' | 'pinWarnings'
> &
  Partial<Pick<StageSnapshot, 'versions' | 'batchWarning' | 'instead' | 'runsMs' | 'reading' | 'scaling' | 'renewing'>>;

type BatchedStage = Pick<StageSnapshot, 'queue' | 'meanBatchSize' | 'batching'>;

/** @param busy number of places that count as busy, if not those that run a batch at this moment */
export function stageWords(stage: StageSummary, { refuses, engine }: Runtime, busy: number = stage.busy): StageWords {
  const { ready, workers, queue, circuit, successorError, scaling } = stage;
  if (refuses !== null) return said('error', 'refuses all', refuses);
  if (scaling?.wanted === 0 && engine.state === 'ready')
    return successorError === null ? said('ready', 'asleep') : said('ready', 'new code fails', successorError);
  if (ready === 0 || circuit === 'open') return notServing(stage, engine);
  const health = ready === workers.length && overdueOf(workers) === 0 && !longRunOf(stage) ? 'ready' : 'partly';
  // If deployed code does not start, older code continues to serve. That must not look like success.
  if (successorError !== null) return said(health, 'new code fails', successorError);
  if (stage.renewing) return said(health, 'new code starts, old code answers');
  const rolledBack = stage.versions?.find(({ cause }) => cause === 'failures');
  if (rolledBack) return said(health, `rolled back ${rolledBack.name}, ${serving(stage, busy)}`);
  const notPinned = stage.pinWarnings.length > 0 ? ', not pinned' : '';
  const slower = stage.instead === undefined ? '' : ', as WebAssembly';
  const text = `${serving(stage, busy)}${waiting(queue)}${notPinned}${batches(stage)}${slower}`;
  return { health, text, whole: text };
}

function serving(stage: StageSummary, busy: number): string {
  const { ready, workers, concurrency, scaling = null } = stage;
  const { length: all } = workers;
  const { min, max, change } = scaling ?? { change: null };
  if (change && change.agoMs < NEWS_MS) return change.reason;
  const range = scaling ? ` of ${min}-${max}` : '';
  if (ready < all) return `${ready} of ${all} ready`;
  if (busy === 0) return `idle, ${all}${range} ${all === 1 && !scaling ? 'worker' : 'workers'}`;
  const overdue = overdueOf(workers);
  const long = longRunOf(stage);
  const time = long ? `, one call for ${duration(long.ms)}` : '';
  return `${busy} of ${all * concurrency} busy${scaling ? `, ${all}${range} workers` : ''}${overdue > 0 ? `, ${overdue} overdue` : ''}${time}`;
}

function starting(workers: StageSummary['workers']): StageWords {
  const starts = workers.flatMap((worker) => worker.starting ?? []);
  const longest = starts.toSorted((a, b) => b.ms - a.ms)[0];
  if (!longest) return said('startup', 'starting');
  const far = longest.progress === null ? 'starting' : `starting: ${longest.progress}`;
  const time = longest.ms < LONG_START_MS ? '' : `, ${Math.round(longest.ms / 1000)} s so far`;
  return { health: 'startup', text: `${headline(far, LONGEST_BADGE - time.length)}${time}`, whole: `${far}${time}` };
}

function batches({ batchWarning }: StageSummary): string {
  if (!batchWarning) return '';
  return batchWarning.items === 'singly' ? ', one by one' : ', results mix';
}

/** @returns `, 14 wait`; nothing if no item waits */
export function waiting(count: number): string {
  if (count === 0) return '';
  return count === 1 ? ', 1 waits' : `, ${count} wait`;
}

function notServing({ workers, circuit, doesNotStart }: StageSummary, engine: EngineSummary): StageWords {
  const failed = workers.find(({ error }) => error !== null);
  const cause = failed?.error ?? engine.error;
  if (cause === null && circuit !== 'open' && engine.state !== 'error') return starting(workers);
  if (!failed && engine.error !== null) return said('error', 'no engine', engine.error);
  if (doesNotStart) return said('error', 'does not start', cause);
  if (circuit !== 'closed') return said('error', 'workers die', cause);
  return said('error', cause ?? 'no worker is ready');
}

function said(health: StageHealth, what: string, cause: string | null = null): StageWords {
  if (cause === null) return { health, text: headline(what), whole: what };
  const text = `${what}: ${headline(cause, LONGEST_BADGE - what.length - 2)}`;
  return { health, text, whole: `${what}: ${cause}` };
}

/** @returns the words for a batcher: the mean size of the latest batches of the stage behind it, and how many items wait */
export function batcherWords({ queue, meanBatchSize, batching }: BatchedStage): string {
  const size = Math.round(meanBatchSize * 10) / 10;
  const batches = meanBatchSize === 0 ? `no batch yet, up to ${batching.maxBatchSize}` : `batches of ${size}`;
  return `${batches}${waiting(queue)}`;
}

/**
 * Shortens a message for a badge: as many whole clauses of its first line as fit; if they fill at most half, the line's
 * beginning. The canvas does not cut text: a text that is longer than a node and the gap behind it covers the next node's
 * badge. The log, the sidebar and the dialog show the whole message.
 */
export function headline(message: string, longest: number = LONGEST_BADGE): string {
  const [line = ''] = message.slice(0, READ_AT_MOST).split('\n', 1);
  const short = SHORTER.reduce((rest, [part, instead]) => rest.replace(part, instead), line);
  if (short.length <= longest) return short;
  const ends = [...short.matchAll(/[;:,] /g)].map(({ index }) => index);
  const clauses = ends.findLast((end) => end <= longest) ?? 0;
  return clauses > longest / 2 ? short.slice(0, clauses) : `${short.slice(0, longest - 1).trimEnd()}\u2026`;
}

/** A run that is worth a word takes at least this long, in ms, ... */
const LONG_RUN_MS = 10_000;
/** ... and so many times as long as the mean of the runs before it. */
const LONGER = 10;

/** A call that runs for far longer than usual, or past the time limit of its requests. */
export interface LongRun {
  readonly ms: number;
  /** Mean time of the runs so far, in ms; null if none has ended. */
  readonly usualMs: number | null;
}

type RunningStage = Pick<StageSnapshot, 'workers'> & Partial<Pick<StageSnapshot, 'runsMs' | 'reading'>>;

/** Looks at the oldest batch that runs. */
export function longRunOf({ runsMs = null, reading, workers }: RunningStage): LongRun | null {
  if (runsMs === null) return null;
  const usualMs = (reading && timesOf(reading)?.runMs) ?? null;
  const isLong = runsMs >= LONG_RUN_MS && runsMs >= LONGER * (usualMs ?? 0);
  return isLong || overdueOf(workers) > 0 ? { ms: runsMs, usualMs } : null;
}

/** The oldest run of an old worker, see `StageSnapshot.retired`. */
export interface OldRun {
  readonly runsMs: number;
  readonly overdue: number;
}

/** @returns the first old worker that does not end soon by itself; undefined if all do */
export function lingering(retired: readonly OldRun[]): OldRun | undefined {
  return retired.find(({ runsMs, overdue }) => overdue > 0 || runsMs > LONG_RUN_MS);
}
