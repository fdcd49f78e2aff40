/** Mistakes that leave clients without an answer, or with an error, while every stage serves: badge, sidebar and debug line. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { READY } from '../../fixtures/badges.ts';
import { collector, dispatchGate, endpoint, httpIn, httpOut, runtime, stage, TAB } from '../../fixtures/flow.ts';
import type { FlowNode } from '../../fixtures/node-red.ts';
import { boxOf } from '../editor-page.ts';
import { sharedSession } from '../session.ts';
import { SidebarPage } from '../sidebar-page.ts';

const session = sharedSession();

const GOOD = { '/first': { n: 1 } };

/** @param id of the stage: while new code of a stage starts, that of the test before would answer */
function flowWith(id: string, code: string, properties: object = {}): FlowNode[] {
  return [
    TAB,
    runtime('runtime', { timeoutMs: '600000' }),
    ...endpoint('/first', id),
    stage(id, code, 'collector /first', { x: 300, ...properties }),
  ];
}

const FAILING = [
  {
    mistake: 'a result that cannot be JSON',
    id: 'circle',
    flows: flowWith('circle', 'if (input.n) return input.n; const all = {}; all.all = all; return all;'),
    told: /^circle: 1 x modelet_failed: the answer cannot be written as JSON: it has more than 1000 levels, or contains itself$/,
    // No wire leads on from a response that cannot be written.
    debug: /circlemsg : string\[\d+\]"modelet_failed: the answer cannot be written as JSON/,
  },
  {
    mistake: 'a predict for batches that returns another number of results',
    id: 'uneven',
    flows: flowWith('uneven', 'return input[0].n ? input : [...input, 1];', { predict: 'batch' }),
    told: /^uneven: 1 x bad_batch_length: predict returned 2 results for 1 input$/,
    // The wire of the collector's second output handles it.
    debug: null,
  },
];

for (const { mistake, id, flows, told, debug } of FAILING) {
  test(`${mistake}: the sidebar names it, and only an answer makes all well again`, async () => {
    await session.inEditor(flows, async (editor) => {
      await editor.waitForBadge(id, READY);
      const sidebar = await SidebarPage.show(editor);
      await sidebar.allIsWell(session.nodeRed.url, GOOD);
      assert.equal((await session.nodeRed.post('/first', {})).status, 500);
      await sidebar.verdict(told, 'error');
      await (debug ? editor.waitForDebug(debug) : editor.assertNoDebug(/uneven|bad_batch_length/));
      await editor.waitForBadge(id, READY);
      if (id === 'uneven') {
        await editor.open(id);
        await editor.fill(editor.field('name'), 'renamed');
        await editor.ok();
        await editor.deploy();
        await sidebar.verdict(/^renamed: 1 x bad_batch_length: /, 'error');
      }
      await sidebar.root.getByRole('button', { name: 'Seen', exact: true }).click();
      await sidebar.verdict(/^\w+: the last request ended with \w+, and no request was answered since: /, 'note');
      assert.equal((await session.nodeRed.post('/first', { n: 1 })).status, 200);
      await sidebar.allIsWell(session.nodeRed.url, GOOD);
    });
  });
}

test('an endpoint without a response behind its stage: sidebar and debug line say that its clients get no answer', async () => {
  const flows = [
    TAB,
    runtime(),
    httpIn('in', '/first', 'first'),
    stage('first', 'return input;', 'all', { x: 300 }),
    collector('all', [], [], { x: 500 }),
    { ...httpOut('out'), x: 700 },
  ];
  await session.inEditor(flows, async (editor) => {
    await editor.waitForBadge('first', READY);
    const sidebar = await SidebarPage.show(editor);
    await sidebar.verdict(/^POST \/first gets no answer: no HTTP response node follows/, 'error');
    await editor.restartFlows();
    await editor.waitForDebug(/POST \/first gets no answer: no HTTP response node follows/);
    await boxOf(editor.node('out'));
    await editor.wire('all', 'out');
    await editor.deploy();
    await sidebar.allIsWell(session.nodeRed.url, GOOD);
  });
});

test('two endpoints with one address: sidebar and debug line say that one of them gets no requests', async () => {
  const flows = [
    ...flowWith('first', 'return 1;'),
    httpIn('again', '/first', 'other'),
    stage('other', 'return 2;', 'collector /first'),
  ];
  await session.inEditor(flows, async (editor) => {
    await editor.waitForBadge('other', READY);
    const sidebar = await SidebarPage.show(editor);
    await sidebar.verdict(
      /^POST \/first is the address of two HTTP-in nodes, and one of them gets no requests\.$/,
      'error',
    );
    await editor.restartFlows();
    await editor.waitForDebug(/POST \/first is the address of two HTTP-in nodes/);
  });
});

test('a gate that cannot open: badge and sidebar say that requests wait in vain', async () => {
  const [gate, ...others] = endpoint('/first', 'gate');
  const flows = [
    TAB,
    runtime('runtime', { timeoutMs: '1000' }),
    ...[gate as FlowNode, ...others],
    dispatchGate('gate', 'first', 'error /first', { baseline: 1 }),
    stage('first', 'return input;', 'collector /first', { x: 300 }),
  ];
  await session.inEditor(flows, async (editor) => {
    await editor.waitForBadge('gate', /^closed: 100 % free, 100 % kept/);
    const sidebar = await SidebarPage.show(editor);
    await sidebar.verdict(/^Gate gate is closed: /, 'slow');
    assert.equal((await session.nodeRed.post('/first', {})).status, 408);
    await sidebar.verdict(/deadline_exceeded: not let through by the gate "gate"/, 'slow');
    // The wire of the gate's second output handles it.
    await editor.assertNoDebug(/not let through/);
  });
});
