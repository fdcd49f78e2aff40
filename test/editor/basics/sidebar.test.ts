/** The sidebar "modelets" under load: all its figures. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { until } from '../../fixtures/polling.ts';
import { sharedSession } from '../session.ts';
import { SidebarPage } from '../sidebar-page.ts';
import { FLOWS, stageNow, underLoad, whenReady } from '../sums.ts';

declare const RED: {
  readonly settings: Record<string, unknown>;
  readonly nodes: { node(id: string): Record<string, unknown> };
  readonly view: { selection(): { readonly nodes?: readonly { readonly id: string }[] } };
};

const session = sharedSession();

test('the sidebar shows stages, workers and rates while requests come', async () => {
  await session.inEditor(FLOWS, async (editor) => {
    await whenReady(editor);
    const sidebar = await SidebarPage.show(editor);
    const drawn = await sidebar.stage('second').elementHandle();
    await underLoad(async () => {
      assert.ok((await sidebar.rateOf('first')) > 0);
      assert.ok((await sidebar.rateOf('second')) > 0);
      await sidebar.figure('req/s').filter({ hasText: /[1-9]/ }).waitFor();
      await sidebar.figure('p99').filter({ hasText: /\d/ }).waitFor();
      assert.equal(await sidebar.figure('err/s').textContent(), '0');
      await sidebar
        .stage('second')
        .getByText(/^[\d.]+ of 8$/)
        .waitFor();
      // Under the line that is drawn, also after a while.
      const line = sidebar.stage('second').locator('path').last();
      await until(
        'the curve has several points',
        async () => ((await line.getAttribute('d')) ?? '').split('L').length > 3,
      );
      await until(
        'the last 20 requests are there',
        async () => (await sidebar.root.locator('.modelet-sb-request').count()) === 20,
      );
    });
    const pids = (await stageNow('first')).workers.map(({ pid }) => pid);
    assert.deepEqual(await sidebar.pidsOf('first'), pids);
    await sidebar.root.getByText(/event loop: \d+ % busy/).waitFor();
    await sidebar.root.getByText(/^\d+ % of their time: /).waitFor();
    assert.doesNotMatch(await sidebar.root.innerHTML(), /other nodes/, 'the load is its own');
    await sidebar.stage('broken').locator('.modelet-sb-why').waitFor();
    const verdict = sidebar.root.locator('.modelet-sb-verdict-text');
    await verdict.filter({ hasText: /^broken: does not start: / }).waitFor();
    await sidebar.root.locator('.modelet-sb-verdict-slowest', { hasText: /^Slowest stage .*: .*runs \d/ }).waitFor();
    await verdict.click();
    assert.deepEqual(await editor.page.evaluate(() => RED.view.selection().nodes?.map(({ id }) => id)), ['broken']);
    const opened = editor.page.waitForEvent('popup');
    await sidebar.root.locator('a.modelet-sb-api').click();
    const page = await opened;
    await page.locator('[data-path="/sums"]').waitFor();
    await page.close();
    // A link does not carry the token of an account that has logged in.
    await editor.page.evaluate(() => {
      RED.settings['user'] = { username: 'somebody', permissions: '*' };
    });
    await sidebar.root.locator('a.modelet-sb-api').waitFor({ state: 'hidden' });
    await editor.page.evaluate(() => {
      RED.nodes.node('runtime')['publicPath'] = '/ops/';
    });
    await sidebar.root.locator('a.modelet-sb-api[href="/ops/openapi"]').waitFor();
    await editor.page.evaluate(() => {
      delete RED.settings['user'];
    });
    // Updated in place, and within the sidebar's width.
    assert.equal(await sidebar.stage('second').evaluate((now, before) => now === before, drawn), true);
    assert.ok(await sidebar.root.evaluate(({ scrollWidth, clientWidth }) => scrollWidth <= clientWidth));
  });
});
