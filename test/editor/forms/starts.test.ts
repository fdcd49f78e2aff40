/** The dialog of a stage gives code to start with, leaves alone what a user has written, and installs what a file lacks. */
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { READY } from '../../fixtures/badges.ts';
import { makeWheel, WITHOUT_PYTHON } from '../../fixtures/python.ts';
import { repositoryRoot } from '../../fixtures/repository.ts';
import { Form } from '../form.ts';
import { sharedSession } from '../session.ts';

// Node-RED starts later, and takes over these variables.
const wheels = mkdtempSync(join(tmpdir(), 'modelet-wheels-'));
after(() => rmSync(wheels, { recursive: true }));
process.env['PIP_NO_INDEX'] = '1';
process.env['PIP_FIND_LINKS'] = wheels;

const session = sharedSession();

test('the code of a new stage follows its call until a user writes code', async () => {
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

test('for a file that does not exist the dialog has a class to copy, and for an existing file it has none', async () => {
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

test('a file is found in the folders that the dialog lists, by mouse and by keyboard', async () => {
  const { userDir } = session.nodeRed;
  mkdirSync(join(userDir, 'shelf', 'inner'), { recursive: true });
  writeFileSync(join(userDir, 'shelf', 'inner', 'model.js'), 'export default (input) => input;\n');
  writeFileSync(join(userDir, 'shelf', 'notes.txt'), '');
  writeFileSync(join(userDir, 'shelf', 'inner', 'config.json'), '{}');
  await session.inEditor([], async (editor) => {
    await editor.open(await editor.dragFromPalette('modelet-stage', 400, 100));
    const form = new Form(editor);
    await form.set({ source: 'file' });
    const { page } = editor;
    const panel = page.locator('#modelet-stage-files');
    const entry = (name: string) => panel.getByRole('button', { name, exact: true });
    await page.locator('#modelet-stage-base', { hasText: `Relative paths start at ${userDir}` }).waitFor();
    await page.getByRole('button', { name: 'Browse the folders for files' }).click();
    await panel.locator('.modelet-path', { hasText: userDir }).waitFor();
    await entry('shelf').click();
    await entry('inner').waitFor();
    assert.deepEqual(await panel.getByRole('button').allTextContents(), [' one folder up', ' inner']);
    // The first entry has the focus.
    await page.keyboard.press('ArrowDown');
    await page.keyboard.press('Enter');
    await entry('model.js').waitFor();
    await page.keyboard.press('ArrowDown');
    await page.keyboard.press('Enter');
    await panel.waitFor({ state: 'hidden' });
    assert.equal(await editor.field('path').inputValue(), 'shelf/inner/model.js');
    await page.locator('#modelet-stage-resolved .modelet-good').waitFor();
    // It begins at the folder of the file, and Escape leaves the path alone.
    await page.locator('#modelet-stage-browse').click();
    await entry('model.js').waitFor();
    await page.keyboard.press('Escape');
    await panel.waitFor({ state: 'hidden' });
    assert.equal(await editor.field('path').inputValue(), 'shelf/inner/model.js');
    await form.set({ path: 'no/such/folder.js' });
    await page.locator('#modelet-stage-browse').click();
    await entry('shelf').waitFor();
    // The folder of a known model is found by a file that it has.
    await form.set({ source: 'task' });
    await page.locator('#modelet-stage-browse-model').click();
    for (const name of ['shelf', 'inner', 'config.json']) {
      await page.locator('#modelet-stage-folders').getByRole('button', { name, exact: true }).click();
    }
    assert.equal(await editor.field('model').inputValue(), 'shelf/inner');
    await editor.cancel();
  });
});

test('a button creates a file that is missing, which runs as it is, and none of the dialog replaces one', async () => {
  const { userDir } = session.nodeRed;
  await session.inEditor([], async (editor) => {
    await editor.open(await editor.dragFromPalette('modelet-stage', 400, 100));
    const form = new Form(editor);
    const { page } = editor;
    const create = page.getByRole('button', { name: 'Create this file' });
    for (const [source, predict, path, sample, result] of [
      ['file', 'batch', 'fresh/batch.mjs', '[1]', '['],
      ['python', 'item', 'fresh/deep/item.py', '"told"', '"told"'],
    ] as const) {
      if (source === 'python' && WITHOUT_PYTHON) continue;
      await form.set({ source, predict, path });
      await create.click();
      await page.locator('#modelet-stage-created', { hasText: 'Created.' }).waitFor();
      await page.locator('#modelet-stage-resolved .modelet-good').waitFor();
      await create.waitFor({ state: 'hidden' });
      const start = `${predict}.${source === 'python' ? 'py' : 'js'}`;
      const wanted = readFileSync(join(repositoryRoot, 'resources', 'start', start), 'utf8');
      assert.equal(readFileSync(join(userDir, path), 'utf8'), wanted);
      await page.getByLabel('Input (JSON)').fill(sample);
      await page.getByRole('button', { name: 'Run', exact: true }).click();
      await page.locator('#modelet-stage-test-result', { hasText: result }).waitFor();
    }
    // Another person creates the file meanwhile.
    await form.set({ source: 'file', path: 'fresh/late.js' });
    await create.waitFor();
    writeFileSync(join(userDir, 'fresh', 'late.js'), 'kept');
    await create.click();
    await page.locator('#modelet-stage-created', { hasText: 'is there already' }).waitFor();
    assert.equal(readFileSync(join(userDir, 'fresh', 'late.js'), 'utf8'), 'kept');
    assert.match(editor.problems.splice(0).join(), /409/);
    for (const path of ['../outside.js', 'fresh/late.js', 'fresh/late.txt']) {
      await form.set({ path });
      await page.locator('#modelet-stage-resolved', { hasText: path.replace('../', '') }).waitFor();
      assert.equal(await create.isVisible(), false, path);
    }
    await editor.cancel();
  });
});

test('a button installs what a Python file lacks, and the stage starts without a restart of Node-RED', {
  skip: WITHOUT_PYTHON,
}, async () => {
  const path = join(session.nodeRed.userDir, 'lacks.py');
  writeFileSync(path, 'import lightgbm\n\ndef predict(value):\n    return value\n');
  const place = { z: 'tab', x: 300, y: 100, wires: [[]] };
  const flows = [
    { id: 'tab', type: 'tab', label: 'Lacks' },
    { id: 'runtime', type: 'modelet-runtime', name: 'default' },
    { id: 'lacks', type: 'modelet-stage', runtime: 'runtime', source: 'python', path, ...place },
    { id: 'waits', type: 'modelet-stage', runtime: 'runtime', source: 'python', path, ...place, y: 200 },
  ];
  await session.inEditor(flows, async (editor) => {
    await editor.waitForBadge('lacks', /^does not start: .*lightgbm/);
    await editor.open('lacks');
    const row = editor.page.locator('#modelet-stage-packages');
    const button = editor.page.getByRole('button', { name: 'Install lightgbm' });
    const state = editor.page.locator('#modelet-stage-install-state');
    await row.getByText('Not installed: lightgbm').waitFor();
    await button.click();
    // The virtual environment takes seconds.
    await state.getByText('Installing lightgbm').waitFor();
    await state.getByText('Not installed: the installer reports an error.').waitFor();
    await editor.page.locator('#modelet-stage-install-log', { hasText: 'No matching distribution' }).waitFor();
    makeWheel(wheels, 'lightgbm');
    await button.click();
    await state.getByText('Installed: lightgbm. The stage restarts its workers with it.').waitFor();
    await row.getByText(join(session.nodeRed.userDir, '.venv')).waitFor();
    await row.getByText('Not installed').waitFor({ state: 'detached' });
    await button.waitFor({ state: 'hidden' });
    await editor.openTab('modelet-stage-live');
    await editor.page.locator('#modelet-stage-state', { hasText: 'idle, 1 worker' }).waitFor();
    await editor.cancel();
    await editor.waitForBadge('waits', READY);
  });
});

test('a button installs the requirements.txt beside a Python file into .venv there', {
  skip: WITHOUT_PYTHON,
}, async () => {
  const place = join(session.nodeRed.userDir, 'listed');
  mkdirSync(place);
  writeFileSync(join(place, 'model.py'), 'import nobody\n\ndef predict(value):\n    return value\n');
  writeFileSync(join(place, 'requirements.txt'), '--no-index\n--find-links .\nnobody\n');
  makeWheel(place, 'nobody');
  const flows = [
    { id: 'tab', type: 'tab', label: 'Lists' },
    { id: 'runtime', type: 'modelet-runtime', name: 'default' },
    {
      ...{ id: 'lists', type: 'modelet-stage', runtime: 'runtime', source: 'python', path: 'listed/model.py' },
      ...{ z: 'tab', x: 300, y: 100, wires: [[]] },
    },
  ];
  await session.inEditor(flows, async (editor) => {
    await editor.waitForBadge('lists', /^does not start: .*nobody/);
    await editor.open('lists');
    const row = editor.page.locator('#modelet-stage-packages');
    await row.getByText('Not installed: nobody').waitFor();
    await editor.page.getByRole('button', { name: 'Install requirements.txt' }).click();
    const state = editor.page.locator('#modelet-stage-install-state');
    await state.getByText('Installed: requirements.txt.').waitFor();
    await row.getByText(join(place, '.venv')).waitFor();
    await row.getByText('Not installed').waitFor({ state: 'detached' });
    await editor.openTab('modelet-stage-live');
    await editor.page.locator('#modelet-stage-restart').click();
    await editor.page.locator('#modelet-stage-state', { hasText: 'idle, 1 worker' }).waitFor();
    await editor.cancel();
  });
});

test('Python is written in the dialog: its code to start with, what it needs, its words, and the lines of its errors', {
  skip: WITHOUT_PYTHON,
}, async () => {
  makeWheel(wheels, 'somebody');
  await session.inEditor([], async (editor) => {
    const { page } = editor;
    const id = await editor.dragFromPalette('modelet-stage', 400, 100);
    await editor.open(id);
    const form = new Form(editor);
    const code = async (): Promise<string> => String((await form.get(['code']))['code']);
    await form.set({ code: 'return input * 2;', source: 'python-code' });
    assert.match(await code(), /^# input is msg\.payload; return the result\n?return input$/);
    await form.set({ predict: 'batch' });
    assert.match(await code(), /return \[value for value in input\]$/);
    // Each language keeps its code.
    await form.set({ source: 'inline' });
    assert.equal(await code(), 'return input * 2;');
    await form.set({ source: 'python-code', predict: 'item' });

    await editor.openTab('modelet-stage-modules');
    await page.locator('#modelet-stage-modules .red-ui-editableList-addButton:visible').click();
    const needed = page.locator('.modelet-requirement').last();
    await editor.fill(needed, '--option');
    assert.equal(await needed.getAttribute('title'), '"--option" is not the name of a Python package');
    await editor.fill(needed, 'somebody>=9');
    await page.locator('#modelet-stage-packages').getByText('Not installed: somebody>=9').waitFor();
    await page.getByRole('button', { name: 'Install somebody>=9' }).click();
    await page.locator('#modelet-stage-install-state').getByText('Installed: somebody>=9.').waitFor();

    await editor.typeCode('start', 'import somebody');
    await editor.typeCode('code', 'return (somebody.__name__ + input)');
    await page.getByLabel('Input (JSON)').fill('"!"');
    const run = page.getByRole('button', { name: 'Run', exact: true });
    const result = page.locator('#modelet-stage-test-result');
    await run.click();
    await result.getByText('"somebody!"', { exact: true }).waitFor();
    await page.getByLabel('Input (JSON)').fill('7');
    await editor.showCode('stop');
    await run.click();
    await result.getByText('modelet_failed: can only concatenate str').waitFor();
    const underlined = page.locator('#modelet-stage-code-editor .squiggly-error').first();
    await underlined.waitFor();
    await page.getByRole('button', { name: 'Go to line 1 of Predict' }).click();
    await editor.typeCode('code', 'return input +');
    await run.click();
    await result.getByText('stage: Predict:1: invalid syntax').waitFor();
    await underlined.waitFor();

    await editor.typeCode('code', 'return ctx.log');
    await page.keyboard.type('.w');
    await page.locator('.suggest-widget .monaco-list-row', { hasText: 'warn' }).waitFor();
    await page.keyboard.press('Escape');
    await editor.typeCode('code', 'return input');
    await editor.ok();
    const { source, setup, code: saved, libs, requirements } = await editor.saved(id);
    assert.deepEqual([source, setup, saved], ['python-code', 'import somebody', 'return input']);
    assert.deepEqual([libs, requirements], [[], ['somebody>=9']]);
    await editor.open(id);
    await page.locator('#red-ui-tab-modelet-stage-modules', { hasText: 'Packages' }).waitFor();
    assert.equal(await code(), 'return input');
    await editor.cancel();
  });
});
