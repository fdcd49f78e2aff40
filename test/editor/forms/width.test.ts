/** The width of a stage's dialog: the test stands beside the code where there is room, and nothing else changes it. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isConfig, NODE_SCHEMAS } from '../../fixtures/node-schemas.ts';
import { until } from '../../fixtures/polling.ts';
import type { EditorPage } from '../editor-page.ts';
import { boxOf } from '../editor-page.ts';
import { overflowOf } from '../in-page.ts';
import { sharedSession } from '../session.ts';

const session = sharedSession();

const FLOWS = [
  { id: 'tab', type: 'tab', label: 'Widths' },
  { id: 'runtime', type: 'modelet-runtime', name: 'default' },
  ...['plain', 'checked'].map((id, index) => ({
    ...{ id, z: 'tab', type: 'modelet-stage', name: id, runtime: 'runtime', code: 'return 1;' },
    ...{ x: 300, y: 100 + 100 * index, wires: [[]], inputSchema: id === 'checked' ? '{"type":"object"}' : '' },
  })),
];

async function widthOf(editor: EditorPage): Promise<number> {
  await editor.settle();
  return Math.round((await boxOf(editor.page.locator('.red-ui-tray').last())).width);
}

test('the stage dialog keeps its width while schemas are folded, unfolded and edited, and when it is opened again', async () => {
  await session.inEditor(FLOWS, async (editor) => {
    const summary = editor.page.locator('#modelet-stage-more > summary');
    const edit = editor.page.locator('#modelet-stage-inputSchema-edit');
    await editor.open('plain');
    const before = await widthOf(editor);
    const widths: Record<string, number> = {};
    await summary.click();
    widths['unfolded'] = await widthOf(editor);
    await summary.click();
    widths['folded'] = await widthOf(editor);
    await editor.openTab('modelet-stage-io');
    widths['the tab with the schemas'] = await widthOf(editor);
    await edit.click();
    await edit.waitFor({ state: 'detached' });
    await editor.settle();
    await editor.page.locator('#node-dialog-cancel').click();
    await edit.waitFor();
    widths['edited'] = await widthOf(editor);
    await editor.cancel();
    await editor.open('plain');
    widths['again'] = await widthOf(editor);
    await editor.cancel();
    await editor.open('checked');
    widths['with a schema'] = await widthOf(editor);
    await editor.cancel();
    await editor.open('plain');
    widths['after one with a schema'] = await widthOf(editor);
    await editor.cancel();
    for (const [when, width] of Object.entries(widths)) assert.equal(width, before, when);
  });
});

interface Box {
  readonly left: number;
  readonly top: number;
  readonly right: number;
  readonly bottom: number;
}

type Places = Record<'dialog' | 'code' | 'result' | 'log', Box>;

/** The places of the dialog and of parts of its stage tab, and by how much the form is too wide. */
interface Layout extends Places {
  readonly overflow: number;
}

interface Element {
  scrollTop: number;
  readonly parentElement: Element | null;
  getBoundingClientRect(): Box;
  closest(selector: string): Element | null;
}

declare const document: { querySelector(selector: string): Element };
declare const innerWidth: number;

/** Runs in the page. Reads all places at once, scrolled to their beginning: the editor draws its code anew at any time. */
function placesNow(): Places {
  const code = document.querySelector('#modelet-stage-code-editor');
  for (let at: Element | null = code; at; at = at.parentElement) at.scrollTop = 0;
  const boxOf = (element: Element): Box => {
    const { left, top, right, bottom } = element.getBoundingClientRect();
    return { left, top, right, bottom };
  };
  const dialog = boxOf(code.closest('.red-ui-tray-body') as Element);
  const result = boxOf(document.querySelector('#modelet-stage-test-result'));
  return { dialog, code: boxOf(code), result, log: boxOf(document.querySelector('#modelet-stage-test-log')) };
}

function besideAndInSight({ dialog, code, result, log, overflow }: Layout): Record<string, boolean> {
  return {
    'the result is beside the code': result.left >= code.right,
    'the result is in sight': result.bottom <= dialog.bottom,
    'the log is in sight': log.bottom <= dialog.bottom,
    'the code is in sight': code.top + 100 <= dialog.bottom,
    'nothing is too wide': overflow === 0,
  };
}

function below({ code, result, overflow }: Layout): Record<string, boolean> {
  return { 'the result is below the code': result.top >= code.bottom, 'nothing is too wide': overflow === 0 };
}

/** Waits until the layout is as wanted. A dialog follows its window, and a code editor its dialog, some frames later. */
async function waitForLayout(
  editor: EditorPage,
  size: string,
  judge: (layout: Layout) => Record<string, boolean>,
): Promise<void> {
  let layout: Layout | undefined;
  await until(`the layout in ${size} is right`, async () => {
    const overflow = await editor.page.locator('.modelet-form').last().evaluate(overflowOf);
    layout = { ...(await editor.page.evaluate(placesNow)), overflow };
    return Object.values(judge(layout)).every(Boolean);
  }).catch(() => assert.fail(`${size}: ${JSON.stringify({ ...(layout && judge(layout)), ...layout })}`));
}

/** Opens the stage's dialog in a window of this size, and runs its test. Returns whether the test was unfolded. */
async function openAndRun(editor: EditorPage, width: number, height: number): Promise<boolean> {
  const { page } = editor;
  await page.setViewportSize({ width, height });
  await page.waitForFunction((wanted) => innerWidth === wanted, width);
  await editor.open('plain');
  const test = page.locator('#modelet-stage-test');
  const isUnfolded = (await test.getAttribute('open')) !== null;
  // Not by a click: the dialog may still move.
  if (!isUnfolded) await test.evaluate((details) => details.setAttribute('open', ''));
  await page.getByLabel('Input (JSON)').fill('{"a": 21}');
  await editor.typeCode('code', 'console.log("logged"); return input.a * 2;');
  await page.getByRole('button', { name: 'Run', exact: true }).click();
  await page.locator('#modelet-stage-test-result').getByText('42', { exact: true }).waitFor();
  await page.locator('#modelet-stage-test-log').getByText('logged').waitFor();
  return isUnfolded;
}

test('the test of a stage stands beside its code, in sight, and below it where the window is narrow', async () => {
  await session.inEditor(FLOWS, async (editor) => {
    for (const [width, height] of [
      [1440, 900],
      [1280, 720],
    ] as const) {
      const size = `${width} x ${height}`;
      assert.ok(await openAndRun(editor, width, height), `${size}: unfolded`);
      await waitForLayout(editor, size, besideAndInSight);
      // The dialog follows a window that becomes narrower, and the test moves below the code.
      await editor.page.setViewportSize({ width: 1000, height });
      await waitForLayout(editor, `${size}, then 1000`, below);
      await editor.cancel();
    }
    assert.ok(!(await openAndRun(editor, 1000, 720)), 'folded in a narrow window');
    await waitForLayout(editor, '1000 x 720', below);
    await editor.cancel();
  });
});

/** Runs in the page. Gives each field and text of the open dialog more content, without a place to break it. */
function lengthen(body: Lengthened): void {
  const long = 'unbreakable'.repeat(40);
  for (const details of body.querySelectorAll('details')) details.open = true;
  for (const hidden of body.querySelectorAll('.modelet-page .form-row, .modelet-page .modelet-hint')) {
    hidden.style.removeProperty('display');
  }
  for (const text of body.querySelectorAll(
    '.modelet-hint, .modelet-hint code, .modelet-text, .form-tips, .modelet-formula, .modelet-form pre, #modelet-stage-install span',
  )) {
    text.append(long);
  }
  for (const field of body.querySelectorAll('.modelet-form input[type="text"], .modelet-form textarea'))
    field.value = long;
}

interface Lengthened {
  querySelectorAll(selector: string): Iterable<{
    open: boolean;
    value: string;
    readonly style: { removeProperty(name: string): void };
    append(text: string): void;
  }>;
}

/** Returns the tabs of the topmost dialog that are too wide with long content. */
async function tooWide(editor: EditorPage, type: string): Promise<string[]> {
  const body = editor.page.locator('.red-ui-tray-body').last();
  const tabs = await body.locator('.modelet-page').evaluateAll((pages) => pages.map((page) => page.id));
  const wide: string[] = [];
  for (const tab of tabs.length > 0 ? tabs : ['']) {
    if (tab) await editor.openTab(tab);
    await body.evaluate(lengthen);
    const overflow = await editor.page.locator('.modelet-form').last().evaluate(overflowOf);
    if (overflow > 0) wide.push(`${type} ${tab}: ${overflow} px`);
  }
  return wide;
}

test('no tab of a dialog is wider than the dialog, whatever its fields and texts hold', async () => {
  await session.inEditor([], async (editor) => {
    const wide: string[] = [];
    for (const [index, type] of Object.keys(NODE_SCHEMAS)
      .filter((name) => !isConfig(name))
      .entries()) {
      const id = await editor.dragFromPalette(type, 300, 60 + 50 * index);
      await editor.open(id);
      if (type === 'modelet-stage') {
        await editor.openConfig('runtime');
        for (const property of ['keys', 'broker']) {
          await editor.openConfig(property, 'add');
          wide.push(...(await tooWide(editor, property)));
          await editor.cancel();
        }
        wide.push(...(await tooWide(editor, 'modelet-runtime')));
        await editor.cancel();
      }
      wide.push(...(await tooWide(editor, type)));
      await editor.cancel();
    }
    assert.deepEqual(wide, []);
  });
});
