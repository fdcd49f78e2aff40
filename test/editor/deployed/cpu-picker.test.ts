/** The core picker in the dialog of a stage shows the cores to which other workers are pinned. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { allowedCpus } from '../../../src/process/affinity.ts';
import { READY } from '../../fixtures/badges.ts';
import { runtime, stage, TAB } from '../../fixtures/flow.ts';
import { sharedSession } from '../session.ts';

const session = sharedSession();
const allowed = allowedCpus();
const core = String(allowed[0]);
const HOSTILE = '<b>"other"</b>';

test('the stage dialog marks a core that other workers are pinned to, and warns when it is chosen', {
  skip: allowed.length < 2,
}, async () => {
  const flows = [
    TAB,
    runtime(),
    stage('own', 'return 1;', [], { cpus: core, x: 300 }),
    stage('other', 'return 1;', [], { cpus: core, name: HOSTILE, x: 300, y: 200 }),
  ];
  await session.inEditor(flows, async (editor) => {
    await editor.waitForBadge('own', READY);
    await editor.waitForBadge('other', READY);
    await editor.open('own');
    const chip = editor.page.locator('.modelet-core', { hasText: new RegExp(`^${core}$`) });
    await chip.waitFor({ state: 'attached' });
    const title = (await chip.getAttribute('title')) ?? '';
    assert.ok(title.endsWith(`also kept to it: ${HOSTILE} 0`), title);
    const notes = editor.page.locator('.modelet-cpu-notes');
    assert.ok(((await notes.textContent()) ?? '').includes(`core ${core} is shared with ${HOSTILE} 0`));
    const free = editor.page.locator('.modelet-core', { hasText: new RegExp(`^${allowed[1]}$`) });
    assert.doesNotMatch((await free.getAttribute('title')) ?? '', /also kept/);
    await editor.cancel();
  });
});
