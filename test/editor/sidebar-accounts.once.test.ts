/** The sidebar "modelets" for accounts that may not do everything. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { dispatchGate, runtime, stage, TAB } from '../fixtures/flow.ts';
import { Form } from './form.ts';
import { startSession } from './session.ts';
import { SidebarPage } from './sidebar-page.ts';

const FLOWS = [TAB, runtime(), dispatchGate('gate', 'one', [], { y: 200 }), stage('one', 'return input;', [])];
const files = { 'flows.json': JSON.stringify(FLOWS) };

/** What people may do who do not log in. */
function allowing(permissions: string | readonly string[]): {
  readonly settings: object;
  readonly files: typeof files;
} {
  return { files, settings: { adminAuth: { type: 'credentials', users: [], default: { permissions } } } };
}

describe('the sidebar, to an account that may only read', () => {
  const session = startSession(allowing('read'));

  test('shows what runs and has no buttons to change it', async () => {
    await session.inDeployed(async (editor) => {
      const sidebar = await SidebarPage.show(editor);
      await sidebar.stage('one').locator('.modelet-sb-pid', { hasText: /\d/ }).waitFor();
      await sidebar.stage('one').locator('.modelet-sb-act').first().waitFor({ state: 'hidden' });
      await sidebar.stage('one').locator('.modelet-sb-act').last().waitFor({ state: 'hidden' });
      const gate = sidebar.root.locator('[data-gate="gate"]');
      await gate.locator('.modelet-sb-why', { hasText: /^open/ }).waitFor();
      assert.equal(await gate.locator('.modelet-sb-act:visible').count(), 0);
    });
    const command = await fetch(`${session.nodeRed.editorUrl}modelets/gates/gate/close`, { method: 'POST' });
    assert.equal(command.status, 401, 'nor may it without them');
  });

  test('shows a gate in its dialog, and has no buttons to command or try it', async () => {
    await session.inDeployed(async (editor) => {
      await editor.open('gate');
      const gate = editor.page.locator('#modelet-gate-live .modelet-sb-gate');
      await gate.locator('.modelet-sb-why', { hasText: /^open/ }).waitFor();
      assert.equal(await gate.locator('.modelet-sb-act:visible').count(), 0);
      await new Form(editor).set({ source: 'scrape' });
      assert.equal(await editor.page.locator('#modelet-gate-test').isDisabled(), true);
      await editor.cancel();
    });
  });
});

describe('the sidebar, to an account that may not read the pipelines', () => {
  const may = ['flows', 'nodes', 'settings', 'status', 'library', 'context', 'plugins'].map((what) => `${what}.read`);
  const session = startSession(allowing(may));

  test('says which permission is lacking, and asks for nothing', async () => {
    await session.inDeployed(async (editor) => {
      const sidebar = await SidebarPage.show(editor);
      await sidebar.root.getByText(/modelets\.read/).waitFor();
      await editor.page.locator('#node-dialog-login').waitFor({ state: 'detached' });
    });
  });
});
