/** The dialog of a stage shows what the machine grants: cores, with the workers pinned to them, and memory. */
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

test('the stage dialog proposes a memory limit in a container, for the workers of all flows', async () => {
  const flows = [
    TAB,
    runtime(),
    stage('own', 'return 1;', [], { workers: '2', x: 300 }),
    stage('other', 'return 1;', [], { workers: '0-4', x: 300, y: 200 }),
  ];
  await session.inEditor(flows, async (editor) => {
    // As the route answers in a container with 2000 MB.
    await editor.page.route('**/modelets/cpus', (route) =>
      route.fulfill({ json: { allowed, engine: null, workers: [], memoryMb: 2000 } }),
    );
    await editor.open('own');
    await editor.page.locator('#red-ui-tab-modelet-stage-workers').click();
    const proposal = editor.page.locator('#modelet-stage-memory');
    await proposal.waitFor();
    assert.match((await proposal.textContent()) ?? '', /2000 MB.* 6 workers .* 228 MB/);
    await proposal.locator('button').click();
    assert.equal(await editor.page.inputValue('#node-input-maxRssMb'), '228');
    await editor.page.locator('#red-ui-tab-modelet-stage-model').click();
    await editor.fill(editor.page.locator('#node-input-workers'), '40');
    await editor.page.locator('#red-ui-tab-modelet-stage-workers').click();
    assert.match((await proposal.textContent()) ?? '', / 44 workers .* 35 MB/);
    await editor.cancel();
    await editor.page.unroute('**/modelets/cpus');
  });
});
