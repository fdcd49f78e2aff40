/** The editor's import and export dialogs. */
import type { Locator } from 'playwright-core';
import type { EditorPage } from './editor-page.ts';
import type { EditorGlobals, ExportedNode } from './in-page.ts';

declare const RED: EditorGlobals;

const DIALOG = '#red-ui-clipboard-dialog';
const EXAMPLES_TAB = `${DIALOG}-import-tab-examples`;

/** Imports flows as text, and places them on the canvas. With `again` they are there already: copies of them. */
export async function importFlows(
  editor: EditorPage,
  flows: readonly object[],
  { again = false }: { readonly again?: boolean } = {},
): Promise<void> {
  await editor.choose('menu-item-import');
  const text = editor.page.locator(`${DIALOG}-import-text`);
  await text.fill(JSON.stringify(flows));
  // Only a key, released, makes the dialog look at the text.
  await text.press('End');
  await finishImport(editor, again);
}

/** The examples of a package under Menu > Import > Examples. */
export async function listExamples(editor: EditorPage, packageName: string): Promise<string[]> {
  const names = await (await openExamples(editor, packageName)).allTextContents();
  await editor.page.locator(`${DIALOG}-cancel`).click();
  return names;
}

/** Imports an example, and places it on the canvas if it has no tab. */
export async function importExample(
  editor: EditorPage,
  packageName: string,
  name: string,
  { again = false }: { readonly again?: boolean } = {},
): Promise<void> {
  await (await openExamples(editor, packageName)).getByText(name, { exact: true }).click();
  await finishImport(editor, again);
}

/** All that the export dialog offers, on all tabs. */
export async function exportAll(editor: EditorPage): Promise<ExportedNode[]> {
  await editor.choose('menu-item-export');
  await editor.page.locator(`${DIALOG}-export-rng-full`).click();
  const text = await editor.page.locator(`${DIALOG}-export-text`).inputValue();
  await editor.page.locator(`${DIALOG}-cancel`).click();
  return JSON.parse(text) as ExportedNode[];
}

async function openExamples(editor: EditorPage, packageName: string): Promise<Locator> {
  await editor.choose('menu-item-import');
  await editor.page.locator(`#red-ui-tab-${EXAMPLES_TAB.slice(1)}`).click();
  const name = editor.page.getByText(packageName, { exact: true });
  await editor.page.locator(EXAMPLES_TAB).locator(name).click();
  const names = editor.page.locator(`${EXAMPLES_TAB} li`, { has: name }).last().locator('li .red-ui-treeList-label');
  await names.first().waitFor();
  await editor.settle();
  return names;
}

async function finishImport(editor: EditorPage, again = false): Promise<void> {
  const before = (await editor.nodes()).length;
  await editor.page.locator(`${DIALOG}-ok`).click();
  if (again) await editor.page.getByRole('button', { name: 'Import copy' }).click();
  await editor.page.waitForFunction((count) => {
    let now = 0;
    RED.nodes?.eachNode(() => {
      now += 1;
    });
    return now > count;
  }, before);
  // Flows without a tab hang on the mouse until a click puts them down.
  if (!(await editor.page.evaluate(() => RED.view.state() === RED.state.IMPORT_DRAGGING))) return;
  await editor.chart.click({ position: { x: 500, y: 250 } });
  await editor.page.waitForFunction(() => RED.view.state() === RED.state.DEFAULT);
}
