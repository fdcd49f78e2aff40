/** Red triangles while wiring: they come and go with the wires, before anything is deployed. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Route } from 'playwright-core';
import { batcher, runtime, sink, stage, TAB } from '../../fixtures/flow.ts';
import type { EditorPage } from '../editor-page.ts';
import { sharedSession } from '../session.ts';

/** Node-RED's jQuery: number of open requests. */
declare const $: { readonly active: number };
declare const RED: {
  readonly actions: { invoke(action: string): void };
  readonly editor: { edit(node: unknown): void };
  readonly nodes: { node(id: string): unknown };
};

const session = sharedSession();

const at = (x: number, y: number): object => ({ x, y });

async function waitForMark(editor: EditorPage, id: string, state: 'visible' | 'hidden'): Promise<string> {
  await editor.node(id).locator('.red-ui-flow-node-error').waitFor({ state });
  return (await editor.nodes()).find((node) => node.id === id)?.errors.join() ?? '';
}

test('a wire that is missing or wrong marks its node at once, and Deploy lists it', async () => {
  const flows = [
    ...[TAB, runtime()],
    { ...batcher('batch', [], { name: 'ten' }), ...at(160, 100) },
    { ...stage('work', 'return input;', 'seen'), ...at(360, 100) },
    { ...stage('more', 'return input;', []), ...at(360, 220) },
    { ...sink('seen'), ...at(580, 100) },
  ];
  await session.inEditor(flows, async (editor) => {
    await editor.wire('batch', 'work');
    await editor.wire('batch', 'more');
    assert.match(
      await waitForMark(editor, 'batch', 'visible'),
      /^a batcher must be wired to exactly one modelet stage/,
    );
    assert.match(await waitForMark(editor, 'more', 'visible'), /^its result goes nowhere: wire its output/);
    await editor.node('batch').locator('.red-ui-flow-node-error').hover();
    await editor.page.locator('.red-ui-flow-port-tooltip', { hasText: 'exactly one modelet stage' }).waitFor();
    await editor.page.locator('#red-ui-header-button-deploy').click();
    const question = editor.page.locator('.red-ui-notification', { hasText: 'ten (modelet-batcher)' });
    await question.waitFor();
    await question.locator('button').first().click();
    await question.waitFor({ state: 'detached' });

    // A fault of the wires marks no field of the dialog, and survives it.
    await editor.open('batch');
    assert.equal(await editor.page.locator('.red-ui-tray .input-error').count(), 0);
    await editor.fill(editor.field('name'), 'eleven');
    await editor.ok();
    await waitForMark(editor, 'batch', 'visible');

    // An edit takes the marks off its nodes before the server has judged it, so that Deploy does not ask.
    const late: Route[] = [];
    await editor.page.route('**/modelets/wiring', (route) => void late.push(route));
    await editor.page.keyboard.press('ControlOrMeta+z');
    await editor.page.keyboard.press('ControlOrMeta+z');
    assert.equal(await waitForMark(editor, 'batch', 'hidden'), '');
    assert.equal(await waitForMark(editor, 'more', 'hidden'), '');
    await editor.deploy();
    await editor.page.unroute('**/modelets/wiring');
    // Those that the page still waits for: the next test counts open requests.
    await Promise.allSettled(late.map((route) => route.continue()));
  });
});

test('a setting that the wires leave without effect marks its node, and the mark goes with the wire', async () => {
  const drops = { overflow: 'drop-oldest', dropKey: 'topic' };
  const flows = [
    ...[TAB, runtime()],
    { ...stage('first', 'return input;', 'work', drops), ...at(160, 100) },
    { ...stage('other', 'return input;', []), ...at(160, 220) },
    { ...stage('work', 'return input;', 'seen', { ...drops, overflow: 'auto' }), ...at(360, 100) },
    { ...sink('seen'), ...at(580, 100) },
  ];
  await session.inEditor(flows, async (editor) => {
    await editor.wire('other', 'work');
    assert.match(await waitForMark(editor, 'work', 'visible'), /^Drop key topic has no effect: When full does not/);
    await editor.node('work').locator('.red-ui-flow-node-error').hover();
    await editor.page.locator('.red-ui-flow-port-tooltip', { hasText: 'has no effect' }).waitFor();
    await editor.page.keyboard.press('ControlOrMeta+z');
    assert.equal(await waitForMark(editor, 'work', 'hidden'), '');
  });
});

test('an answer of the server about wires that have changed since marks nothing', async () => {
  const flows = [
    ...[TAB, runtime()],
    { ...batcher('batch', 'work'), ...at(160, 100) },
    { ...stage('work', 'return input;', 'seen'), ...at(360, 100) },
    { ...stage('more', 'return input;', 'seen'), ...at(360, 220) },
    { ...sink('seen'), ...at(580, 100) },
  ];
  await session.inEditor(flows, async (editor) => {
    const { page } = editor;
    const asked = new Promise<Route>((resolve) => {
      const aboutTwoWires = (route: Route): unknown =>
        route.request().postData()?.includes('["work","more"]') ? resolve(route) : route.continue();
      void page.route('**/modelets/wiring', aboutTwoWires);
    });
    await editor.wire('batch', 'more');
    const early = await asked;
    // While a dialog is open, the editor asks nothing more, so that the early answer is the last one.
    await page.evaluate(() => {
      RED.actions.invoke('core:undo');
      RED.editor.edit(RED.nodes.node('work'));
    });
    await editor.settle();
    await early.continue();
    await page.waitForFunction(() => $.active === 0);
    assert.equal(await waitForMark(editor, 'batch', 'hidden'), '');
    await editor.ok();
    await editor.deploy();
    await page.unroute('**/modelets/wiring');
  });
});
