/** The tab "Modules" of a stage with inline code. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Locator } from 'playwright-core';
import { until } from '../fixtures/polling.ts';
import { exportAll } from './clipboard.ts';
import type { EditorPage } from './editor-page.ts';
import { Form } from './form.ts';
import { startSession } from './session.ts';
import { validityOf } from './trials.ts';

interface Language {
  readonly javascriptDefaults: { getExtraLibs(): Readonly<Record<string, { readonly content: string }>> };
}

/** The code editor that Node-RED has by default. */
declare const monaco: { readonly typescript?: Language; readonly languages: { readonly typescript: Language } };

const session = startSession({
  completesCode: true,
  settings: { externalModules: { modules: { allowInstall: false, denyList: ['forbidden', 'node:child_process'] } } },
});

const ROW = '#modelet-stage-libs .modelet-lib';

async function showModules(editor: EditorPage): Promise<void> {
  const tab = editor.page.locator('#modelet-stage-modules');
  // Node-RED 4.1 takes two clicks within 400 ms for a double click, also on different tabs, and ignores the second.
  for (let clicks = 0; clicks === 0 || (clicks < 5 && !(await tab.isVisible())); clicks += 1) {
    await editor.page.locator('#red-ui-tab-modelet-stage-modules').click();
  }
  await tab.waitFor();
}

async function addRow(editor: EditorPage): Promise<Record<'module' | 'variable', Locator>> {
  await editor.page.locator('#modelet-stage-modules .red-ui-editableList-addButton:visible').click();
  const row = editor.page.locator(ROW).last();
  return { module: row.locator('.modelet-lib-module'), variable: row.locator('.modelet-lib-var') };
}

/** The reason shown on a red field; blank if it is not red. */
async function reasonOf(field: Locator): Promise<string> {
  const isRed = await field.evaluate(({ classList }) => classList.contains('input-error'));
  assert.equal(await field.locator('xpath=..').locator('.modelet-lib-sign').isVisible(), isRed);
  const reason = (await field.getAttribute('title')) ?? '';
  assert.equal(reason !== '', isRed);
  return reason;
}

test('the stage dialog lists modules, saves, exports and shows them again, and declares their variables to the code editors', async () => {
  await session.inEditor([], async (editor) => {
    const id = await editor.dragFromPalette('modelet-stage', 400, 100);
    await editor.open(id);
    await showModules(editor);
    await editor.page
      .locator('#modelet-stage-no-install')
      .getByText(/^The settings of Node-RED do not let it/)
      .waitFor();
    const jpeg = await addRow(editor);
    await editor.fill(jpeg.module, 'jpeg-js@^0.4');
    assert.equal(await jpeg.variable.inputValue(), 'jpegJs', 'a name is suggested');
    await editor.fill(jpeg.variable, 'jpeg');
    await editor.fill(jpeg.module, 'jpeg-js@0.4');
    assert.equal(await jpeg.variable.inputValue(), 'jpeg', 'a name that was chosen stays');
    await addRow(editor);
    const path = await addRow(editor);
    await editor.fill(path.module, 'node:path');
    assert.deepEqual(await editor.page.evaluate(declaredModules), ['jpeg', 'path']);
    await editor.ok();

    const libs = [
      { var: 'jpeg', module: 'jpeg-js@0.4' },
      { var: 'path', module: 'node:path' },
    ];
    assert.deepEqual(await validityOf(editor, id), { valid: true, errors: [] });
    assert.deepEqual((await exportAll(editor)).find((node) => node.id === id)?.['libs'], libs);

    await editor.open(id);
    await showModules(editor);
    assert.deepEqual(await editor.page.locator(`${ROW} .modelet-lib-module`).evaluateAll(values), [
      'jpeg-js@0.4',
      'node:path',
    ]);
    await editor.page.locator('#modelet-stage-libs .red-ui-editableList-item-remove').first().click();
    await editor.ok();
    assert.deepEqual((await editor.saved(id))['libs'], libs.slice(1));

    // The fields that each source uses.
    await editor.open(id);
    const form = new Form(editor);
    await form.set({ source: 'module', module: 'some-model@2' });
    await editor.ok();
    assert.deepEqual((await editor.saved(id))['libs'], [{ var: '', module: 'some-model@2' }]);
    await editor.open(id);
    await form.set({ source: 'inline' });
    await editor.ok();
    assert.deepEqual((await editor.saved(id))['libs'], []);
  });
});

const REFUSED: readonly (readonly [module: string, variable: string, ofModule: RegExp, ofVariable: RegExp])[] = [
  ['../mine', 'mine', /^must be the name of an npm module$/, /^$/],
  ['forbidden@1', 'it', /^is not allowed by the settings of Node-RED \(externalModules\)$/, /^$/],
  ['node:child_process', 'it', /^is not allowed by the settings/, /^$/],
  ['a-module', 'a-module', /^$/, /^cannot name a variable$/],
  ['a-module', 'input', /^$/, /^is a word of JavaScript or a name that the code has anyway$/],
  ['a-module', 'os', /^$/, /^is the variable of two modules$/],
];

test('a module or variable that the stage cannot use is marked with a reason in the dialog and on the canvas', async () => {
  await session.inEditor([], async (editor) => {
    const id = await editor.dragFromPalette('modelet-stage', 400, 100);
    await editor.open(id);
    await showModules(editor);
    const os = await addRow(editor);
    await editor.fill(os.module, 'os');
    const row = await addRow(editor);
    for (const [module, variable, ofModule, ofVariable] of REFUSED) {
      await editor.fill(row.module, module);
      await editor.fill(row.variable, variable);
      assert.match(await reasonOf(row.module), ofModule);
      assert.match(await reasonOf(row.variable), ofVariable);
    }
    await editor.page.locator(`${ROW} .modelet-lib-sign:visible`).last().hover();
    await editor.page.locator('.red-ui-popover-content', { hasText: /^is the variable of two modules$/ }).waitFor();
    await editor.ok();
    const reason = 'Modules: "os" is the variable of two modules';
    assert.deepEqual(await validityOf(editor, id), { valid: false, errors: [reason] });

    await editor.open(id);
    await showModules(editor);
    await editor.fill(editor.page.locator(`${ROW} .modelet-lib-var`).last(), 'other');
    assert.equal(await reasonOf(editor.page.locator(`${ROW} .modelet-lib-var`).first()), '');
    await editor.ok();
    assert.deepEqual(await validityOf(editor, id), { valid: true, errors: [] });
  });
});

test('a module that Node-RED could not install marks its stage with the reason', async () => {
  await session.inEditor([], async (editor) => {
    const id = await editor.dragFromPalette('modelet-stage', 400, 100);
    await editor.open(id);
    await showModules(editor);
    const row = await addRow(editor);
    await editor.fill(row.module, 'not-there@1');
    await editor.ok();
    assert.deepEqual((await validityOf(editor, id)).valid, true);
    await editor.page.locator('#red-ui-header-button-deploy').click();
    const reason = 'Modules: "not-there@1" could not be installed (install_not_allowed)';
    await until('it is marked', async () =>
      (await editor.nodes()).some((node) => node.id === id && node.errors.includes(reason)),
    );
    assert.deepEqual(await validityOf(editor, id), { valid: false, errors: [reason] });
  });
});

function values(inputs: readonly Element[]): string[] {
  return inputs.map((input) => (input as HTMLInputElement).value);
}

/** Variables that the code editors take for declared, after those that inline code has anyway. */
function declaredModules(): string[] {
  const language = monaco.typescript ?? monaco.languages.typescript;
  const { content } = language.javascriptDefaults.getExtraLibs()['file://types/modelet/inline.d.ts'] ?? { content: '' };
  const [, after = ''] = content.split('declare function require');
  return [...after.matchAll(/declare var (\w+): any;/g)].map(([, name]) => String(name));
}
