/** Metrics of modelets on worker hosts: totals are reported again and again, and each gain counts once. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { OwnTotals } from '../../src/hosts/entries.ts';
import { OwnGains } from '../../src/hosts/stage-hosts.ts';

const METRIC = '{"type":"counter","name":"seen_total"}';
const OPENED = 1000;

function totals(since: number, seen: number): OwnTotals {
  return { since, counts: { [METRIC]: { '[]': seen } }, dropped: 0, keysLost: 0 };
}

/** Returns the sum of what was read. */
function sumOf(gains: OwnGains, ...reports: readonly (readonly [host: string, totals: OwnTotals])[]): number {
  return reports.reduce((sum, [host, total]) => {
    return sum + Number(gains.of(host, total)?.counts[METRIC]?.['[]'] ?? 0);
  }, 0);
}

test('a report that is repeated or missed changes nothing', () => {
  const gains = new OwnGains(OPENED);
  const reports = [3, 3, 8, 8, 20].map((seen) => ['a', totals(1001, seen)] as const);
  assert.equal(sumOf(gains, ...reports), 20);
  assert.equal(gains.of('a', totals(1001, 20)), null);
});

test('hosts count for themselves, and a host that begins anew counts from 0', () => {
  const gains = new OwnGains(OPENED);
  assert.equal(sumOf(gains, ['a', totals(1001, 5)], ['b', totals(1002, 7)], ['a', totals(1001, 6)]), 13);
  assert.equal(sumOf(gains, ['a', totals(2000, 2)], ['a', totals(2000, 3)]), 3);
});

test('what a host had counted for an earlier engine does not count again', () => {
  const gains = new OwnGains(OPENED);
  assert.equal(sumOf(gains, ['a', totals(900, 50)], ['a', totals(900, 54)]), 4);
});

test('a host that was forgotten and comes back counts nothing twice', () => {
  const gains = new OwnGains(OPENED);
  const hosts = Array.from({ length: 1001 }, (_, index) => [`host ${index}`, totals(2000 + index, 1)] as const);
  assert.equal(sumOf(gains, ...hosts), 1001);
  assert.equal(sumOf(gains, ['host 0', totals(2000, 1)], ['host 0', totals(2000, 3)]), 2);
});
