/** The width of a stage's dialog: the test stands beside the code where there is room, and nothing else changes it. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isConfig, NODE_SCHEMAS } from '../../fixtures/node-schemas.ts';
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

type Box = Awaited<ReturnType<typeof boxOf>>;

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

/** In a window of this size: whether the test is unfolded, the places of dialog, code and result, and what is too wide. */
async function layOut(editor: EditorPage, width: number, height: number): Promise<Layout> {
  const { page } = editor;
  await page.setViewportSize({ width, height });
  await editor.open('plain');
  const body = page.locator('.red-ui-tray-body').last();
  const run = page.getByRole('button', { name: 'Run', exact: true });
  const isUnfolded = await run.isVisible();
  if (!isUnfolded) await page.locator('#modelet-stage-test > summary').click();
  await page.getByLabel('Input (JSON)').fill('{"a": 21}');
  await editor.typeCode('code', 'console.log("logged"); return input.a * 2;');
  await run.click();
  await page.locator('#modelet-stage-test-result').getByText('42', { exact: true }).waitFor();
  const [dialog, code, result, log] = await Promise.all([
    boxOf(body),
    boxOf(page.locator('#modelet-stage-code-editor')),
    boxOf(page.locator('#modelet-stage-test-result')),
    boxOf(page.locator('#modelet-stage-test-log')),
  ]);
  const overflow = await editor.page.locator('.modelet-form').last().evaluate(overflowOf);
  const scrolled = await page.locator('.modelet-form').last().evaluate(scrolledBy);
  return { isUnfolded, dialog, code, result, log, overflow, scrolled };
}

interface Scrolled {
  readonly scrollTop: number;
  readonly parentElement: Scrolled | null;
}

/** Runs in the page. */
function scrolledBy(form: Scrolled): number {
  let most = 0;
  for (let at: Scrolled | null = form; at; at = at.parentElement) most = Math.max(most, at.scrollTop);
  return most;
}

interface Layout extends Record<'dialog' | 'code' | 'result' | 'log', Box> {
  readonly isUnfolded: boolean;
  readonly overflow: number;
  readonly scrolled: number;
}

test('the test of a stage stands beside its code, in sight, and below it where the window is narrow', async () => {
  await session.inEditor(FLOWS, async (editor) => {
    for (const [width, height] of [
      [1440, 900],
      [1280, 720],
    ] as const) {
      const size = `${width} x ${height}`;
      const { isUnfolded, dialog, code, result, log, overflow, scrolled } = await layOut(editor, width, height);
      assert.ok(isUnfolded, `${size}: unfolded`);
      assert.ok(result.x >= code.x + code.width, `${size}: the result is beside the code`);
      assert.equal(scrolled, 0, `${size}: nothing is scrolled`);
      for (const [name, box] of Object.entries({ result, log })) {
        assert.ok(box.y + box.height <= dialog.y + dialog.height, `${size}: the ${name} is in sight`);
      }
      assert.ok(code.y + 100 <= dialog.y + dialog.height, `${size}: the code is in sight`);
      assert.equal(overflow, 0, size);
      // The dialog follows a window that becomes narrower, and the test moves below the code.
      await editor.page.setViewportSize({ width: 1000, height });
      assert.equal(await editor.page.locator('.modelet-form').last().evaluate(overflowOf), 0, 'narrower');
      const [above, below] = await Promise.all([
        boxOf(editor.page.locator('#modelet-stage-code-editor')),
        boxOf(editor.page.locator('#modelet-stage-test-result')),
      ]);
      assert.ok(below.y >= above.y + above.height, 'the result is below the code');
      await editor.cancel();
    }
    const { isUnfolded, code, result, overflow } = await layOut(editor, 1000, 720);
    assert.ok(!isUnfolded, 'folded in a narrow window');
    assert.ok(result.y >= code.y + code.height, 'the result is below the code');
    assert.equal(overflow, 0);
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
