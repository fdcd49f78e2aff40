/**
 * Which timings of a request were taken at the same time. Timings stand in a row; where branches ran, those of each branch
 * stand together, and the branches one after the other.
 */
import type { StageTiming } from '../model.ts';
import type { GatherReport } from './gather.ts';

type TimedGathering = GatherReport['gathered'][number];
type Duration = Pick<StageTiming, 'waitMs' | 'batchMs' | 'runMs'>;

export interface Layout {
  /** Start of each timing, in ms since the first. */
  readonly starts: readonly number[];
  /** Time that all of them took, in ms. */
  readonly totalMs: number;
  /** Places of the timings that add up to the total: of branches, those of the longest. */
  readonly critical: ReadonlySet<number>;
}

/** @param gathered the gatherings of the request, inner ones before the ones around them; null: none */
export function layOut(timings: readonly Duration[], gathered: readonly TimedGathering[] | null): Layout {
  const starts: number[] = [];
  /** Lays out the timings of a part. Returns its length, and the places that add up to it. */
  const lay = (from: number, to: number, start: number, within: readonly TimedGathering[]): [number, number[]] => {
    const critical: number[] = [];
    let at = start;
    for (let place = from; place < to; ) {
      // The outermost gathering is the last.
      const outer = within.findLastIndex((one) => firstOf(one) === place && one.passed > place && one.passed <= to);
      const gathering = within[outer];
      if (!gathering) {
        starts[place] = at;
        critical.push(place);
        at += durationOf(timings[place]);
        place += 1;
        continue;
      }
      const inner = within.slice(0, outer);
      const [length, places] = longest(gathering, (first, end) => lay(first, end, at, inner));
      critical.push(...places);
      at += length;
      place = gathering.passed;
    }
    return [at - start, critical];
  };
  const [totalMs, critical] = lay(0, timings.length, 0, gathered ?? []);
  return { starts, totalMs, critical: new Set(critical) };
}

function longest(
  { branches, passed }: TimedGathering,
  lay: (from: number, to: number) => [number, number[]],
): [number, number[]] {
  let from = passed - sum(branches);
  let found: [number, number[]] = [0, []];
  for (const count of branches) {
    const laid = lay(from, from + count);
    if (laid[0] >= found[0]) found = laid;
    from += count;
  }
  return found;
}

function firstOf({ branches, passed }: TimedGathering): number {
  return passed - sum(branches);
}

function durationOf(timing: Duration | undefined): number {
  return timing ? timing.waitMs + timing.batchMs + timing.runMs : 0;
}

function sum(counts: readonly number[]): number {
  return counts.reduce((total, count) => total + count, 0);
}
