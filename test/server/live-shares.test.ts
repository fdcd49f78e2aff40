/** The live shares of versions as the server keeps them. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { EnginePlan } from '../../src/config/stage-definition.ts';
import type { StageVersion, VersionStatus } from '../../src/core/versions.ts';
import { LiveShares, type SavedShares } from '../../src/runtime/service/versions/live-shares.ts';
import { sharesKeptIn } from '../../src/runtime/service/versions/shares-file.ts';
import { stage } from '../engine/rig.ts';

const LIST: readonly StageVersion[] = [
  { stage: 'node-2', share: 50, mode: 'answer' },
  { stage: 'node-3', share: 10, mode: 'shadow' },
];

/** Stage 1 with the stages 2 and 3 as versions. */
function planOf(list: readonly StageVersion[] = LIST, revision = 'r1'): EnginePlan {
  const versions = { list, rollbackAbove: 20 };
  return { stages: [stage(1, { versions }), stage(2, { revision }), stage(3)], routes: [] };
}

/** A store, and what it has saved. */
class Memory {
  saved: readonly SavedShares[] = [];
  load(): readonly SavedShares[] {
    return this.saved;
  }
  save(all: readonly SavedShares[]): void {
    this.saved = all;
  }
}

/** The shares that a new engine begins with: `mode share cause` of each version. */
function present(shares: LiveShares, plan: EnginePlan): string[] | undefined {
  const [base] = shares.fill(plan).stages;
  return base?.versions?.present?.map(({ mode, share, cause }) => `${mode} ${share} ${cause}`);
}

function told(share: number, cause: VersionStatus['cause']): Parameters<LiveShares['note']>[1] {
  const rest = { available: true, failed: null };
  const versions = LIST.map(({ stage: id, ...drawn }, index) =>
    index === 0
      ? { stage: id, mode: drawn.mode, share, cause, drawn, ...rest }
      : { stage: id, ...drawn, drawn, ...rest },
  ).map((one) => ({ cause: 'drawn' as const, ...one }));
  return { stages: [{ ref: 1, versions }] } as unknown as Parameters<LiveShares['note']>[1];
}

test('actions change the shares as they change those of an engine', () => {
  const shares = new LiveShares();
  const plan = planOf();
  shares.deployed(plan);
  assert.equal(present(shares, plan), undefined);
  shares.act(plan, 3, 'promote');
  assert.deepEqual(present(shares, plan), ['answer 0 asked', 'answer 100 asked']);
  shares.act(plan, 3, 'rollback');
  assert.deepEqual(present(shares, plan), ['answer 0 asked', 'answer 0 asked']);
  shares.act(plan, 1, 'promote');
  assert.deepEqual(present(shares, plan), ['answer 0 asked', 'answer 0 asked'], 'stage 1 is no version');
  shares.act(plan, 2, 'restore');
  assert.equal(present(shares, plan), undefined);
});

test('an engine reports a roll-back, and the next process goes on with it until the code changes', () => {
  const memory = new Memory();
  const before = new LiveShares(memory);
  const plan = planOf();
  before.deployed(plan);
  before.note(plan, told(50, 'drawn'));
  assert.deepEqual(memory.saved, []);
  before.note(plan, told(0, 'failures'));
  const next = new LiveShares(memory);
  const [record] = next.deployed(plan);
  assert.equal(record?.level, 'warn');
  assert.match(record?.message ?? '', /stage2 answer 0 % instead of answer 50 % \(too many requests failed\)$/);
  assert.deepEqual(next.deployed(plan), [], 'the log says it once');
  assert.deepEqual(present(next, plan), ['answer 0 failures', 'shadow 10 drawn']);

  const corrected = planOf(LIST, 'r2');
  assert.equal(next.deployed(corrected)[0]?.level, 'info');
  assert.equal(present(next, corrected), undefined);
  assert.deepEqual(memory.saved, []);
});

test('a stage that is not in a plan keeps its shares, and a stage without versions has none', () => {
  const shares = new LiveShares();
  const plan = planOf();
  shares.act(plan, 2, 'rollback');
  shares.deployed({ stages: [stage(3)], routes: [] });
  shares.deployed(plan);
  assert.deepEqual(present(shares, plan), ['answer 0 asked', 'shadow 10 drawn']);
  shares.deployed({ stages: [stage(1), stage(2)], routes: [] });
  shares.deployed(plan);
  assert.equal(present(shares, plan), undefined);
});

test('a file that cannot be written is one warning, and no error', () => {
  const warnings: string[] = [];
  const shares = sharesKeptIn('/dev/null/versions.json', (message) => warnings.push(message));
  const plan = planOf();
  shares.act(plan, 2, 'rollback');
  shares.act(plan, 2, 'promote');
  assert.equal(warnings.length, 1);
  assert.match(warnings[0] ?? '', /^the present shares of versions end with this process: /);
  assert.deepEqual(present(shares, plan), ['answer 100 asked', 'shadow 10 drawn']);
});
