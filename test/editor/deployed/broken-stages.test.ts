/** Stages that cannot start show the reason on the canvas. After a repair in the dialog they get ready. */
import assert from 'node:assert/strict';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { idle, READY } from '../../fixtures/badges.ts';
import { httpIn, httpOut } from '../../fixtures/flow.ts';
import { importFlows } from '../clipboard.ts';
import { boxOf, type EditorPage } from '../editor-page.ts';
import { sharedSession } from '../session.ts';

const session = sharedSession();

const RUNTIME = 'b000000000000001';
const STAGE = 'b000000000000003';

/** An endpoint at /stage with one stage. */
function endpoint(stage: object): object[] {
  return [
    { id: RUNTIME, type: 'modelet-runtime', name: 'default' },
    { id: 'b000000000000002', type: 'http in', url: '/stage', method: 'post', x: 140, y: 140, wires: [[STAGE]] },
    { id: STAGE, type: 'modelet-stage', runtime: RUNTIME, x: 360, y: 140, wires: [['b000000000000004']], ...stage },
    { id: 'b000000000000004', type: 'http response', x: 580, y: 140, wires: [] },
  ];
}

async function importEndpoint(editor: EditorPage, stage: object): Promise<string> {
  await importFlows(editor, endpoint(stage));
  return (await editor.nodes()).find(({ type }) => type === 'modelet-stage')?.id ?? '';
}

async function importAndDeploy(editor: EditorPage, stage: object): Promise<string> {
  const id = await importEndpoint(editor, stage);
  await editor.deploy();
  return id;
}

async function assertAnswers(expected: unknown): Promise<void> {
  const answer = await session.nodeRed.post('/stage', { n: 4 });
  assert.equal(answer.status, 200);
  assert.deepEqual(await answer.json(), expected);
}

test('a stage whose code has a syntax error shows the error on the canvas until the code is repaired', async () => {
  await session.inEditor([], async (editor) => {
    const id = await importAndDeploy(editor, { code: 'return input.n +;' });
    await editor.waitForBadge(id, /^does not start: line 1: Unexpected/);
    assert.equal((await session.nodeRed.post('/stage', { n: 4 })).status, 503);

    await editor.open(id);
    await editor.typeCode('code', 'return { n: input.n + 1 };');
    await editor.ok();
    await editor.deploy();
    await editor.waitForBadge(id, idle(1));
    await assertAnswers({ n: 5 });
  });
});

test('a stage whose On Start fails shows the message on the canvas until the code is repaired', async () => {
  await session.inEditor([], async (editor) => {
    const setup = "throw new Error('the weights are missing');";
    const id = await importAndDeploy(editor, { setup, code: 'return { n: state + input.n };' });
    await editor.waitForBadge(id, /^does not start: the weights are missing$/);

    await editor.open(id);
    await editor.typeCode('start', 'return 100;');
    await editor.ok();
    await editor.deploy();
    await editor.waitForBadge(id, idle(1));
    await assertAnswers({ n: 104 });
  });
});

test('a stage whose file is missing says so on the canvas and in its dialog until the path is right', async () => {
  const folder = join(session.nodeRed.userDir, 'models');
  await mkdir(folder);
  await writeFile(join(folder, 'double.cjs'), 'module.exports = (input) => ({ doubled: input.n * 2 });\n');
  await session.inEditor([], async (editor) => {
    const id = await importEndpoint(editor, { source: 'file', path: 'models/doubel.cjs' });
    await editor.deployAnyway(id);
    await editor.waitForBadge(id, /^File: no file doubel\.cjs$/);

    await editor.open(id);
    const resolved = editor.page.locator('#modelet-stage-resolved');
    const wanted = join(session.nodeRed.userDir, 'models', 'doubel.cjs');
    await resolved.filter({ hasText: `no file ${wanted}` }).waitFor();
    await resolved.locator('.fa-times.modelet-bad').waitFor();
    await editor.fill(editor.field('path'), 'models/double.cjs');
    await resolved.filter({ hasText: join(session.nodeRed.userDir, 'models', 'double.cjs') }).waitFor();
    await resolved.locator('.fa-check.modelet-good').waitFor();
    await editor.ok();
    await editor.deploy();
    await editor.waitForBadge(id, idle(1));
    await assertAnswers({ doubled: 8 });
  });
});

test('the badge of a broken stage ends before the badge of the next node begins', async () => {
  const broken = [
    { source: 'file', path: 'models/of/this/year/network-with-weights.cjs' },
    { setup: "throw new Error('the weights in the store are not those of this network: train it anew');" },
    { source: 'module', module: '@scope/a-module-with-a-long-name' },
  ];
  const flows = broken.flatMap((stage, row) =>
    [300, 620].map((x) => ({
      ...{ id: `stage${row}at${x}`, z: 'tab', type: 'modelet-stage', name: 'classify', runtime: RUNTIME },
      ...{ x, y: 100 + 80 * row, wires: [[]], ...stage },
    })),
  );
  const tab = { id: 'tab', type: 'tab', label: 'Broken' };
  await session.inEditor([tab, { id: RUNTIME, type: 'modelet-runtime', name: 'default' }, ...flows], async (editor) => {
    for (const row of broken.keys()) {
      const [left, right] = [`stage${row}at300`, `stage${row}at620`];
      for (const id of [left, right]) await editor.waitForBadge(id, /no file|does not start: the weights|the module/);
      const [ends, begins] = [await boxOf(editor.badge(left)), await boxOf(editor.badge(right))];
      assert.ok(ends.x + ends.width < begins.x, `${await editor.badge(left).textContent()}: ${ends.width} px`);
    }
  });
});

test('the dialog of a stage that does not run shows nothing as deployed, and sends no request that fails', async () => {
  const stage = (id: string, z: string, rest: object = {}): object => ({
    ...{ id, z, type: 'modelet-stage', name: id, runtime: RUNTIME, code: 'return 1;', x: 300, y: 100, wires: [] },
    ...rest,
  });
  const flows = [
    { id: 'tab1', type: 'tab', label: 'Used' },
    { id: 'tab2', type: 'tab', label: 'Unused', disabled: true },
    { id: 'subflow1', type: 'subflow', name: 'Inside', in: [], out: [] },
    { id: RUNTIME, type: 'modelet-runtime', name: 'default' },
    { ...httpIn('in', '/counted', 'running'), z: 'tab1' },
    stage('running', 'tab1', { code: 'flow.increment("n"); return msg;', wires: [['out']] }),
    { ...httpOut('out'), z: 'tab1', x: 500 },
    stage('disabled', 'tab1', { d: true, y: 160 }),
    stage('unused', 'tab2'),
    stage('inside', 'subflow1'),
    { id: 'instance', z: 'tab1', type: 'subflow:subflow1', x: 300, y: 220, wires: [] },
  ];
  await session.inEditor(flows, async (editor) => {
    const deployed = editor.page.locator('#modelet-stage-deployed');
    const undeployed = editor.page.locator('#modelet-stage-undeployed');
    await editor.waitForBadge('running', READY);
    await editor.open('running');
    await editor.openTab('modelet-stage-live');
    await deployed.waitFor();
    await editor.page.locator('#modelet-stage-state', { hasText: /^idle, \d workers?/ }).waitFor();
    assert.equal(await undeployed.isVisible(), false);
    const costs = /Each run carries \d+ B besides its payload and brings \d+ B; .* Mean of 1 since the deploy\./;
    assert.equal(await editor.page.locator('#modelet-stage-costs').isVisible(), false);
    assert.equal((await session.nodeRed.post('/counted', {})).status, 200);
    await editor.page.locator('#modelet-stage-costs', { hasText: costs }).waitFor();
    await editor.openTab('modelet-stage-model');
    await editor.page.locator('#modelet-stage-test-sample').fill('1');
    await editor.page.locator('#modelet-stage-test-run').click();
    const told = editor.page.locator('#modelet-stage-test-times', {
      hasText: 'because it uses flow.increment. Each run',
    });
    await told.filter({ hasText: costs }).waitFor();
    await editor.cancel();

    await editor.open('disabled');
    await editor.openTab('modelet-stage-live');
    await undeployed.waitFor();
    assert.equal(await deployed.isVisible(), false);
    await editor.cancel();

    await editor.showTab('Unused');
    await editor.open('unused');
    await editor.openTab('modelet-stage-live');
    await undeployed.waitFor();
    assert.equal(await deployed.isVisible(), false);
    await editor.cancel();

    await editor.paletteNode('subflow:subflow1').dblclick();
    await editor.open('inside');
    await editor.openTab('modelet-stage-live');
    await undeployed.waitFor();
    assert.equal(await deployed.isVisible(), false);
    await editor.cancel();
  });
});
