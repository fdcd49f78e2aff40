/** Mistakes in code that runs: badge, sentence of the sidebar, and its buttons. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { READY } from '../../fixtures/badges.ts';
import { endpoint, runtime, stage, TAB } from '../../fixtures/flow.ts';
import { sharedSession } from '../session.ts';
import { SidebarPage } from '../sidebar-page.ts';

declare const document: { readonly activeElement: { readonly id: string } | null };

const session = sharedSession();

test('an endless loop: it is told while it runs, and both of its buttons help', async () => {
  const code = 'while (input.loops) ; return input;';
  const flows = [
    TAB,
    runtime('runtime', { timeoutMs: '1000' }),
    ...endpoint('/loop', 'looper'),
    stage('looper', code, 'collector /loop'),
  ];
  await session.inEditor(flows, async (editor) => {
    await editor.waitForBadge('looper', READY);
    const sidebar = await SidebarPage.show(editor);
    assert.equal((await session.nodeRed.post('/loop', { loops: true })).status, 408);
    await sidebar.verdict(
      /^looper has run one call for [\d.]+ s, and no caller waits for it any more: restart it, or set a run timeout\.$/,
      'slow',
    );
    await editor.waitForBadge('looper', /^1 of 1 busy, 1 overdue, one call for \d+/);
    await sidebar.root.getByRole('button', { name: 'Set a run timeout', exact: true }).click();
    await editor.settle(1);
    await editor.field('runTimeoutMs').waitFor();
    await editor.page.waitForFunction(() => document.activeElement?.id === 'node-input-runTimeoutMs');
    await editor.cancel();
    await sidebar.root.getByRole('button', { name: 'Restart', exact: true }).click();
    // The old worker has had no caller for longer than its 5 s of grace, or gets the rest of them.
    await editor.waitForBadge('looper', READY);
    await sidebar.verdict(/^1 x deadline_exceeded: /, 'slow');
    await sidebar.root.getByRole('button', { name: 'Seen', exact: true }).click();
    // What has been read is no news, but only an answer shows that it is over.
    await sidebar.verdict(
      /^the last request ended with deadline_exceeded, and no request was answered since: /,
      'note',
    );
    assert.equal((await session.nodeRed.post('/loop', { loops: false })).status, 200);
    await sidebar.allIsWell(session.nodeRed.url, { '/loop': { loops: false } });
  });
});
