/** The sidebar "modelets" and the dialog of a gate for accounts with few permissions. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { ACCOUNT } from '../fixtures/editor.ts';
import { dispatchGate, runtime, stage, TAB } from '../fixtures/flow.ts';
import { Form } from './form.ts';
import { startSession } from './session.ts';
import { SidebarPage } from './sidebar-page.ts';

declare const localStorage: { setItem(key: string, value: string): void; removeItem(key: string): void };

const FLOWS = [TAB, runtime(), dispatchGate('gate', 'one', [], { y: 200 }), stage('one', 'return input;', [])];
const files = { 'flows.json': JSON.stringify(FLOWS) };

/** The permissions of users who do not log in. */
function allowing(permissions: string | readonly string[]): {
  readonly settings: object;
  readonly files: typeof files;
} {
  return { files, settings: { adminAuth: { type: 'credentials', users: [], default: { permissions } } } };
}

describe('an account that may only read', () => {
  const session = startSession(allowing('read'));

  test('sees stages and gates in the sidebar, without buttons that change them', async () => {
    await session.inDeployed(async (editor) => {
      const sidebar = await SidebarPage.show(editor);
      await sidebar.showWorkers('one');
      await sidebar.stage('one').locator('.modelet-sb-act').first().waitFor({ state: 'hidden' });
      await sidebar.stage('one').locator('.modelet-sb-act').last().waitFor({ state: 'hidden' });
      const gate = sidebar.root.locator('[data-gate="gate"]');
      await gate.locator('summary').click();
      await gate.locator('.modelet-sb-why', { hasText: /^open/ }).waitFor();
      assert.equal(await gate.locator('.modelet-sb-act:visible').count(), 0);
    });
    const command = await fetch(`${session.nodeRed.editorUrl}modelets/gates/gate/close`, { method: 'POST' });
    assert.equal(command.status, 401, 'nor may it without them');
  });

  test('sees a gate in its dialog, without buttons that command or test it', async () => {
    await session.inDeployed(async (editor) => {
      await editor.open('gate');
      const gate = editor.page.locator('#modelet-gate-live .modelet-sb-gate');
      await gate.locator('summary').click();
      await gate.locator('.modelet-sb-why', { hasText: /^open/ }).waitFor();
      assert.equal(await gate.locator('.modelet-sb-act:visible').count(), 0);
      await new Form(editor).set({ source: 'scrape' });
      assert.equal(await editor.page.locator('#modelet-gate-test').isDisabled(), true);
      await editor.cancel();
    });
  });
});

describe('an account that may not read the pipelines', () => {
  const may = ['flows', 'nodes', 'settings', 'status', 'library', 'context', 'plugins'].map((what) => `${what}.read`);
  const session = startSession(allowing(may));

  test('sees in the sidebar which permission is missing, and is not asked to log in', async () => {
    await session.inDeployed(async (editor) => {
      const sidebar = await SidebarPage.show(editor);
      await sidebar.root.getByText(/modelets\.read/).waitFor();
      await editor.page.locator('#node-dialog-login').waitFor({ state: 'detached' });
    });
  });

  test('reads on the dashboard what it lacks, and gets none of its events', async () => {
    await session.inDeployed(async (editor) => {
      const { editorUrl } = session.nodeRed;
      assert.equal((await fetch(`${editorUrl}modelets/dashboard/events`)).status, 401);
      const page = await editor.page.context().newPage();
      await page.goto(`${editorUrl}modelets/dashboard`);
      await page.getByText(/^Log in to the editor/).waitFor();
      await page.evaluate(() => localStorage.setItem('auth-tokens-editor', '{"access_token":"of nobody"}'));
      await page.reload();
      await page.getByText(/^Your account lacks the permission modelets\.read/).waitFor();
      assert.equal(await page.locator('#body').isVisible(), false);
      await page.evaluate(() => localStorage.removeItem('auth-tokens-editor'));
      await page.close();
    });
  });
});

describe('an account that has logged in', () => {
  const password = 'open sesame';
  const users = [
    {
      username: ACCOUNT,
      password: '$2b$04$e.LxUAdMcPqz2cCRoLJAdu1RfeWWC6U4u.pBUJ3dTuXIz4IsXCm1S',
      permissions: 'read',
    },
  ];
  const session = startSession({ files, settings: { adminAuth: { type: 'credentials', users } } });

  test('gets view after view in the sidebar with its token', async () => {
    const { editorUrl } = session.nodeRed;
    const form = { client_id: 'node-red-editor', grant_type: 'password', scope: 'read', username: ACCOUNT, password };
    const login = await fetch(`${editorUrl}auth/token`, { method: 'POST', body: new URLSearchParams(form) });
    const { access_token } = (await login.json()) as { readonly access_token: string };
    assert.equal((await fetch(`${editorUrl}modelets/view`)).status, 401);
    await session.inDeployed(async (editor) => {
      const sidebar = await SidebarPage.show(editor);
      for (let views = 0; views < 3; views += 1) {
        const view = await editor.page.waitForResponse((response) => response.url().includes('modelets/view'));
        assert.deepEqual([view.status(), new URL(view.url()).search], [200, '']);
      }
      await sidebar.showWorkers('one');
      const opened = editor.page.waitForEvent('popup');
      await sidebar.root.locator('.modelet-sb-dashboard').click();
      const page = await opened;
      await page.locator('#connection[data-kind="live"]').waitFor();
      await page.locator('#workers tbody tr', { hasText: 'one' }).waitFor();
      await page.close();
    }, access_token);
  });
});
