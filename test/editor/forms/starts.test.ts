/** The dialog of a stage gives code to start with, and leaves alone what somebody has written. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { repositoryRoot } from '../../fixtures/repository.ts';
import { Form } from '../form.ts';
import { sharedSession } from '../session.ts';

const session = sharedSession();

test('the code of a new stage follows its call until somebody writes code', async () => {
  await session.inEditor([], async (editor) => {
    const stage = await editor.dragFromPalette('modelet-stage', 400, 100);
    await editor.open(stage);
    const form = new Form(editor);
    const code = async (): Promise<string> => String((await form.get(['code']))['code']);
    assert.match(await code(), /return input;$/);
    await form.set({ predict: 'batch' });
    assert.match(await code(), /return input\.map\(\(value\) => value\);$/);
    await form.set({ source: 'python' });
    await form.set({ source: 'inline', predict: 'item' });
    assert.match(await code(), /return input;$/);
    await form.set({ code: 'return input + 1;', predict: 'batch' });
    assert.equal(await code(), 'return input + 1;');
    await editor.cancel();
  });
});

test('for a file that does not exist the dialog has a class to copy, and for one that exists it has none', async () => {
  await session.inEditor([], async (editor) => {
    const stage = await editor.dragFromPalette('modelet-stage', 400, 100);
    await editor.open(stage);
    const form = new Form(editor);
    const sample = editor.page.locator('#modelet-stage-sample');
    for (const [source, predict, name] of [
      ['file', 'item', 'item.js'],
      ['python', 'batch', 'batch.py'],
    ] as const) {
      const text = readFileSync(join(repositoryRoot, 'resources', 'start', name), 'utf8');
      await form.set({ source, predict, path: 'nowhere' });
      await editor.page.locator('#modelet-stage-resolved .modelet-bad').first().waitFor();
      if (!(await sample.locator('pre').isVisible())) await sample.locator('summary').click();
      await sample.locator('pre', { hasText: text.slice(-60).trim() }).waitFor();
      assert.equal(await sample.locator('pre').textContent(), text);
      await form.set({ path: join(repositoryRoot, 'resources', 'start', name) });
      await sample.waitFor({ state: 'hidden' });
    }
    await form.set({ source: 'onnx' });
    assert.equal(await sample.isVisible(), false);
    await editor.cancel();
  });
});
