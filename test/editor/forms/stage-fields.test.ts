/** Fields of the stage's dialog that do more than hold a value. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isDeepStrictEqual } from 'node:util';
import type { Locator } from 'playwright-core';
import { until } from '../../fixtures/polling.ts';
import { Form } from '../form.ts';
import { sharedSession } from '../session.ts';

const session = sharedSession();

test('Tab leaves a code editor after Escape, which the dialog announces', async () => {
  await session.inEditor([], async (editor) => {
    const id = await editor.dragFromPalette('modelet-stage', 400, 100);
    await editor.open(id);
    await new Form(editor).set({ code: 'return 2;' });
    await editor.typeCode('code', 'return 3;');
    const holds = (): Promise<boolean> =>
      editor.page.evaluate("document.activeElement.closest('.node-text-editor') !== null");
    assert.equal(await holds(), true);
    await editor.page.keyboard.press('Escape');
    await editor.page.getByText('Tab now leaves the code editor.').filter({ visible: true }).waitFor();
    await editor.page.keyboard.press('Tab');
    assert.equal(await holds(), false);
    await editor.cancel();
  });
});

test('the code editors show the saved code, and cancelling the dialog changes nothing', async () => {
  await session.inEditor([], async (editor) => {
    const typed = {
      setup: "return { weights: require('fs').existsSync('x') };",
      code: 'return input.map((row) => row.length);',
      teardown: "node.log('ends');",
    };
    const id = await editor.dragFromPalette('modelet-stage', 400, 100);
    const form = new Form(editor);
    await editor.open(id);
    await form.set(typed);
    await editor.ok();
    const saved = await editor.saved(id);

    await editor.open(id);
    assert.deepEqual(await form.get(['setup', 'code', 'teardown']), typed);
    await form.set({
      setup: 'return 1;',
      code: 'return 2;',
      teardown: '',
      name: 'other',
      workers: '9',
      predict: 'batch',
    });
    await editor.cancel();
    assert.deepEqual(await editor.saved(id), saved);
  });
});

test('the core buttons of a stage compose its pins, and a note says what the pins mean', async () => {
  await session.inEditor([], async (editor) => {
    const id = await editor.dragFromPalette('modelet-stage', 400, 100);
    const form = new Form(editor);
    await editor.open(id);
    await editor.openTab('modelet-stage-workers');
    const core = (index: number) => editor.page.locator('.modelet-core').nth(index);
    const notes = editor.page.locator('.modelet-cpu-notes');
    await core(0).waitFor();
    const first = await core(0).textContent();

    await core(0).click();
    assert.equal(await editor.field('cpus').inputValue(), first);
    assert.equal(await core(0).getAttribute('aria-pressed'), 'true');
    await notes.getByText(`worker 0: core ${first}`, { exact: true }).waitFor();

    await form.set({ workers: '2' });
    await editor.openTab('modelet-stage-workers');
    await notes.getByText(`workers 0 and 1 share core ${first}`).waitFor();

    await editor.fill(editor.field('cpus'), '-,4000');
    await notes.getByText('worker 0: no pin').waitFor();
    await notes.getByText('core 4000 is not available here: that worker runs unpinned').waitFor();

    await editor.fill(editor.field('cpus'), '1-');
    await notes.getByText('cannot read "1-"').waitFor();
    await core(0).click();
    assert.equal(await editor.field('cpus').inputValue(), '1-', 'what cannot be read is not thrown away');

    await editor.page.locator('.modelet-clear').click();
    assert.equal(await editor.field('cpus').inputValue(), '');
    assert.equal(await core(0).getAttribute('aria-pressed'), 'false');
    await editor.cancel();
  });
});

test('the stage dialog marks a tab with a field that differs from its default, and one with a field that cannot be used', async () => {
  await session.inEditor([], async (editor) => {
    const id = await editor.dragFromPalette('modelet-stage', 400, 100);
    const form = new Form(editor);
    const marks = (): Promise<(string | null)[]> =>
      Promise.all(
        ['workers', 'queue'].map(async (page) => {
          const mark = editor.page.locator(`#red-ui-tab-modelet-stage-${page} .modelet-tab-mark`);
          return (await mark.isVisible()) ? await mark.getAttribute('aria-label') : null;
        }),
      );
    const areMarked = (...wanted: (string | null)[]): Promise<unknown> =>
      until(`the tabs are marked ${wanted}`, async () => isDeepStrictEqual(await marks(), wanted));
    const changed = 'a field on this tab differs from its default';

    await editor.open(id);
    await areMarked(null, null);
    await form.set({ retryLost: true });
    await areMarked(changed, null);
    await editor.ok();
    await editor.open(id);
    await areMarked(changed, null);
    await form.set({ retryLost: false, capacity: 'many' });
    await areMarked(null, 'a field on this tab cannot be used');
    await form.set({ capacity: '9' });
    await areMarked(null, changed);
    await editor.cancel();
  });
});

test('the fields for an ONNX model write to the JSON of Init and leave its other options alone', async () => {
  await session.inEditor([], async (editor) => {
    const id = await editor.dragFromPalette('modelet-stage', 400, 100);
    const form = new Form(editor);
    const option = (name: string): Locator => editor.page.locator(`#modelet-onnx-${name}`);
    await editor.open(id);
    await form.set({ source: 'onnx', path: 'model.onnx' });
    await form.unfold();
    await form.set({ init: '{"batch":true,"threads":2}' });
    assert.equal(await option('threads').inputValue(), '2');
    await editor.fill(option('labels'), 'cat, dog');
    await option('softmax').check();
    await editor.fill(option('threads'), '');
    const init = async (): Promise<unknown> => JSON.parse(String((await form.get(['init']))['init']));
    assert.deepEqual(await init(), { batch: true, labels: ['cat', 'dog'], softmax: true });
    await editor.fill(option('labels'), 'labels.json');
    await option('softmax').uncheck();
    await option('outputs').selectOption('tensors');
    assert.deepEqual(await init(), { batch: true, labels: 'labels.json', tensors: true });
    await editor.fill(option('pad'), 'input_ids=0, attention_mask = 1');
    const pad = { input_ids: 0, attention_mask: 1 };
    assert.deepEqual(await init(), { batch: true, labels: 'labels.json', tensors: true, pad });
    await form.set({ init: '{"pad":{"x":-1}}' });
    assert.equal(await option('pad').inputValue(), 'x=-1');
    await form.set({ init: '{"softmax":true}' });
    await option('takes').selectOption('picture');
    await option('resize').selectOption('letterbox');
    await editor.fill(option('mean'), '0.5, 0.4, 0.3');
    await option('gives').selectOption('boxes');
    await editor.fill(option('threshold'), '0.4');
    assert.equal(await option('softmax').isVisible(), false, 'boxes have scores by other means');
    const boxes = { resize: 'letterbox', mean: [0.5, 0.4, 0.3], gives: 'boxes', threshold: 0.4 };
    assert.deepEqual(await init(), { takes: 'picture', ...boxes });
    await option('takes').selectOption('tensors');
    assert.deepEqual(await init(), { gives: 'boxes', threshold: 0.4 }, 'options of the preset before are gone');
    await form.set({ init: '{"gives":"embedding","pooling":"cls"}' });
    assert.equal(await option('pooling').inputValue(), 'cls');
    await form.set({ init: '{' });
    assert.equal(await option('labels').isDisabled(), true, 'there is nothing to write to');
    await editor.cancel();
  });
});

test('the options of a known model are fields of its task, by what goes in, and the folder says what it lacks', async () => {
  await session.inEditor([], async (editor) => {
    const id = await editor.dragFromPalette('modelet-stage', 400, 100);
    const form = new Form(editor);
    const option = (name: string): Locator => editor.page.locator(`#modelet-task-${name}`);
    await editor.open(id);
    await form.set({ source: 'task', task: 'zero-shot-image-classification', model: '.' });
    await editor.page.getByText(/lacks config.json, preprocessor_config.json, tokenizer.json/).waitFor();
    assert.equal(await editor.page.locator('#node-input-task optgroup').count(), 5);
    await editor.fill(option('labels'), 'cat, dog');
    await editor.fill(option('maxMegapixels'), '12');
    const init = async (): Promise<unknown> => JSON.parse(String((await form.get(['init']))['init']));
    assert.deepEqual(await init(), { labels: ['cat', 'dog'], maxMegapixels: 12 });
    await form.set({ task: 'object-detection' });
    assert.deepEqual(await init(), { maxMegapixels: 12 }, 'options of the task before are gone');
    await editor.fill(option('threshold'), '0.9');
    await editor.fill(option('maxMegapixels'), '');
    assert.deepEqual(await init(), { threshold: 0.9 });
    await editor.ok();
    const saved = await editor.saved(id);
    assert.deepEqual([saved['task'], saved['model'], saved['init']], ['object-detection', '.', '{"threshold":0.9}']);
  });
});

test('the stage dialog asks for the size and lifetime of a cache only if the stage has a cache', async () => {
  await session.inEditor([], async (editor) => {
    await editor.open(await editor.dragFromPalette('modelet-stage', 400, 100));
    const form = new Form(editor);
    await editor.openTab('modelet-stage-queue');
    const shown = (): Promise<boolean[]> =>
      Promise.all(['cache', 'cacheMb', 'cacheTtlMs'].map((property) => form.element(property).isVisible()));
    assert.deepEqual(await shown(), [true, false, false]);
    await form.set({ cache: '20' });
    assert.deepEqual(await shown(), [true, true, true]);
    await form.set({ cache: '0' });
    assert.deepEqual(await shown(), [true, false, false]);
    await editor.cancel();
  });
});

test('the choice of isolation shows its use and its cost', async () => {
  await session.inEditor([], async (editor) => {
    const id = await editor.dragFromPalette('modelet-stage', 400, 100);
    const form = new Form(editor);
    await editor.open(id);
    await editor.openTab('modelet-stage-workers');
    const tip = editor.page.locator('#node-input-isolation ~ .modelet-hint');
    await tip.getByText(/^Right for every model\. .* ends one worker/).waitFor();
    await form.set({ isolation: 'thread' });
    await tip.getByText(/many small workers\. Do not use native add-ons: .* ends the engine/).waitFor();
    await editor.cancel();
  });
});
