/** Versions in the sidebar, which promotes them and rolls them back; and copies of stages with versions. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Locator } from 'playwright-core';
import { READY } from '../../fixtures/badges.ts';
import { endpoint, runtime, stage, TAB } from '../../fixtures/flow.ts';
import { sharedSession } from '../session.ts';
import { SidebarPage } from '../sidebar-page.ts';

const session = sharedSession();

const FLOWS = [
  TAB,
  runtime(),
  ...endpoint('/ask', 'base'),
  stage('base', "return 'base';", 'collector /ask', {
    ...{ versions: ['canary', 'shadow'], y: 200, x: 300 },
    shares: [{ share: '5' }, { share: '50', mode: 'shadow' }],
  }),
  stage('canary', "return 'canary';", [], { x: 300, y: 300 }),
  stage('shadow', "return 'shadow';", [], { x: 300, y: 400 }),
];

async function answer(): Promise<unknown> {
  return (await session.nodeRed.post('/ask', {})).text();
}

test('the sidebar shows what each version gets, promotes it, rolls it back, and restores the shares of the flow', async () => {
  await session.inEditor(FLOWS, async (editor) => {
    const sidebar = await SidebarPage.show(editor);
    const rows = sidebar.stage('base').locator('.modelet-sb-version');
    const press = (row: Locator, button: RegExp): Promise<void> => row.getByRole('button', { name: button }).click();
    const [canary, shadow] = [rows.first(), rows.last()];
    await canary.filter({ hasText: 'answers 5 %' }).waitFor();
    await shadow.filter({ hasText: 'shadow of 50 %' }).waitFor();
    await sidebar.stage('canary').locator('.modelet-sb-workers').first().waitFor();
    // Until they can answer, the base does.
    for (const version of ['canary', 'shadow']) await editor.waitForBadge(version, READY);

    await press(canary, /^Promote/);
    await canary.filter({ hasText: /answers 100 %.*changed by hand, in the flow: answers 5 %/ }).waitFor();
    assert.equal(await answer(), 'canary');
    await press(canary, /^Roll back/);
    await canary.filter({ hasText: /answers 0 %/ }).waitFor();
    assert.equal(await answer(), 'base');
    await press(shadow, /^Promote/);
    await shadow.filter({ hasText: /answers 100 %/ }).waitFor();
    assert.equal(await answer(), 'shadow');
    await press(shadow, /^Give all/);
    await canary.filter({ hasText: /answers 5 %/, hasNotText: /changed/ }).waitFor();
    await shadow.filter({ hasText: /shadow of 50 %/, hasNotText: /changed/ }).waitFor();
  });
});

test('a copy of a stage and its versions has the copies as its versions', async () => {
  await session.inEditor(FLOWS, async (editor) => {
    await editor.chart.click({ position: { x: 700, y: 450 } });
    await editor.page.keyboard.press('ControlOrMeta+a');
    await editor.page.keyboard.press('ControlOrMeta+c');
    await editor.page.keyboard.press('ControlOrMeta+v');
    await editor.chart.click({ position: { x: 500, y: 400 } });
    const nodes = await editor.nodes();
    const copyOf = (name: string): string => nodes.filter((node) => node.name === name).at(-1)?.id ?? '';
    assert.notEqual(copyOf('base'), 'base');
    const copy = await editor.saved(copyOf('base'));
    assert.deepEqual(copy['versions'], [copyOf('canary'), copyOf('shadow')]);
    assert.deepEqual((await editor.saved('base'))['versions'], ['canary', 'shadow']);
  });
});
