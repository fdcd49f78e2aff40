/** The examples: a newcomer chooses Menu > Import > Examples, deploys, and looks at the badges. */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { READY } from '../../fixtures/badges.ts';
import { repositoryRoot } from '../../fixtures/repository.ts';
import { importExample, listExamples } from '../clipboard.ts';
import { BADGES, lookAtDrawing } from '../drawing.ts';
import type { EditorNode, EditorPage } from '../editor-page.ts';
import type { ExportedNode } from '../in-page.ts';
import { sharedSession } from '../session.ts';

const PACKAGE = '@modelet/node-red-pipeline';
const QUICK_START = 'Quick start - handwritten digits';
const WITH_GATE = 'Asynchronous endpoint';
const folder = join(repositoryRoot, 'examples');
const examples = readdirSync(folder)
  .filter((file) => file.endsWith('.json'))
  .map((file) => file.slice(0, -'.json'.length));

const session = sharedSession();

function read<T>(...path: string[]): T {
  return JSON.parse(readFileSync(join(repositoryRoot, ...path), 'utf8')) as T;
}

test('the import menu offers every example and nothing else', async () => {
  await session.inEditor([], async (editor) => {
    const listed = await listExamples(editor, PACKAGE);
    assert.ok(examples.length >= 5, `${examples.length} examples`);
    assert.deepEqual(listed.toSorted(), examples.toSorted());
  });
});

/** Node-RED's list of the packages that a flow needs, from which its editor offers to install them. */
const needsAnother = (example: string): boolean =>
  read<{ modules?: Record<string, string> }[]>('examples', `${example}.json`).some(({ modules = {} }) =>
    Object.keys(modules).some((name) => name !== PACKAGE),
  );

/** Imports an example; its nodes are there, as it has them, and the editor finds nothing wrong with them. */
async function importWhole(editor: EditorPage, example: string): Promise<readonly EditorNode[]> {
  const flow = read<ExportedNode[]>('examples', `${example}.json`);
  const before = new Set((await editor.nodes()).map(({ id }) => id));
  await importExample(editor, PACKAGE, example);
  const nodes = (await editor.nodes()).filter(({ id }) => !before.has(id));
  const onCanvas = flow.filter(({ x, type }) => x !== undefined && type !== 'group' && type !== 'junction');
  assert.deepEqual(nodes.map(({ type }) => type).sort(), onCanvas.map(({ type }) => type).sort());
  const faulty = [...nodes, ...(await editor.configNodes())].filter(({ valid, type }) => !valid || type === 'unknown');
  assert.deepEqual(faulty, []);
  return nodes;
}

const complete = examples.filter((example) => !needsAnother(example));

/** On the canvas, no node, title, badge or frame lies over another, and no wire crosses one. */
async function assertTidy(editor: EditorPage, example: string): Promise<void> {
  await editor.showTab(example);
  const { faults } = await editor.page.evaluate(lookAtDrawing, BADGES);
  assert.deepEqual(faults, [], example);
}

test('every example can be imported beside the others, and nothing in its drawing overlaps', async () => {
  await session.inEditor([], async (editor) => {
    for (const example of complete) {
      await importWhole(editor, example);
      await assertTidy(editor, example);
    }
  });
});

test('the comments of an example have the address of the Node-RED that has imported it', async () => {
  await session.inEditor([], async (editor) => {
    const before = (await editor.nodes()).map(({ id }) => id);
    const nodes = await importWhole(editor, QUICK_START);
    assert.deepEqual(before, []);
    const comments = nodes.filter(({ type }) => type === 'comment');
    const texts = await Promise.all(comments.map(async ({ id }) => JSON.stringify(await editor.saved(id))));
    assert.doesNotMatch(texts.join(), /MODELET_URL/);
    assert.ok(texts.some((text) => text.includes(`curl -s ${session.nodeRed.url}/predict/digits `)));
    assert.ok(comments.some(({ name }) => name === `Draw a digit: open ${session.nodeRed.url}/digits`));
  });
});

// Tests without a browser deploy the others and wait until they are ready.
for (const example of [QUICK_START, WITH_GATE]) {
  test(`"${example}" can be imported and deployed, and its stages and gates get ready`, async () => {
    await session.inEditor([], async (editor) => {
      const nodes = await importWhole(editor, example);
      await editor.deploy();
      await editor.showTab(example);
      const stages = nodes.filter(({ type }) => type === 'modelet-stage');
      const gates = nodes.filter(({ type }) => type === 'modelet-gate');
      assert.ok(stages.length + gates.length > 0, 'it has stages or a gate');
      for (const { id } of gates) await editor.waitForBadge(id, /^(open, |closed: )/);
      for (const { id } of stages) await editor.waitForBadge(id, READY);
    });
    assert.doesNotMatch(session.nodeRed.output, /missing types/i);
    if (example === QUICK_START) await assertTellsDigits();
  });
}

for (const example of examples.filter(needsAnother)) {
  test(`"${example}" can be imported, and the editor offers to install what it needs`, async () => {
    await session.inEditor([], async (editor) => {
      await importExample(editor, PACKAGE, example);
      const offer = editor.page.locator('.red-ui-notification', { hasText: 'Required modules missing' });
      await offer.getByText('@flowfuse/node-red-dashboard', { exact: true }).waitFor();
      await offer.locator('button', { hasText: 'Install all' }).waitFor();
      await assertTidy(editor, example);
    });
  });
}

/** Asks the deployed quick start. */
async function assertTellsDigits(): Promise<void> {
  const { images } = read<{ images: { image: number[]; label: number }[] }>('assets', 'data', 'digits-test.json');
  const image = images.find(({ label }) => label === 7)?.image;
  const answer = await session.nodeRed.post('/predict/digits', { image });
  assert.equal(answer.status, 200);
  assert.equal(((await answer.json()) as { digit: number }).digit, 7);
  const refused = await session.nodeRed.post('/predict/digits', { image: [1, 2, 3] });
  assert.equal(refused.status, 422);
}
