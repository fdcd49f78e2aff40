/** A function node becomes a stage and back, by the menu of the canvas and the list of actions. */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { READY } from '../../fixtures/badges.ts';
import { TAB } from '../../fixtures/flow.ts';
import { until } from '../../fixtures/polling.ts';
import type { EditorPage } from '../editor-page.ts';
import { sharedSession } from '../session.ts';
import { SidebarPage } from '../sidebar-page.ts';

declare const RED: {
  readonly actions: { invoke(name: string): void };
  readonly view: { select(node: string): void };
};

const session = sharedSession();

const CODE = "// doubles\nmsg.payload = msg.payload * 2 + env.get('PLUS').length;\nreturn msg;";
const TO_STAGE = 'modelets:function-to-stage';
const TO_FUNCTION = 'modelets:stage-to-function';

function flows(func: string, more: object = {}): object[] {
  const place = { z: TAB.id, y: 100 };
  return [
    { ...TAB, env: [{ name: 'PLUS', value: 'abc', type: 'str' }] },
    { id: 'g', type: 'group', z: TAB.id, name: 'work', nodes: ['parse'], style: {}, x: 254, y: 59, w: 172, h: 82 },
    { ...place, id: 'in', type: 'link in', name: 'in', links: [], x: 115, wires: [['parse']] },
    {
      ...place,
      ...{ id: 'parse', type: 'function', name: 'parse', g: 'g', x: 340, wires: [['out']] },
      ...{ func, outputs: 1, timeout: 2, noerr: 0, initialize: 'node.log("on");', finalize: '', libs: [], ...more },
    },
    { ...place, id: 'out', type: 'debug', name: 'out', x: 550, wires: [] },
  ];
}

async function select(editor: EditorPage, id: string): Promise<void> {
  await editor.page.evaluate((selected) => RED.view.select(selected), id);
}

async function invoke(editor: EditorPage, action: string): Promise<void> {
  await editor.page.evaluate((name) => RED.actions.invoke(name), action);
}

async function waitForType(editor: EditorPage, id: string, type: string): Promise<void> {
  await editor.page.waitForFunction(
    ([node, wanted]) =>
      (RED as never as { nodes: { node(of: string): { type: string } } }).nodes.node(node).type === wanted,
    [id, type] as const,
  );
}

test('a function node becomes a stage with its code, place, group and wires, and one undo takes that back', async () => {
  await session.inEditor(flows(CODE), async (editor) => {
    const before = await editor.saved('parse');
    await editor.node('parse').click({ button: 'right' });
    const menu = editor.page.locator('#red-ui-workspace-context-menu');
    await menu.getByText('Turn function nodes into modelet stages', { exact: true }).click();
    await waitForType(editor, 'parse', 'modelet-stage');

    const stage = await editor.saved('parse');
    const [runtime, ...others] = await editor.configNodes();
    assert.deepEqual([runtime?.type, others], ['modelet-runtime', []]);
    assert.deepEqual([stage['source'], stage['code'], stage['setup']], ['inline', CODE, 'node.log("on");']);
    assert.deepEqual([stage['runtime'], stage['runTimeoutMs'], stage['outputs']], [runtime?.id, 2000, 1]);
    for (const kept of ['name', 'z', 'g', 'x', 'y', 'wires'] as const)
      assert.deepEqual(stage[kept], before[kept], kept);
    assert.deepEqual((await editor.saved('in')).wires, [['parse']]);
    assert.deepEqual((await editor.saved('g'))['nodes'], ['parse']);

    await editor.page.keyboard.press('ControlOrMeta+z');
    await waitForType(editor, 'parse', 'function');
    assert.deepEqual([await editor.saved('parse'), await editor.configNodes()], [before, []]);
    assert.deepEqual([(await editor.saved('in')).wires, (await editor.saved('g'))['nodes']], [[['parse']], ['parse']]);

    await editor.page.keyboard.press('ControlOrMeta+y');
    await waitForType(editor, 'parse', 'modelet-stage');
    assert.deepEqual(await editor.saved('parse'), stage);
    await editor.deploy();
    await editor.waitForBadge('parse', READY);

    await select(editor, 'parse');
    await invoke(editor, TO_FUNCTION);
    await waitForType(editor, 'parse', 'function');
    const { func, timeout, initialize } = await editor.saved('parse');
    assert.deepEqual([func, timeout, initialize], [CODE, 2, 'node.log("on");']);
  });
});

test('a name with characters of HTML is shown as it is when its node has become a stage', async () => {
  const name = 'a <b>bold</b> name & more';
  await session.inEditor(flows(CODE, { name }), async (editor) => {
    await select(editor, 'parse');
    await invoke(editor, TO_STAGE);
    const told = editor.page.locator('.red-ui-notification', { hasText: 'bold' });
    await told.waitFor();
    assert.ok((await told.textContent())?.includes(name), (await told.textContent()) ?? '');
  });
});

test('the action names by line what a worker does not have, and marks it if the node becomes a stage anyway', async () => {
  const code =
    "const key = msg.topic;\nflow.set('count', flow.get(key, msg.store) + 1);\nsetTimeout(() => node.send(msg), 10);\nreturn [msg, null];";
  await session.inEditor(flows(code, { outputs: 2, wires: [['out'], []] }), async (editor) => {
    await select(editor, 'parse');
    await invoke(editor, TO_STAGE);
    const asked = editor.page.locator('.red-ui-notification', { hasText: 'does not work the same way' });
    await asked.waitFor();
    assert.deepEqual(await asked.locator('li').allTextContents(), [
      'On Message, line 2: flow.get(key, msg.store): a worker has get, set, keys, increment and update in the tab On Message, and only of stores that the code names as text',
      'On Message, line 3: setTimeout: a timer may fire after the run: wait for it in a promise, or call node.done() at the end',
      'On Message, line 3: node.send: a stage can send only while its code runs: await it, or call node.done() at its end',
    ]);
    await asked.getByRole('button', { name: 'Cancel' }).click();
    await asked.waitFor({ state: 'detached' });
    assert.equal((await editor.saved('parse')).type, 'function');

    await invoke(editor, TO_STAGE);
    await asked.getByRole('button', { name: 'Convert and mark the lines' }).click();
    await waitForType(editor, 'parse', 'modelet-stage');
    const lines = String((await editor.saved('parse'))['code']).split('\n');
    assert.deepEqual(
      lines.map((line) => (line.startsWith('// modelet: ') ? 'mark' : line)),
      code.split('\n').flatMap((line, at) => [...['mark', 'mark'].slice(0, at === 1 || at === 2 ? at : 0), line]),
    );
    const { wires, outputs } = await editor.saved('parse');
    assert.deepEqual([wires, outputs], [[['out'], []], 2]);
    await editor.page.keyboard.press('ControlOrMeta+z');
    await waitForType(editor, 'parse', 'function');
    assert.deepEqual((await editor.saved('parse')).wires, [['out'], []]);

    await select(editor, 'out');
    await invoke(editor, TO_STAGE);
    await editor.page.getByText('Select the function nodes that should become stages.').waitFor();
  });
});

test('the sidebar names a function node that blocks Node-RED, and makes a stage of it', async () => {
  const busy = 'const end = Date.now() + 250; while (Date.now() < end); return msg;';
  const button = { id: 'button', type: 'inject', z: TAB.id, name: 'button', x: 115, y: 200, wires: [['parse']] };
  await session.inEditor([...flows(busy), { ...button, props: [] }], async (editor) => {
    const sidebar = await SidebarPage.show(editor);
    const row = sidebar.root.locator('.modelet-sb-blocking-row', { hasText: /^parse blocked Node-RED for .*\d/ });
    await until('the sidebar names it', async () => {
      await editor.node('button').locator('.red-ui-flow-node-button-button').click();
      return (await row.count()) > 0;
    });
    await row.getByRole('button', { name: 'Turn into a stage' }).click();
    await waitForType(editor, 'parse', 'modelet-stage');
    await row.waitFor({ state: 'detached' });
    await editor.page.locator('.modelet-sb-blocking').waitFor({ state: 'hidden' });
  });
});

test('an exec node that runs a Python file becomes a Python stage, after the action has named what differs', async () => {
  const file = join(session.nodeRed.userDir, 'told.py');
  writeFileSync(file, 'print("told")\n');
  const exec = {
    ...{ id: 'parse', type: 'exec', command: `python3 ${file}`, addpay: 'payload' },
    wires: [['out'], [], []],
  };
  const kept = flows('').filter((node) => (node as { id: string }).id !== 'parse');
  await session.inEditor([...kept, { ...exec, z: TAB.id, g: 'g', x: 340, y: 100 }], async (editor) => {
    await select(editor, 'parse');
    await invoke(editor, TO_STAGE);
    const asked = editor.page.locator('.red-ui-notification', { hasText: 'does not work the same way' });
    await asked.locator('li', { hasText: 'Command, line 1: msg.rc: a stage does not set it' }).waitFor();
    await asked.getByRole('button', { name: 'Convert and mark the lines' }).click();
    await waitForType(editor, 'parse', 'modelet-stage');
    const stage = await editor.saved('parse');
    assert.deepEqual([stage['source'], stage['python'], stage.wires], ['python-code', 'python3', [['out']]]);
    assert.match(String(stage['code']), /^# modelet: Command, line 1: msg\.rc: .*\nsys\.argv\[:\] = \[FILE, /);
    await editor.page.keyboard.press('ControlOrMeta+z');
    await waitForType(editor, 'parse', 'exec');
  });
});
