/** Every tab of every dialog, light and dark: nothing sticks out, and people of all kinds can read and name what is there. */
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { test } from 'node:test';
import type { AxeResults, RunOptions } from 'axe-core';
import { NODE_RED } from '../../fixtures/editor.ts';
import { isConfig, NODE_SCHEMAS } from '../../fixtures/node-schemas.ts';
import { repositoryRoot } from '../../fixtures/repository.ts';
import type { EditorPage } from '../editor-page.ts';
import { Form } from '../form.ts';
import { overflowOf } from '../in-page.ts';
import { UPDATES_PICTURES } from '../picture.ts';
import { sharedSession } from '../session.ts';

declare const axe: { run(context: object, options: RunOptions): Promise<AxeResults> };
declare const document: { documentElement: { classList: { toggle(name: string, isOn: boolean): void } } };

const session = sharedSession();

const AXE = createRequire(import.meta.url).resolve('axe-core/axe.min.js');
const RULES = [
  ...['label', 'select-name', 'button-name', 'link-name', 'summary-name', 'aria-valid-attr-value'],
  ...['aria-allowed-attr', 'aria-required-attr', 'aria-roles', 'aria-input-field-name', 'aria-toggle-field-name'],
];
/** The rule that depends on the theme. */
const CONTRAST = 'color-contrast';
/** Node-RED 4.1 has one theme. */
const THEMES = NODE_RED === 'node-red-4' ? ['light'] : ['light', 'dark'];
/** Parts of our dialogs that Node-RED draws: traps for password managers, code editors, typed inputs, tabs, and the choice of a configuration node. */
const OF_NODE_RED = [
  '[id^="red-ui-trap-"]',
  ...[
    '.monaco-editor',
    '.ace_editor',
    '.red-ui-typedInput-container',
    '.red-ui-tabs',
    '.red-ui-editableList-addButton',
  ],
  ...['[id^="node-input-lookup-"]', '[id^="node-input-btn-"]', 'select#node-input-runtime'],
];
/** High enough for the longest tab: what is out of sight has no colours to judge. */
const ROOM = { width: 1280, height: 2200 };

/** Looks at the page that is shown, in both themes. @returns what is wrong with it */
async function look(editor: EditorPage, name: string): Promise<string[]> {
  const overflow = await editor.page.locator('.modelet-form').last().evaluate(overflowOf);
  const faults = overflow > 0 ? [`${name} is ${overflow} px too wide`] : [];
  for (const theme of THEMES) {
    // As the setting of Node-RED 5 does.
    await editor.page.evaluate(
      (isDark) => document.documentElement.classList.toggle('nr-theme-dark', isDark),
      theme === 'dark',
    );
    // For people to look at; git ignores the folder.
    const path = join(repositoryRoot, 'test-results', 'dialogs', `${name}-${theme}.png`);
    if (UPDATES_PICTURES) await editor.page.screenshot({ path });
    const { violations, passes } = await editor.page.evaluate(
      ([rules, exclude]) =>
        axe.run(
          { include: ['.red-ui-tray:last-of-type .red-ui-tray-body'], exclude },
          { runOnly: { type: 'rule', values: rules }, resultTypes: ['violations', 'passes'] },
        ),
      [theme === 'light' ? [...RULES, CONTRAST] : [CONTRAST], OF_NODE_RED] as const,
    );
    const judged = [...passes, ...violations].filter(({ id }) => id === CONTRAST).flatMap(({ nodes }) => nodes);
    assert.ok(
      judged.some(({ html }) => !/^<(input|select)/.test(html)),
      `${name}, ${theme}: axe sees its texts`,
    );
    for (const { id, nodes } of violations) {
      for (const { target, any } of nodes)
        faults.push(`${name}, ${theme}: ${id} of ${target.join(' ')}: ${any[0]?.message ?? ''}`);
    }
  }
  await editor.page.evaluate(() => document.documentElement.classList.toggle('nr-theme-dark', false));
  return faults;
}

async function lookAtTabs(editor: EditorPage, type: string, form: Form): Promise<string[]> {
  await form.unfold();
  const tray = editor.page.locator('.red-ui-tray-body').last();
  const tabs = await tray.locator('.modelet-page').evaluateAll((pages) => pages.map(({ id }) => id));
  if (tabs.length === 0) return look(editor, type);
  const faults: string[] = [];
  for (const tab of tabs) {
    await editor.openTab(tab);
    faults.push(...(await look(editor, tab)));
  }
  return faults;
}

/** The first tab of a stage has other fields for each source. */
async function lookAtSources(editor: EditorPage, form: Form): Promise<string[]> {
  const faults: string[] = [];
  for (const source of ['onnx', 'python', 'file']) {
    await form.set({ source });
    if (source === 'file') {
      await form.set({ path: 'no-such.js' });
      await editor.page.locator('#modelet-stage-create').waitFor();
      await editor.page.locator('#modelet-stage-browse').click();
      await editor.page.locator('#modelet-stage-files button').first().waitFor();
    }
    faults.push(...(await look(editor, `modelet-stage-${source}`)));
  }
  await form.set({ source: 'inline' });
  return faults;
}

test('every tab of every dialog fits in, and each control has a name and can be read in both themes', async () => {
  await session.inEditor([], async (editor) => {
    const faults: string[] = [];
    await editor.page.addScriptTag({ path: AXE });
    // All of the editor stands outside of its body, which has no height: to axe, nothing of it can be seen.
    const style = await editor.page.addStyleTag({ content: 'html, body { height: 100% !important }' });
    const types = Object.keys(NODE_SCHEMAS);
    assert.equal(types.length, 12);
    for (const [index, type] of types.filter((name) => !isConfig(name)).entries()) {
      const id = await editor.dragFromPalette(type, 300, 60 + 60 * index);
      const before = editor.page.viewportSize();
      await editor.page.setViewportSize(ROOM);
      await editor.open(id);
      faults.push(...(await lookAtTabs(editor, type, new Form(editor))));
      if (type === 'modelet-stage') {
        faults.push(...(await lookAtSources(editor, new Form(editor))));
        await editor.openConfig('runtime');
        faults.push(...(await lookAtTabs(editor, 'modelet-runtime', new Form(editor, 'config'))));
        await editor.openConfig('keys', 'add');
        await editor.page.locator('.red-ui-editableList-addButton').last().click();
        faults.push(...(await lookAtTabs(editor, 'modelet-keys', new Form(editor, 'config'))));
        await editor.cancel();
        await editor.openConfig('broker', 'add');
        faults.push(...(await lookAtTabs(editor, 'modelet-broker', new Form(editor, 'config'))));
        await editor.cancel();
        await editor.cancel();
      }
      await editor.cancel();
      if (before) await editor.page.setViewportSize(before);
    }
    await style.evaluate((element) => (element as unknown as { remove(): void }).remove());
    assert.deepEqual(faults, []);
  });
});
