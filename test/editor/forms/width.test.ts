/** A dialog keeps its width when parts of it are folded or unfolded. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { EditorPage } from '../editor-page.ts';
import { boxOf } from '../editor-page.ts';
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
    await editor.open('plain');
    const before = await widthOf(editor);
    const widths: Record<string, number> = {};
    await summary.click();
    widths['unfolded'] = await widthOf(editor);
    await editor.page.locator('#modelet-stage-inputSchema-edit').click();
    await summary.waitFor({ state: 'detached' });
    await editor.settle();
    await editor.page.locator('#node-dialog-cancel').click();
    await summary.waitFor();
    widths['edited'] = await widthOf(editor);
    await summary.click();
    widths['folded'] = await widthOf(editor);
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
