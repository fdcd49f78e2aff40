/** The map of processes and the cores that they are pinned to. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { cpuMap, type PlacedHolder } from '../../src/observe/views/view.ts';

function worker(number: number, cpus: readonly number[] | null): PlacedHolder {
  return { kind: 'worker', runtime: 'runtime', stage: 'stage', worker: number, cpus };
}

function numbers(holders: readonly { readonly worker: number | null }[]): (number | null)[] {
  return holders.map(({ worker: number }) => number);
}

describe('the map of cores', () => {
  test('shows each process at each core of its pin', () => {
    const { cores, anywhere } = cpuMap([worker(0, [0]), worker(1, [0, 2]), worker(2, [1])], [0, 1, 2, 3]);
    assert.deepEqual(
      cores.map(({ core, holders }) => [core, numbers(holders)]),
      [
        [0, [0, 1]],
        [1, [2]],
        [2, [1]],
        [3, []],
      ],
    );
    assert.deepEqual(anywhere, []);
  });

  test('separates processes without a pin from those with a pin to all cores', () => {
    const { cores, anywhere } = cpuMap([worker(0, null), worker(1, [0, 1]), worker(2, [1])], [0, 1]);
    assert.deepEqual(
      cores.map(({ holders }) => numbers(holders)),
      [[], [2]],
    );
    assert.deepEqual(numbers(anywhere), [0, 1]);
  });
});
