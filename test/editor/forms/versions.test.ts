/** The versions in a stage's dialog: rows, what is wrong with them, and the buttons that promote and roll back. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Locator } from 'playwright-core';
import type { EditorPage } from '../editor-page.ts';
import { sharedSession } from '../session.ts';

const session = sharedSession();

const FLOWS = [
  { id: 'tab', type: 'tab', label: 'Versions' },
  { id: 'runtime', type: 'modelet-runtime', name: 'default' },
  { id: 'elsewhere', type: 'modelet-runtime', name: 'another' },
  ...['base', 'canary', 'next', 'foreign'].map((id, index) => ({
    ...{ id, z: 'tab', type: 'modelet-stage', name: id, runtime: id === 'foreign' ? 'elsewhere' : 'runtime' },
    ...{ source: 'inline', code: 'return 1;', x: 300, y: 100 + 60 * index, wires: [[]] },
  })),
];

function rowOf(editor: EditorPage, index: number): Record<'stage' | 'share' | 'mode', Locator> {
  const row = editor.page.locator('.modelet-version').nth(index);
  return { stage: row.locator('select').first(), share: row.locator('input'), mode: row.locator('select').last() };
}

async function add(editor: EditorPage, index: number, id: string, share: string): Promise<void> {
  await editor.page.locator('#modelet-stage-versions .red-ui-editableList-addButton').click();
  const { stage, share: field } = rowOf(editor, index);
  await stage.selectOption(id);
  await field.fill(share);
}

test('the dialog of a stage lists its versions, says what is wrong with them, and promotes and rolls back', async () => {
  await session.inEditor(FLOWS, async (editor) => {
    const problem = editor.page.locator('#modelet-stage-version-problem');
    await editor.open('base');
    await editor.openTab('modelet-stage-versions');
    await add(editor, 0, 'canary', '60');
    const { stage } = rowOf(editor, 0);
    const offered = await stage.locator('option').evaluateAll((options) => options.map((option) => option.textContent));
    assert.deepEqual(offered.slice(1), ['canary', 'next'], 'no other runtime, and not the stage itself');
    await add(editor, 1, 'next', '50');
    assert.match((await problem.textContent()) ?? '', /more than 100 %/);
    await rowOf(editor, 1).mode.selectOption('shadow');
    assert.equal(await problem.textContent(), '');
    await rowOf(editor, 1).stage.selectOption('canary');
    assert.match((await problem.textContent()) ?? '', /listed twice/);
    await rowOf(editor, 1).stage.selectOption('next');
    await rowOf(editor, 0).share.fill('many');
    assert.match((await problem.textContent()) ?? '', /from 0 to 100/);
    await editor.page.locator('.modelet-version').first().locator('button').first().click();
    assert.equal(await rowOf(editor, 0).share.inputValue(), '100');
    await editor.ok();
    const shares = [
      { share: '100', mode: 'answer' },
      { share: '50', mode: 'shadow' },
    ];
    const saved = await editor.saved('base');
    assert.deepEqual([saved['versions'], saved['shares']], [['canary', 'next'], shares]);

    await editor.open('base');
    await editor.openTab('modelet-stage-versions');
    await editor.page.locator('.modelet-version').first().locator('button').last().click();
    await editor.page.locator('#modelet-stage-versions .red-ui-editableList-item-remove').last().click();
    await editor.ok();
    const later = await editor.saved('base');
    assert.deepEqual([later['versions'], later['shares']], [['canary'], [{ share: '0', mode: 'answer' }]]);
    assert.deepEqual((await editor.nodes()).find(({ id }) => id === 'base')?.errors, []);
  });
});

test('a row that still fades out when its dialog closes does not count', async () => {
  await session.inEditor(FLOWS, async (editor) => {
    await editor.open('base');
    // Closing the dialog takes the data from its elements.
    const left = '<ol><li><div class="red-ui-editableList-item-content"></div></li></ol>';
    const file = new URL('resources/@modelet/node-red-pipeline/form.js', editor.page.url()).href;
    // As text, because the compiler rewrites imports.
    const count = `import('${file}').then(({ listRows }) => listRows($('${left}')).length)`;
    assert.equal(await editor.page.evaluate(count), 0);
    await editor.ok();
  });
});
