/** How much a stage has to do, from what its engine has told. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { EngineStatus, ListenerStatus, StageStatus } from '../../src/core/model.ts';
import { NOTHING_READ } from '../../src/observe/meters/stage-meter.ts';
import { NOT_RUNNING } from '../../src/observe/views/snapshot.ts';
import { EngineReports, loadOf } from '../../src/runtime/service/engine-reports.ts';

function status(stage: Partial<StageStatus>): EngineStatus {
  return { stages: [{ ...NOT_RUNNING, ref: 7, reading: NOTHING_READ, ...stage }], rssBytes: 0 };
}

test('busy workers hold about as many items as past batches had', () => {
  const load = loadOf(status({ queue: 3, busy: 2, ready: 4, meanBatchSize: 7.6 }), 7, 1000, 1000);
  assert.deepEqual(load, { queue: 3, busy: 15, ready: 4, at: 1000 });
});

test('a worker with its first batch holds at least one item', () => {
  assert.equal(loadOf(status({ busy: 1, meanBatchSize: 0 }), 7, 0, 0)?.busy, 1);
});

test('an old report is still valid, because the engine reports every change', () => {
  assert.equal(loadOf(status({}), 7, 1000, 61_000)?.at, 60_750);
  assert.equal(loadOf(status({}), 7, 1000, 1100)?.at, 1000);
});

test('a stage without a report is unknown', () => {
  assert.equal(loadOf(status({}), 8, 0, 0), null);
});

test('the counts of clients outlive an engine, until a deploy takes the client away', () => {
  const reports = new EngineReports();
  const listener = { clients: { kept: { 200: 1 }, gone: { 200: 2 }, none: { 401: 3 } } } as unknown as ListenerStatus;
  reports.update({ ...status({}), listener }, 0);
  reports.engineLost();
  reports.keep(new Set(), ['none', 'kept']);
  assert.deepEqual(reports.clients, { kept: { 200: 1 }, none: { 401: 3 } });
});
