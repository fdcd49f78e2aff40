/** A gate by the saturation of a stage: others that use the stage close it, and it opens by itself, at once. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { GateSnapshot } from '../../../src/observe/views/gate-snapshot.ts';
import { collector, dispatchGate, runtime, sink, stage, TAB } from '../../fixtures/flow.ts';
import { useGatedRed } from '../../fixtures/gated-red.ts';
import type { FlowNode } from '../../fixtures/node-red.ts';
import { until } from '../../fixtures/polling.ts';

const bed = useGatedRed({ flows: () => flows(1) });
const { red, held } = bed;

/** Nothing but what the engine tells can be why it is read in time. */
const SELDOM = { intervalMs: 60_000, staleMs: 120_000, lagMs: 0 };

function flows(workers: number): FlowNode[] {
  const rule = { source: 'saturation', maxSys: '', maxConcurrency: 4, baseline: 0.5 };
  return [
    TAB,
    runtime(),
    dispatchGate('gate', 'work', [], { ...SELDOM, ...rule }),
    stage('work', held.code(), 'end', { workers: String(workers) }),
    collector('end', 'results'),
    sink('results'),
  ];
}

function when(what: string, is: (gate: GateSnapshot) => boolean): Promise<GateSnapshot> {
  return until(what, async () => {
    const gate = await red.gate('gate');
    return is(gate) && gate;
  });
}

test('a saturation gate closes while others use the stage, opens afterwards, and counts its own requests', async () => {
  const results = red.inputs('results');
  const idle = await when('it is open', ({ open }) => open);
  assert.deepEqual([idle.maxSys, idle.budget, idle.quota], [4, 1, 2]);
  for (const payload of [1, 2, 3]) red.send('work', { payload });
  const busy = await when('the engine has told', ({ source }) => /1 held and 2 queued of 4/.test(source.raw ?? ''));
  assert.deepEqual([busy.open, busy.budget], [false, 0.25]);
  for (const payload of [4, 5, 6, 7]) red.send('gate', { payload });
  assert.equal((await red.gate('gate')).waiting, 4);
  await held.open();
  await until('all are through', () => results.length === 7);
  await held.close();
  const { inFlight, decisions } = await red.gate('gate');
  assert.deepEqual([inFlight, decisions.admitted_late], [0, 4]);

  await when('it is open', ({ open }) => open);
  for (const payload of [8, 9, 10]) red.send('gate', { payload });
  const full = await when('the engine has told', ({ source }) => /1 held and 1 queued/.test(source.raw ?? ''));
  assert.deepEqual([full.inFlight, full.waiting], [2, 1]);
  await held.open();
  await until('all are through', () => results.length === 10);
});

test('a saturation gate admits more with more workers', async () => {
  await red.deploy(flows(2), 'nodes');
  const { quota } = await when('both workers count', ({ maxSys }) => maxSys === 8);
  assert.equal(quota, 4);
});
