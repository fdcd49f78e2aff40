/** *New pipeline* makes a flow of what a user has and how it is called. */
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { READY } from '../../fixtures/badges.ts';
import { TAB } from '../../fixtures/flow.ts';
import { until } from '../../fixtures/polling.ts';
import { BADGES, lookAtDrawing } from '../drawing.ts';
import type { EditorNode, EditorPage } from '../editor-page.ts';
import { sharedSession } from '../session.ts';
import { SidebarPage } from '../sidebar-page.ts';

const session = sharedSession();

declare const RED: { readonly nodes: { createCompleteNodeSet(): object[] } };

const DIALOG = '#modelet-new-pipeline';

async function choose(editor: EditorPage, question: 'source' | 'call', answer: string): Promise<void> {
  await editor.page.locator(`${DIALOG} #node-input-${question}`).selectOption(answer);
}

async function create(editor: EditorPage): Promise<readonly EditorNode[]> {
  const before = new Set((await editor.nodes()).map(({ id }) => id));
  await editor.page.locator('#modelet-new-ok').click();
  await editor.page.locator('.red-ui-notification', { hasText: 'is on the canvas' }).last().waitFor();
  await editor.page.locator(DIALOG).waitFor({ state: 'detached' });
  return (await editor.nodes()).filter(({ id }) => !before.has(id));
}

const idOf = (nodes: readonly EditorNode[], type: string): string =>
  nodes.find((node) => node.type === type)?.id ?? assert.fail(`no ${type} among ${nodes.map((one) => one.type)}`);

async function assertTidy(editor: EditorPage): Promise<void> {
  const { faults } = await editor.page.evaluate(lookAtDrawing, BADGES);
  assert.deepEqual(faults, []);
}

async function canvasIsEmpty(editor: EditorPage): Promise<boolean> {
  return (await editor.nodes()).length + (await editor.configNodes()).length === 0;
}

test('the empty sidebar leads to a new pipeline, which answers when it is deployed, and one undo takes it back', async () => {
  await session.inEditor([TAB], async (editor) => {
    const sidebar = await SidebarPage.show(editor);
    await sidebar.root.getByRole('button', { name: 'New pipeline' }).click();
    await editor.page.locator(`${DIALOG} #node-input-endpoint`).fill('/echo');
    const nodes = await create(editor);
    await assertTidy(editor);
    assert.deepEqual(
      nodes.filter(({ valid }) => !valid),
      [],
    );
    const comment = await editor.saved(idOf(nodes, 'comment'));
    assert.ok(String(comment['info']).includes(`curl -s ${session.nodeRed.url}/echo -H`), String(comment['info']));

    await editor.chart.focus();
    await editor.page.keyboard.press('ControlOrMeta+z');
    assert.ok(await canvasIsEmpty(editor));
    await editor.page.keyboard.press('ControlOrMeta+y');
    assert.deepEqual((await editor.nodes()).map(({ id }) => id).toSorted(), nodes.map(({ id }) => id).toSorted());
    await assertTidy(editor);
    await editor.deploy();
    await editor.waitForBadge(idOf(nodes, 'modelet-stage'), READY);
    const button = editor.node(idOf(nodes, 'inject')).locator('.red-ui-flow-node-button-button');
    await button.click();
    await editor.waitForBadge(idOf(nodes, 'debug'), /a walk in the woods/);
    await sidebar.allIsWell(session.nodeRed.url, { '/echo': { n: 1 } });
  });
});

test('a second one, by the keys, has its file created and takes the runtime that is there', async () => {
  await session.inEditor([TAB, { id: 'runtime', type: 'modelet-runtime', name: 'there' }], async (editor) => {
    await editor.chart.focus();
    await editor.page.keyboard.press('ControlOrMeta+Alt+p');
    await choose(editor, 'source', 'file');
    await choose(editor, 'call', 'button');
    await editor.page.locator(`${DIALOG} #node-input-path`).fill('made/by-dialog.js');
    assert.equal(await editor.page.locator(`${DIALOG} #node-input-name`).inputValue(), 'by-dialog');
    const nodes = await create(editor);
    assert.ok(existsSync(join(session.nodeRed.userDir, 'made', 'by-dialog.js')));
    const stage = await editor.saved(idOf(nodes, 'modelet-stage'));
    assert.deepEqual([stage['name'], stage['path'], stage['runtime']], ['by-dialog', 'made/by-dialog.js', 'runtime']);

    await editor.choose('modelet-menu-new');
    await choose(editor, 'source', 'file');
    const path = editor.page.locator(`${DIALOG} #node-input-path`);
    await path.fill('made/other.js');
    await editor.page.locator(`${DIALOG} #modelet-stage-browse`).click();
    await editor.page.locator(`${DIALOG} #modelet-stage-files`).getByRole('button', { name: 'by-dialog.js' }).click();
    assert.equal(await path.inputValue(), 'made/by-dialog.js');
    await choose(editor, 'source', 'python-code');
    await choose(editor, 'call', 'camera');
    const typed = await editor.saved(idOf(await create(editor), 'modelet-stage'));
    assert.match(String(typed['code']), /^# input is the picture.*\n.*len\(input\)/);
    await assertTidy(editor);
    assert.deepEqual(
      (await editor.configNodes()).map(({ id }) => id),
      ['runtime'],
    );
  });
});

test('no pipeline overlaps itself or another, whatever it is made of', async () => {
  await session.inEditor([TAB], async (editor) => {
    const calls = ['http', 'mqtt', 'button', 'file', 'camera'];
    const pairs = ['inline', 'task'].flatMap((source) => calls.map((call) => [source, call] as const));
    const all = pairs.map(([source, call], at) => ({
      ...{ source, call, name: `a model with a name ${at}`, endpoint: `/model-${at}`, topic: `rooms/model-${at}` },
      ...{ task: 'image-classification', model: 'm', path: 'm', url: 'http://127.0.0.1:1', file: '', camera: '' },
    }));
    const file = new URL('resources/@modelet/node-red-pipeline/new-pipeline/dialog.js', editor.page.url()).href;
    // As text, because the compiler rewrites imports.
    await editor.page.evaluate(
      `import('${file}').then(({ draw }) => ${JSON.stringify(all)}.forEach((one) => draw(one)))`,
    );
    await assertTidy(editor);
    const nodes = await editor.nodes();
    assert.equal(nodes.filter(({ type }) => type === 'modelet-stage').length, pairs.length);
    // The config nodes of the first serve all. Only the folder of the known model is missing.
    const configs = (await editor.configNodes()).map(({ type }) => type);
    assert.deepEqual(configs.toSorted(), ['modelet-runtime', 'mqtt-broker']);
    const reasons = nodes.filter(({ valid }) => !valid).flatMap(({ errors }) => errors);
    assert.deepEqual(
      reasons.filter((reason) => !/folder/.test(reason)),
      [],
    );
  });
});

/** A stage in a group, with a debug node behind it; `before` is wired to it. */
function drawn(x: number, ...before: object[]): object[] {
  const members = ['stage', 'out'];
  const place = { z: TAB.id, y: 200, g: 'group' };
  return [
    { ...TAB, env: [] },
    { id: 'runtime', type: 'modelet-runtime', name: 'there' },
    {
      id: 'group',
      type: 'group',
      z: TAB.id,
      name: 'work',
      nodes: members,
      style: { label: true },
      x: x - 86,
      y: 159,
      w: 400,
      h: 82,
    },
    {
      ...place,
      id: 'stage',
      type: 'modelet-stage',
      name: 'Twice',
      runtime: 'runtime',
      x,
      wires: [['out']],
      ...TWICE,
    },
    { ...place, id: 'out', type: 'debug', name: 'out', x: x + 200, complete: 'payload', targetType: 'msg', wires: [] },
    ...before,
  ];
}
const TWICE = { source: 'inline', code: 'return { twice: input.n * 2 };' };

async function chooseInMenu(editor: EditorPage, entry: string): Promise<void> {
  await editor.node('stage').click({ button: 'right' });
  await editor.page.locator('#red-ui-workspace-context-menu').getByText(entry, { exact: true }).click();
}

const whole = (editor: EditorPage): Promise<string> =>
  editor.page.evaluate(() => JSON.stringify(RED.nodes.createCompleteNodeSet()));

test('an endpoint and a batcher are added to a stage from its menu, and each is one undo', async () => {
  await session.inEditor(drawn(140), async (editor) => {
    const before = await whole(editor);
    await chooseInMenu(editor, 'Put a batcher before this stage');
    await chooseInMenu(editor, 'Add an endpoint to this stage');
    await editor.page.locator('.red-ui-notification', { hasText: 'POST requests to /twice go to Twice' }).waitFor();
    await assertTidy(editor);
    const nodes = await editor.nodes();
    assert.deepEqual(
      nodes.filter(({ valid }) => !valid),
      [],
    );
    const { wires } = await editor.saved(idOf(nodes, 'http in'));
    assert.deepEqual(wires, [[idOf(nodes, 'modelet-batcher')]]);
    await editor.deploy();
    await editor.waitForBadge('stage', READY);
    const answer = await session.nodeRed.post('/twice', { n: 4 });
    assert.deepEqual([answer.status, await answer.json()], [200, { twice: 8 }]);

    for (const refused of ['This stage is behind an HTTP-in node already.', 'There is a batcher before this stage.']) {
      const isEndpoint = refused.includes('HTTP-in');
      await chooseInMenu(editor, isEndpoint ? 'Add an endpoint to this stage' : 'Put a batcher before this stage');
      await editor.page.locator('.red-ui-notification', { hasText: refused }).waitFor();
    }
    await editor.chart.focus();
    await editor.page.keyboard.press('ControlOrMeta+z');
    await editor.page.keyboard.press('ControlOrMeta+z');
    // The canvas measures the group again with its next frame.
    await until('the flow is as before', async () => (await whole(editor)) === before);
  });
});

test('a batcher that sends to a stage through link nodes and a junction is the batcher of the stage', async () => {
  const at = { z: TAB.id, y: 100 };
  const flows = [
    { ...at, id: 'batcher', type: 'modelet-batcher', name: 'eights', x: 110, wires: [['leave']] },
    { ...at, id: 'leave', type: 'link out', mode: 'link', links: ['enter'], x: 245, wires: [] },
    { ...at, id: 'enter', type: 'link in', links: ['leave'], x: 65, y: 200, wires: [['joint']] },
    { ...at, id: 'joint', type: 'junction', x: 180, y: 200, wires: [['stage']] },
  ];
  await session.inEditor(drawn(340, ...flows), async (editor) => {
    await chooseInMenu(editor, 'Put a batcher before this stage');
    await editor.page.locator('.red-ui-notification', { hasText: 'There is a batcher before this stage.' }).waitFor();
    await chooseInMenu(editor, 'Add an endpoint to this stage');
    const { wires } = await editor.saved(idOf(await editor.nodes(), 'http in'));
    assert.deepEqual(wires, [['batcher']]);
  });
});

test('messages that come from elsewhere pass by the response of an endpoint that is added', async () => {
  const inject = { id: 'in', type: 'inject', name: 'in', z: TAB.id, x: 110, y: 200, wires: [['stage']] };
  await session.inEditor(drawn(300, inject), async (editor) => {
    await chooseInMenu(editor, 'Add an endpoint to this stage');
    await assertTidy(editor);
    const nodes = await editor.nodes();
    const { wires } = await editor.saved(idOf(nodes, 'switch'));
    assert.deepEqual(wires, [[idOf(nodes, 'http response')]]);
    assert.deepEqual((await editor.saved('stage')).wires, [['out', idOf(nodes, 'modelet-collector')]]);
  });
});
