/** The sidebar "modelets" for accounts that may not do everything. */
import { describe, test } from 'node:test';
import { runtime, stage, TAB } from '../fixtures/flow.ts';
import { startSession } from './session.ts';
import { SidebarPage } from './sidebar-page.ts';

const files = { 'flows.json': JSON.stringify([TAB, runtime(), stage('one', 'return input;', [])]) };

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
