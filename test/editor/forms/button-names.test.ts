/** Screen readers can say what each button of a dialog does. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { NODE_SCHEMAS } from '../../fixtures/node-schemas.ts';
import { Form } from '../form.ts';
import { sharedSession } from '../session.ts';

const session = sharedSession();

/** Icons are characters of a font in this range: no words. */
const ICONS = /[\uE000-\uF8FF\s]/g;

test('every button in every dialog has a name for screen readers', async () => {
  await session.inEditor([], async (editor) => {
    const nameless: string[] = [];
    const check = async (type: string, form: Form): Promise<void> => {
      await form.unfold();
      const tray = editor.page.locator('.red-ui-tray-body').last();
      const tabs = await tray.locator('.modelet-page').evaluateAll((pages) => pages.map(({ id }) => id));
      const snapshots: string[] = tabs.length === 0 ? [await tray.ariaSnapshot()] : [];
      for (const tab of tabs) {
        await editor.openTab(tab);
        snapshots.push(await tray.ariaSnapshot());
      }
      const buttons = snapshots.flatMap((snapshot) => snapshot.split('\n').filter((line) => /^\s*- button/.test(line)));
      for (const button of buttons) {
        const name = /"([^"]*)"/.exec(button)?.[1] ?? '';
        if (name.replace(ICONS, '') === '') nameless.push(`${type}: ${button.trim()}`);
      }
      if (type === 'modelet-stage') assert.ok(buttons.length >= 4, `${buttons.length} buttons`);
    };
    const types = Object.keys(NODE_SCHEMAS);
    assert.equal(types.length, 7);
    for (const [index, type] of types.filter((name) => name !== 'modelet-runtime').entries()) {
      const id = await editor.dragFromPalette(type, 300, 60 + 60 * index);
      await editor.open(id);
      await check(type, new Form(editor));
      if (type === 'modelet-stage') {
        await editor.openConfig('runtime');
        await check('modelet-runtime', new Form(editor, 'config'));
        await editor.page.locator('#node-config-dialog-cancel').click();
        await editor.settle();
      }
      await editor.cancel();
    }
    assert.deepEqual(nameless, []);
  });
});
