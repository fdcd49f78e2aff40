/** Each gather settles exactly once, however results, failures, deadlines and departures interleave. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { ModeletError } from '../../src/core/errors.ts';
import { type GatherTerms, neededOf } from '../../src/core/routes/gather.ts';
import { type Gathered, Gathers } from '../../src/runtime/desk/gathers.ts';
import { FakeClock } from '../fixtures/fake-clock.ts';

const NAMES = ['a', 'b', 'c', 'd'];
const FAILED = new ModeletError('modelet_failed', 'a bug');
const TIMEOUT_MS = 100;

const terms: fc.Arbitrary<GatherTerms> = fc
  .record({
    mode: fc.constantFrom('all' as const, 'first' as const, 'quorum' as const),
    partial: fc.constantFrom('error' as const, 'keep' as const),
    total: fc.integer({ min: 1, max: NAMES.length }),
    quorum: fc.nat({ max: NAMES.length }),
  })
  .map((drawn) => ({ ...drawn, quorum: Math.min(drawn.quorum, drawn.total), names: NAMES.slice(0, drawn.total) }));

type Step =
  | { readonly do: 'result' | 'failure'; readonly gather: number; readonly branch: number }
  | { readonly do: 'advance'; readonly ms: number }
  | { readonly do: 'drop'; readonly gather: number }
  | { readonly do: 'failAll' };

const gather = fc.nat({ max: 3 });
const branch = fc.nat({ max: NAMES.length - 1 });
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 6, arbitrary: fc.record({ do: fc.constantFrom('result' as const, 'failure' as const), gather, branch }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('advance' as const), ms: fc.nat({ max: TIMEOUT_MS }) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('drop' as const), gather }) },
  { weight: 1, arbitrary: fc.constant({ do: 'failAll' as const }) },
);

interface Ends {
  readonly settled: Map<string, Gathered<number>>;
  readonly opened: Set<string>;
  readonly dropped: Set<string>;
  taken: number;
  turnedAway: number;
}

function run(gathers: Gathers<number>, clock: FakeClock, agreed: GatherTerms, steps: readonly Step[]): Ends {
  const ends: Ends = { settled: new Map(), opened: new Set(), dropped: new Set(), taken: 0, turnedAway: 0 };
  for (const [at, one] of steps.entries()) {
    if (one.do === 'advance') clock.advance(one.ms);
    else if (one.do === 'failAll') gathers.failAll(FAILED);
    else if (one.do === 'drop') {
      const id = String(one.gather);
      if (gathers.isPending(id)) ends.dropped.add(id);
      gathers.drop(id);
    } else {
      const id = String(one.gather);
      if (!gathers.has(id)) {
        ends.opened.add(id);
        gathers.open(id, agreed, clock.now() + TIMEOUT_MS, (gathered) => {
          assert.ok(!ends.settled.has(id), 'a gather settles once');
          assert.ok(!gathers.isPending(id), 'and waits no more when it does');
          ends.settled.set(id, gathered);
        });
      }
      const name = NAMES[one.branch % agreed.total] as string;
      const place = gathers.add(id, { name, message: at, error: one.do === 'failure' ? FAILED : null });
      if (place === 'taken') ends.taken += 1;
      else ends.turnedAway += 1;
    }
  }
  return ends;
}

test('every gather settles once or is dropped, and none is kept', () => {
  fc.assert(
    fc.property(terms, fc.array(step, { maxLength: 60 }), (agreed, steps) => {
      const clock = new FakeClock();
      const gathers = new Gathers<number>(clock);
      const ends = run(gathers, clock, agreed, steps);
      clock.advance(TIMEOUT_MS);
      const { pending, late, duplicates } = gathers.counts;
      assert.equal(pending, 0, 'no gather outlives its time');
      assert.equal(clock.pending, 0, 'nor does its timer');
      assert.equal(late + duplicates, ends.turnedAway);
      assert.equal(ends.settled.size + ends.dropped.size, ends.opened.size);
      for (const { branches, error, missing } of ends.settled.values()) {
        const results = branches.filter((each) => !each.error).length;
        assert.equal(new Set(branches.map(({ name }) => name)).size, branches.length, 'a branch counts once');
        if (error) assert.ok(results < neededOf(agreed));
        else assert.ok(agreed.partial === 'keep' ? results > 0 : results >= neededOf(agreed));
        for (const name of missing) assert.ok(!branches.some((each) => each.name === name));
      }
    }),
  );
});

test('an error names the branch, its code and the branches that did not come', () => {
  const clock = new FakeClock();
  const gathers = new Gathers<number>(clock);
  const all: GatherTerms = { mode: 'all', quorum: 0, partial: 'error', total: 2, names: ['a', 'b'] };
  const errors: string[] = [];
  const note = ({ error }: Gathered<number>): void => void errors.push(`${error?.code}: ${error?.message}`);
  gathers.open('fails', all, Number.POSITIVE_INFINITY, note);
  gathers.add('fails', { name: 'b', message: 1, error: FAILED });
  gathers.open('expires', all, clock.now() + TIMEOUT_MS, note);
  gathers.add('expires', { name: 'a', message: 2, error: null });
  clock.advance(TIMEOUT_MS);
  assert.deepEqual(errors, [
    'modelet_failed: branch b: a bug',
    'deadline_exceeded: 1 of 2 results came in time; missing: b',
  ]);
});
