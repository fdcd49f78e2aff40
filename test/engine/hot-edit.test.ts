/** A saved file gives its stage a new generation of workers, as a deploy does. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type TestContext, test } from 'node:test';
import type { StageDefinition } from '../../src/config/stage-definition.ts';
import { FILE_WATCH } from '../../src/runtime/engine/pools/hot-edit.ts';
import { until } from '../fixtures/polling.ts';
import type { FakePool } from './fake-pool.ts';
import { Rig, route, stage } from './rig.ts';

class Bed {
  readonly rig: Rig = new Rig();
  readonly #path: string;
  #saves = 0;

  constructor(t: TestContext) {
    const folder = mkdtempSync(join(tmpdir(), 'modelet-edit-'));
    this.#path = join(folder, 'model.js');
    writeFileSync(this.#path, 'first');
    t.after(() => {
      // Its workers hold what they hold; its watch ends.
      void this.rig.engine.close(0);
      rmSync(folder, { recursive: true });
    });
  }

  deploy(overrides: Partial<StageDefinition> = {}): Promise<void> {
    const { modelet } = stage(1);
    const source = { kind: 'file', path: this.#path } as const;
    const definition = stage(1, { modelet: { ...modelet, source }, watch: true, ...overrides });
    return this.rig.apply({ stages: [definition], routes: [route(1, [1])] }, false);
  }

  /** Saves until that is noticed: the first time may be taken for what was there at first. The new pool. */
  async save(): Promise<FakePool> {
    const { pools } = this.rig;
    const before = pools.length;
    await until('new workers start', async () => {
      this.#saves += 1;
      writeFileSync(this.#path, `save ${this.#saves}`);
      await this.rig.advance(FILE_WATCH.longestMs);
      return pools.length > before;
    });
    return pools.at(-1) as FakePool;
  }
}

test('the old workers serve until workers with the saved file are ready', async (t) => {
  const bed = new Bed(t);
  const { rig } = bed;
  await bed.deploy();
  const [first] = rig.pools as [FakePool];
  first.becomeReady();
  const second = await bed.save();
  await rig.submit([1]);
  assert.deepEqual([first.held(), second.held()], [[[1]], []]);
  second.becomeReady();
  await rig.submit([2]);
  assert.deepEqual([first.held(), second.held(), first.closes.length], [[[1]], [[2]], 1]);
  assert.deepEqual(
    rig.logs.map(({ level, message, stage: name }) => [level, message, name]),
    [['info', 'model.js was saved: new workers start', 'stage1']],
  );
});

test('a return to the deployed settings keeps the code saved since', async (t) => {
  const bed = new Bed(t);
  const { rig } = bed;
  await bed.deploy({ revision: 'r1' });
  rig.pool(1).becomeReady();
  await bed.deploy({ revision: 'r2' });
  await bed.deploy({ revision: 'r1' });
  assert.equal(rig.pools.length, 2, 'what still runs needs no new workers');
  await bed.deploy({ revision: 'r2' });
  const saved = await bed.save();
  assert.equal(saved.definition.revision, 'r2');
  await bed.deploy({ revision: 'r1' });
  const newest = rig.pool(1);
  assert.notEqual(newest, saved);
  newest.becomeReady();
  await rig.submit([1]);
  assert.deepEqual(newest.held(), [[1]]);
});

test('a stage that stops watching its file keeps its workers and leaves no watch', async (t) => {
  const bed = new Bed(t);
  const { rig } = bed;
  await bed.deploy();
  rig.pool(1).becomeReady();
  const second = await bed.save();
  second.becomeReady();
  await bed.deploy({ watch: false });
  assert.equal(rig.clock.pending, 0);
  assert.equal(rig.pool(1), second);
});
