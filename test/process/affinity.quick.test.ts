/** A process starts under its cores, and a message says which pins cannot be applied. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { allowedCpus, pinFaults, resolvePin, visibleCpus } from '../../src/process/affinity.ts';

test('a pin to granted cores applies, and without a pin a child gets all cores', () => {
  assert.deepEqual(resolvePin([2], [0, 1, 2], true), { cpus: [2], missing: [], applied: [2] });
  assert.deepEqual(resolvePin(null, [0, 1, 2], true), { cpus: [0, 1, 2], missing: [], applied: null });
});

test('a pin with a core that was not granted does not apply at all', () => {
  assert.deepEqual(resolvePin([1, 8, 9], [0, 1], true), { cpus: [0, 1], missing: [8, 9], applied: null });
});

test('without taskset no pin applies, and every core of the pin is missing', () => {
  assert.deepEqual(resolvePin([1], [0, 1], false), { cpus: null, missing: [1], applied: null });
  assert.deepEqual(resolvePin(null, [], false), { cpus: null, missing: [], applied: null });
});

test('faults name the process, the missing cores and the allowed cores', () => {
  const faults = (who: string, missing: number[], allowed: number[]) => pinFaults([[who, missing]], allowed, true);
  assert.deepEqual(faults('worker 3', [8], [0, 1]), ['worker 3: core 8 is not available here (allowed: 0,1)']);
  assert.deepEqual(faults('engine', [8, 9], [0, 1]), ['engine: cores 8,9 are not available here (allowed: 0,1)']);
  assert.match(faults('engine', [1], [0, 1]).join(), /cannot be pinned/);
  assert.match(faults('engine', [1], []).join(), /cannot be pinned/);
  assert.deepEqual(faults('engine', [], []), []);
  assert.match(pinFaults([['worker 3', [8]]], [0, 1], false).join(), /core 8 .*, running unpinned$/);
});

test('this process reads its cores where the kernel reports them', () => {
  const allowed = allowedCpus();
  if (process.platform === 'linux') assert.ok(allowed.length > 0);
  else assert.deepEqual(allowed, []);
  assert.deepEqual(
    allowed,
    [...new Set(allowed)].sort((a, b) => a - b),
  );
  assert.deepEqual(allowedCpus(2 ** 30), []);
});

test('the editor shows the allowed cores, or a count if there is no list', () => {
  assert.deepEqual(visibleCpus([3, 5]), [3, 5]);
  const counted = visibleCpus([]);
  assert.ok(counted.length > 0);
  assert.equal(counted[0], 0);
});
