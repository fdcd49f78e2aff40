/** The button in the dialog of a deployed stage that gives the stage new workers. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { RuntimeSnapshot } from '../../../src/observe/views/snapshot.ts';
import { READY } from '../../fixtures/badges.ts';
import { until } from '../../fixtures/polling.ts';
import type { EditorPage } from '../editor-page.ts';
import { sharedSession } from '../session.ts';

const FLOWS = [
  { id: 'tab', type: 'tab', label: 'Tab' },
  { id: 'runtime', type: 'modelet-runtime', name: 'default' },
  {
    ...{ id: 'stage', z: 'tab', type: 'modelet-stage', name: '<b>digits</b>', runtime: 'runtime' },
    ...{ code: 'return 1;', workers: '2', x: 300, y: 100, wires: [[]] },
  },
];

const session = sharedSession();
async function workers(): Promise<RuntimeSnapshot['stages'][number]['workers']> {
  const response = await fetch(`${session.nodeRed.editorUrl}modelets/snapshot`);
  const { runtimes } = (await response.json()) as { runtimes: RuntimeSnapshot[] };
  return runtimes[0]?.stages[0]?.workers ?? [];
}

/** The button of the stage's dialog, once that has asked what is deployed. */
async function openDialog(editor: EditorPage): Promise<ReturnType<EditorPage['node']>> {
  await editor.waitForBadge('stage', READY);
  await editor.open('stage');
  await editor.openTab('modelet-stage-live');
  const button = editor.page.locator('#modelet-stage-restart');
  await button.waitFor();
  return button;
}

test('the restart button gives a stage new workers, and a notification says so', async () => {
  await session.inEditor(FLOWS, async (editor) => {
    const button = await openDialog(editor);
    const old = (await workers()).map(({ pid }) => pid);
    await button.click();
    await editor.page.locator('.red-ui-notification', { hasText: '"<b>digits</b>" gets new workers' }).waitFor();
    await until('both workers are new', async () => {
      const now = await workers();
      return now.length === 2 && now.every(({ pid, state }) => state === 'ready' && !old.includes(pid));
    });
    assert.equal(await button.isEnabled(), true);
    await editor.cancel();
  });
});

test('the restart button shows why Node-RED refused the restart', async () => {
  await session.inEditor(FLOWS, async (editor) => {
    const button = await openDialog(editor);
    await editor.page.route('**/modelets/stages/*/restart', (route) => route.fulfill({ status: 404 }));
    await button.click();
    await editor.page.locator('.red-ui-notification-error', { hasText: '"<b>digits</b>" is not deployed' }).waitFor();
    await editor.cancel();
    await editor.page.unrouteAll();
    // The browser itself reports the answer on its console.
    assert.match(editor.problems.splice(0).join(), /404/);
  });
});
