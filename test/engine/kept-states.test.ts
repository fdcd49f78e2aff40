/** The file that keeps the states of a stage's keys from one engine to the next. */
import assert from 'node:assert/strict';
import { readdirSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import type { StageDefinition } from '../../src/config/stage-definition.ts';
import { itemKeyOf } from '../../src/core/text.ts';
import { type KeptState, KeptStates } from '../../src/runtime/engine/keys/kept-states.ts';
import { CODEC } from '../../src/wire/codec/codec.ts';
import { snapshotOf } from '../../src/wire/frames/key-snapshots.ts';
import { folderFor } from '../fixtures/folder.ts';
import { stage as planned, Rig, route } from './rig.ts';

function stage(id: string, modelet: object = {}): StageDefinition {
  const keyed = { keyBy: 'topic', keyIdleMs: 60_000, keySnapshotMb: 1, ...modelet };
  return { id, name: `stage ${id}`, modelet: keyed } as StageDefinition;
}

const STATES: readonly KeptState[] = [
  ['a key', Uint8Array.of(1, 2, 3)],
  ['ä"\n', new Uint8Array()],
];

test('the next engine takes the states of a stage once, and no engine before it writes them any more', (t) => {
  const folder = join(folderFor(t), 'runtime');
  const warnings: string[] = [];
  const engine = (): KeptStates => new KeptStates(folder, ({ message }) => warnings.push(message));
  const [first, second, third] = [engine(), engine(), engine()];
  const [one, other] = [stage('a/b'), stage('other')];
  assert.deepEqual(first.take(one), []);
  assert.deepEqual(first.take(other), []);
  first.keep(one, STATES);
  first.keep(other, STATES);
  assert.deepEqual(second.take(one), STATES);
  first.keep(one, STATES);
  assert.deepEqual(third.take(one), [], 'the second engine was killed, and the first ends late');
  third.keep(one, STATES);
  const file = join(folder, 'a%2Fb.states');
  assert.deepEqual(
    [folder, file].map((path) => statSync(path).mode & 0o777),
    [0o700, 0o600],
  );

  // Another key, or all keys have been idle.
  assert.deepEqual(engine().take(stage('a/b', { keyBy: 'payload.key' })), []);
  assert.deepEqual(engine().take(stage('other', { keyIdleMs: 0 })), []);

  // Only stages of the plan that keep states have a file.
  assert.deepEqual(readdirSync(folder).sort(), ['a%2Fb.states', 'other.states']);
  first.clean([one, stage('other', { keySnapshotMb: 0 })]);
  assert.deepEqual(readdirSync(folder), ['a%2Fb.states']);
  first.clean([]);
  first.keep(one, STATES);
  assert.deepEqual(readdirSync(folder), [], 'the file of a dropped stage does not come back');
  assert.deepEqual(warnings, []);
});

test('a file that cannot be read or written costs the states of its stage, and the log says so', (t) => {
  const folder = folderFor(t);
  const warnings: string[] = [];
  const engine = (): KeptStates => new KeptStates(folder, ({ message }) => warnings.push(message));
  const first = engine();
  first.take(stage('cut'));
  first.keep(stage('cut'), STATES);
  const file = join(folder, 'cut.states');
  for (const bytes of ['', 'x', '\x05\0\0\0\0\0\0\0']) {
    writeFileSync(file, bytes);
    assert.deepEqual(engine().take(stage('cut')), []);
    assert.match(warnings.pop() ?? '', /^the states of keys begin empty: .*cut\.states cannot be read: /);
    assert.deepEqual(warnings, []);
    // The file is in order again.
    assert.deepEqual(engine().take(stage('cut')), []);
    assert.deepEqual(warnings, []);
  }
  writeFileSync(join(folder, 'file'), '');
  const nowhere = new KeptStates(join(folder, 'file', 'states'), ({ message }) => warnings.push(message));
  assert.deepEqual(nowhere.take(stage('a')), []);
  assert.match(warnings.join(), /^the states of keys end with this process: /);
  assert.equal(warnings.length, 1);
});

test('a stage that was dropped writes no states into the file of its successor, which a deploy brings back while it closes', async (t) => {
  const folder = join(folderFor(t), 'runtime');
  const rig = new Rig(Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY, folder);
  const plain = planned(1);
  const keyed = { ...plain, modelet: { ...plain.modelet, keyBy: 'topic', keySnapshotMb: 1 } };
  const plan = { stages: [keyed], routes: [route(1, [1])] };
  await rig.apply(plan);
  const first = rig.pool(1);
  first.leaves = () => snapshotOf({ codec: CODEC.json, bytes: Buffer.from('1') });
  await rig.submit([1], { key: itemKeyOf('a')?.hash ?? 0, meta: Buffer.from('{"key":"a"}') });
  first.answer();
  let ended = (): void => {};
  first.close = () =>
    new Promise((resolve) => {
      ended = resolve;
    });
  await rig.apply({ stages: [], routes: [] });
  await rig.apply(plan);
  ended();
  await rig.turn();
  const next = new KeptStates(folder, () => {});
  assert.deepEqual(next.take(keyed), [], 'this engine is killed');
});
