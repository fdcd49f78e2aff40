/** Mistakes in code that runs: badge, sentence of the sidebar, and its buttons. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { READY } from '../../fixtures/badges.ts';
import { endpoint, runtime, stage, TAB } from '../../fixtures/flow.ts';
import { sharedSession } from '../session.ts';
import { SidebarPage } from '../sidebar-page.ts';

declare const document: { readonly activeElement: { readonly id: string } | null };

const session = sharedSession();

test('endless loops: they are told while they run, in old code too, and end by both buttons and with their callers', async () => {
  const code = 'while (input.loops) ; return input;';
  const flows = [
    TAB,
    runtime('runtime', { timeoutMs: '600000' }),
    ...endpoint('/loop', 'looper'),
    stage('looper', code, 'collector /loop', { x: 300 }),
    ...endpoint('/old', 'old'),
    stage('old', code, 'collector /old', { x: 300, y: 300 }),
  ];
  const post = (path: string, headers: Record<string, string>, signal: AbortSignal | null = null): Promise<Response> =>
    fetch(`${session.nodeRed.url}${path}`, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json', ...headers },
      body: '{"loops":true}',
      signal,
    });
  await session.inEditor(flows, async (editor) => {
    for (const id of ['looper', 'old']) await editor.waitForBadge(id, READY);
    const caller = new AbortController();
    const gone = assert.rejects(post('/old', {}, caller.signal), { name: 'AbortError' });
    await editor.waitForBadge('old', /^1 of 1 busy/);
    await editor.open('old');
    await editor.typeCode('code', 'return input;');
    await editor.ok();
    await editor.deploy();
    await editor.waitForBadge('old', READY);

    const sidebar = await SidebarPage.show(editor);
    assert.equal((await post('/loop', { timeout: '1000' })).status, 408);
    await sidebar.verdict(
      /^looper has run one call for [\d.]+ s, and no caller waits for it any more: restart it, or set a run timeout\.$/,
      'slow',
    );
    await editor.waitForBadge('looper', /^1 of 1 busy, 1 overdue, one call for \d+/);
    // The first finding. On a slow machine, the other stage may have one of the same kind.
    await sidebar.root.getByRole('button', { name: 'Set a run timeout', exact: true }).first().click();
    await editor.settle(1);
    await editor.field('runTimeoutMs').waitFor();
    await editor.page.waitForFunction(() => document.activeElement?.id === 'node-input-runTimeoutMs');
    await editor.cancel();
    await sidebar.root.getByRole('button', { name: 'Restart', exact: true }).first().click();
    // The old worker has had no caller for longer than its 5 s of grace, or gets the rest of them.
    await editor.waitForBadge('looper', READY);
    await editor.waitForDebug(/looper\/worker 0msg : string\[\d+\]"old worker was killed: a batch ran on for 5 s/);
    // The new code of the other stage answers, while its old worker burns a core for a caller that still waits.
    await sidebar.verdict(/^old: an old worker has run one call for [\d.]+ (s|min), and then ends\.$/, 'slow');
    assert.equal((await session.nodeRed.post('/old', { loops: true })).status, 200);
    caller.abort();
    await gone;
    await editor.waitForDebug(/old\/worker 0msg : string\[\d+\]"old worker was killed: a batch ran on for 5 s/);
    await sidebar.verdict(/^1 x deadline_exceeded: /, 'slow');
    await sidebar.root.getByRole('button', { name: 'Seen', exact: true }).click();
    // A failure that has been read is no news, but only an answer shows that it is over.
    await sidebar.verdict(
      /^the last request ended with deadline_exceeded, and no request was answered since: /,
      'note',
    );
    assert.equal((await session.nodeRed.post('/loop', { loops: false })).status, 200);
    await sidebar.root.getByRole('button', { name: 'Show all', exact: true }).click();
    await sidebar.allIsWell(session.nodeRed.url, { '/loop': { loops: false }, '/old': { loops: true } });
  });
});
