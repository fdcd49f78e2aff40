/** Gates refer to a stage or to other gates. Copies and imports of them must refer to the right nodes. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { OPEN } from '../../fixtures/badges.ts';
import { collector, dispatchGate, runtime, stage, TAB } from '../../fixtures/flow.ts';
import { importExample, importFlows } from '../clipboard.ts';
import type { EditorPage } from '../editor-page.ts';
import { Form } from '../form.ts';
import type { ExportedNode } from '../in-page.ts';
import { sharedSession } from '../session.ts';

const session = sharedSession();

const PACKAGE = '@modelet/node-red-pipeline';
const OTHER_TAB = { id: 'other', type: 'tab', label: 'Elsewhere' };

const FLOWS = [
  TAB,
  OTHER_TAB,
  runtime(),
  dispatchGate('gate', 'work', [], { name: 'gate', stage: 'work', x: 200, y: 100 }),
  { ...stage('work', 'return input;', 'done'), name: 'work', x: 400, y: 100 },
  { ...collector('done', []), x: 600, y: 100 },
  dispatchGate('whole', [], [], { name: 'whole', source: 'composite', members: ['gate'], x: 200, y: 200 }),
];

/** Those of a name, the first one first. */
async function named(editor: EditorPage, name: string): Promise<ExportedNode[]> {
  const found = (await editor.nodes()).filter((candidate) => candidate.name === name);
  return Promise.all(found.map(({ id }) => editor.saved(id)));
}

/** Copies what is selected and puts it down. */
async function paste(editor: EditorPage): Promise<void> {
  const before = (await editor.nodes()).length;
  await editor.page.keyboard.press('ControlOrMeta+v');
  await editor.chart.click({ position: { x: 500, y: 400 } });
  assert.ok((await editor.nodes()).length > before, 'something was pasted');
}

async function copyAll(editor: EditorPage): Promise<void> {
  await editor.chart.click({ position: { x: 700, y: 450 } });
  await editor.page.keyboard.press('ControlOrMeta+a');
  await editor.page.keyboard.press('ControlOrMeta+c');
}

async function assertCopied(editor: EditorPage): Promise<void> {
  const [[gate, gateCopy], [work, workCopy], [whole, wholeCopy]] = (await Promise.all(
    ['gate', 'work', 'whole'].map((name) => named(editor, name)),
  )) as [ExportedNode[], ExportedNode[], ExportedNode[]];
  assert.equal(gate?.['stage'], work?.id);
  assert.notEqual(workCopy?.id, work?.id);
  assert.equal(gateCopy?.['stage'], workCopy?.id, 'the copy counts the copy');
  assert.deepEqual(whole?.['members'], [gate?.id]);
  assert.deepEqual(wholeCopy?.['members'], [gateCopy?.id], 'the copy is made of the copies');
}

test('gates copied together with their stage and members refer to the copies', async () => {
  await session.inEditor(FLOWS, async (editor) => {
    await copyAll(editor);
    await paste(editor);
    await assertCopied(editor);
    await editor.deploy();
    const [, copy] = await named(editor, 'gate');
    await editor.waitForBadge(copy?.id ?? '', /^open, 100 % free/);
  });
});

test('gates saved by an earlier version and copied in this way refer to the copies', async () => {
  const earlier = FLOWS.map((one) => (one.id === 'whole' ? { ...one, members: '["gate"]' } : one));
  await session.inEditor(earlier, async (editor) => {
    await copyAll(editor);
    await paste(editor);
    await assertCopied(editor);
  });
});

test('a flow imported twice becomes two flows that do not refer to each other', async () => {
  await session.inEditor([TAB, runtime()], async (editor) => {
    const flows = FLOWS.filter(({ type }) => type !== 'tab' && type !== 'modelet-runtime');
    await importFlows(editor, flows);
    await importFlows(editor, flows, { again: true });
    await assertCopied(editor);
  });
});

test('the gate of an example imported twice refers to its own stage each time', async () => {
  await session.inEditor([TAB], async (editor) => {
    const gates = async (): Promise<ExportedNode[]> => {
      const found = (await editor.nodes()).filter(({ type }) => type === 'modelet-gate');
      return Promise.all(found.map(({ id }) => editor.saved(id)));
    };
    for (const count of [1, 2]) {
      await importExample(editor, PACKAGE, 'Dispatch gate for batch work', { again: count === 2 });
      const all = await gates();
      assert.equal(all.length, count);
      for (const gate of all) {
        const counted = await editor.saved(String(gate['stage']));
        assert.deepEqual([counted.type, counted['z']], ['modelet-stage', gate['z']]);
      }
    }
  });
});

test('a gate copied alone keeps its stage, and on another tab its dialog and badge say so', async () => {
  await session.inEditor(FLOWS, async (editor) => {
    await editor.node('gate').click();
    await editor.page.keyboard.press('ControlOrMeta+c');
    await paste(editor);
    const [, beside] = await named(editor, 'gate');
    assert.equal(beside?.['stage'], 'work');
    const hint = editor.page.locator('#modelet-gate-stage-elsewhere');
    await editor.open(beside?.id ?? '');
    assert.equal(await hint.textContent(), '');
    await editor.cancel();

    await editor.showTab(OTHER_TAB.label);
    await paste(editor);
    const [, , far] = await named(editor, 'gate');
    assert.deepEqual([far?.['stage'], far?.['z']], ['work', OTHER_TAB.id]);
    await editor.open(far?.id ?? '');
    assert.match((await hint.textContent()) ?? '', /^On another tab: work \(tests\)\. This gate uses that one/);
    await editor.cancel();
    await editor.deploy();
    await editor.waitForBadge(far?.id ?? '', /^counts work on tests/);
    await editor.open(far?.id ?? '');
    const warning = editor.page.locator('#modelet-gate-live', {
      hasText: 'it counts what is on another tab: work on tests',
    });
    await warning.waitFor();
    await editor.cancel();
    await editor.showTab('tests');
    await editor.waitForBadge(beside?.id ?? '', /^open, 100 % free/);
  });
});

test('the dialogs of gates let users choose another stage and other members', async () => {
  const second = { ...stage('second', 'return input;', 'done'), name: 'second', x: 400, y: 300 };
  const more = dispatchGate('more', 'second', [], { name: 'more', x: 200, y: 300 });
  await session.inEditor([...FLOWS, second, more], async (editor) => {
    await editor.open('gate');
    const form = new Form(editor);
    assert.deepEqual(await form.get(['stage']), { stage: 'work' });
    await form.set({ stage: 'second' });
    await editor.ok();
    assert.equal((await editor.saved('gate'))['stage'], 'second');
    await editor.open('whole');
    await form.unfold();
    await editor.page.locator('#modelet-gate-members label', { hasText: 'more' }).locator('input').check();
    await editor.ok();
    assert.deepEqual((await editor.saved('whole'))['members'], ['gate', 'more']);
    await editor.deploy();
    await editor.waitForBadge('whole', OPEN);
  });
});
