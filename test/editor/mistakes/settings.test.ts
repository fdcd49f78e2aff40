/** Mistakes in settings: the badge, the sentence that begins the sidebar, and its buttons. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { READY } from '../../fixtures/badges.ts';
import { endpoint, runtime, stage, TAB } from '../../fixtures/flow.ts';
import type { EditorPage } from '../editor-page.ts';
import { sharedSession } from '../session.ts';
import { SidebarPage } from '../sidebar-page.ts';

declare const RED: {
  readonly actions: { invoke(action: string): void };
  readonly nodes: { node(id: string): { readonly runtime?: string } | null };
};

const session = sharedSession();

const DOUBLE = 'return input.n * 2;';

function runtimesOf(editor: EditorPage, ids: readonly string[]): Promise<(string | undefined)[]> {
  return editor.page.evaluate(
    (stages) =>
      stages.map((id) => {
        const chosen = RED.nodes.node(id)?.runtime;
        return chosen && RED.nodes.node(chosen) ? chosen : undefined;
      }),
    ids,
  );
}

test('a deleted runtime: one click makes one for all of its stages, and one undo takes it back', async () => {
  const stages = ['double', 'halve'];
  const flows = [
    TAB,
    ...endpoint('/double', 'double'),
    stage('double', DOUBLE, 'halve'),
    stage('halve', 'return input / 2;', 'collector /double'),
  ];
  await session.inEditor(flows, async (editor) => {
    await editor.waitForBadge('double', /^no runtime is selected/);
    const sidebar = await SidebarPage.show(editor);
    await sidebar.verdict(/^2 stages do not run, because they have no runtime: double, halve\.$/, 'error');
    await editor.restartFlows();
    for (const id of stages) {
      await editor.waitForDebug(new RegExp(`${id}msg : string\\[\\d+\\]"config_invalid: no runtime is selected`));
    }
    const create = sidebar.root.getByRole('button', { name: 'Create one for all' });
    await create.click();
    const [made, same] = await runtimesOf(editor, stages);
    assert.ok(made && made === same, 'both stages have the new runtime');
    await editor.page.evaluate(() => RED.actions.invoke('core:undo'));
    assert.deepEqual(await runtimesOf(editor, stages), [undefined, undefined]);
    assert.equal(await editor.page.evaluate((id) => Boolean(RED.nodes.node(id)), made), false, 'it is gone');

    await create.click();
    await editor.deploy();
    for (const id of stages) await editor.waitForBadge(id, READY);
    assert.equal(await (await session.nodeRed.post('/double', { n: 4 })).json(), 4);
    await sidebar.allIsWell(session.nodeRed.url, { '/double': { n: 4 } });
  });
});

test('On Start throws: the verdict has the whole message, which the badge cuts', async () => {
  const cause = 'the weights in the store are not those of this network: train it anew, or choose the old ones';
  const flows = [
    TAB,
    runtime(),
    ...endpoint('/double', 'double'),
    stage('double', DOUBLE, 'collector /double', { setup: `throw new Error(${JSON.stringify(cause)});` }),
  ];
  await session.inEditor(flows, async (editor) => {
    await editor.waitForBadge('double', /^does not start: the weights/);
    const sidebar = await SidebarPage.show(editor);
    await sidebar.verdict(new RegExp(`^double: does not start: .*${cause}`), 'error');
    await editor.waitForDebug(/double\/worker 0On Start:1:\d+ : msg : Object"did not start: the weights in the store/);
  });
});

test('new code that does not start: the verdict is not good while the old code answers', async () => {
  const flows = (code: string): object[] => [
    TAB,
    runtime(),
    ...endpoint('/double', 'double'),
    stage('double', code, 'collector /double'),
  ];
  await session.inEditor(flows(DOUBLE), async (editor) => {
    await editor.waitForBadge('double', READY);
    const sidebar = await SidebarPage.show(editor);
    await sidebar.allIsWell(session.nodeRed.url, { '/double': { n: 4 } });
    await editor.open('double');
    await editor.typeCode('code', 'return input.n *;');
    await editor.ok();
    await editor.deploy();
    await editor.waitForBadge('double', /^new code fails: line 1: Unexpected/);
    await sidebar.verdict(/^double: the new code does not start, so the old code answers: .*Unexpected token/, 'error');
    await editor.waitForDebug(/does not start: double: Predict:1: Unexpected token ';'/);
    assert.equal(await (await session.nodeRed.post('/double', { n: 4 })).json(), 8);

    await editor.open('double');
    await editor.openTab('modelet-stage-live');
    await editor.page.locator('#modelet-stage-error', { hasText: "double: Predict:1: Unexpected token ';'" }).waitFor();
    await editor.cancel();
  });
});
