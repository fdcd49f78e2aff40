/** Palette, icons and help, which a newcomer sees before using the nodes. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import type { NodeType } from '../../fixtures/node-schemas.ts';
import { repositoryRoot } from '../../fixtures/repository.ts';
import { boxOf, type EditorPage } from '../editor-page.ts';
import { sharedSession } from '../session.ts';

const session = sharedSession();

/** In the order of a pipeline. */
const LABELS: Readonly<Record<Exclude<NodeType, 'modelet-runtime' | 'modelet-broker' | 'modelet-keys'>, string>> = {
  'modelet-stage': 'stage',
  'modelet-batcher': 'batcher',
  'modelet-gate': 'gate',
  'modelet-collector': 'collector',
  'modelet-join': 'gather',
  'modelet-stream': 'stream',
  'modelet-feed': 'paced split',
  'modelet-metrics': 'metrics',
  'modelet-view': 'preview',
};
const TYPED: Readonly<Record<string, NodeType>> = {
  onnx: 'modelet-stage',
  python: 'modelet-stage',
  inference: 'modelet-stage',
  batch: 'modelet-batcher',
  queue: 'modelet-gate',
  join: 'modelet-join',
  gather: 'modelet-join',
  tokens: 'modelet-stream',
  dashboard: 'modelet-metrics',
  camera: 'modelet-view',
};
const IN_PALETTE = Object.keys(LABELS) as (keyof typeof LABELS)[];

/** The name of a node in the docs, on the canvas, and in its help. */
function helpName(type: NodeType): string {
  const path = join(repositoryRoot, 'nodes', 'locales', 'en-US', `${type}.json`);
  const texts = (JSON.parse(readFileSync(path, 'utf8')) as Record<string, Record<string, string>>)[type] ?? {};
  return String(texts[type.replace('modelet-', '')] ?? texts['palette']);
}

/** The catalog of a node's texts, as it is in the sources. */
function helpSource(type: NodeType): string {
  return readFileSync(join(repositoryRoot, 'nodes', 'locales', 'en-US', `${type}.html`), 'utf8');
}

function headings(html: string): string[] {
  return [...html.matchAll(/<h3>(.*?)<\/h3>/g)].map(([, heading]) => heading ?? '');
}

/** Hovers over a node of the palette until its tip shows. */
async function showTip(editor: EditorPage, type: NodeType): Promise<ReturnType<EditorPage['node']>> {
  await editor.page.mouse.move(0, 0);
  await editor.paletteNode(type).scrollIntoViewIfNeeded();
  await editor.paletteNode(type).hover();
  const tip = editor.page.locator('.red-ui-popover', { hasText: `@modelet/node-red-pipeline : ${type}` });
  await tip.waitFor();
  return tip;
}

test('the palette shows the nodes in their own category, behind that of functions', async () => {
  await session.inEditor([], async (editor) => {
    const category = editor.page.locator('#red-ui-palette-container-function + #red-ui-palette-container-modelets');
    const types = await category
      .locator('.red-ui-palette-node')
      .evaluateAll((nodes) => nodes.map((node) => node.getAttribute('data-palette-type')));
    assert.deepEqual(types, IN_PALETTE);
    for (const type of IN_PALETTE) {
      const label = editor.paletteNode(type).locator('.red-ui-palette-label');
      // Node-RED writes more spaces than it shows.
      assert.equal(((await label.textContent()) ?? '').replace(/\s+/g, ' '), LABELS[type]);
      const { height } = await boxOf(label);
      assert.ok(height < 30, `the label of ${type} is on one line: ${height} px`);
    }
  });
});

test('the search of the palette finds nodes by the names that the docs use and by words that people type', async () => {
  await session.inEditor([], async (editor) => {
    const search = editor.page.locator('#red-ui-palette-search input');
    const names = IN_PALETTE.map((type) => [helpName(type), type] as const);
    for (const [words, type] of [...names, ...Object.entries(TYPED)]) {
      await search.fill(words.slice(0, -1));
      await search.press(words.slice(-1));
      await editor.page.locator('.red-ui-palette-node[data-filter]').first().waitFor({ state: 'attached' });
      await editor.paletteNode(type).waitFor();
    }
    await search.fill('x');
    await search.press('Backspace');
    await editor.page.locator('.red-ui-palette-node[data-filter]').first().waitFor({ state: 'detached' });
  });
});

test('every port of the nodes says what comes and goes there', async () => {
  await session.inEditor([], async (editor) => {
    for (const [index, type] of IN_PALETTE.entries()) {
      const id = await editor.dragFromPalette(type, 400, 60 + 60 * index);
      const labels = await editor.page.evaluate(portLabels, id);
      assert.ok(labels.length > 0);
      for (const label of labels) assert.match(label, /^[a-z][^:]+$/, `${type}: a text of the catalog, not its key`);
    }
  });
});

interface Ports {
  readonly inputs: number;
  readonly outputs: number;
  readonly _def: Readonly<Record<'inputLabels' | 'outputLabels', (this: unknown, index: number) => string>>;
}

declare const RED: { readonly nodes: { node(id: string): Ports } };

/** Runs in the page. */
function portLabels(id: string): string[] {
  const node = RED.nodes.node(id);
  const { inputLabels, outputLabels } = node._def;
  const label = (labels: (typeof node._def)['inputLabels'], count: number): string[] =>
    Array.from({ length: count }, (_, index) => String(labels.call(node, index)));
  return [...label(inputLabels, node.inputs), ...label(outputLabels, node.outputs)];
}

test('the palette and the canvas show the icons of the package', async () => {
  await session.inEditor([], async (editor) => {
    for (const [index, type] of IN_PALETTE.entries()) {
      const inPalette = editor.paletteNode(type).locator('.red-ui-palette-icon-container');
      const path = (await inPalette.getAttribute('data-palette-icon')) ?? '';
      assert.match(path, new RegExp(`icons/@modelet/node-red-pipeline/${type}\\.svg$`));
      const response = await editor.page.request.get(new URL(path, session.nodeRed.editorUrl).href);
      // Node-RED answers with an arrow where it finds no icon.
      assert.equal(await response.text(), readFileSync(join(repositoryRoot, 'icons', `${type}.svg`), 'utf8'));

      const id = await editor.dragFromPalette(type, 400, 60 + 60 * index);
      const icon = editor.node(id).locator('image.red-ui-flow-node-icon');
      assert.match((await icon.getAttribute('href')) ?? '', new RegExp(`${type}\\.svg$`));
    }
  });
});

test('each node has a tip in the palette, and the sidebar shows its help with all headings', async () => {
  await session.inEditor([], async (editor) => {
    for (const type of IN_PALETTE) {
      const tip = await showTip(editor, type);
      const text = ((await tip.textContent()) ?? '').replaceAll(/\s+/g, ' ');
      assert.ok(text.startsWith(LABELS[type]), text);
      const summary = /<p>(.*?)<\/p>/s.exec(helpSource(type))?.[1]?.replaceAll(/\s+/g, ' ') ?? '';
      assert.ok(summary.length > 40 && text.includes(summary), `"${summary}" in "${text}"`);

      await tip.locator('button:has(.fa-book)').click();
      await assertHelp(editor, type);
    }
  });
});

test('the dialogs of a runtime, keys and a broker lead to their help, although the palette does not show them', async () => {
  await session.inEditor([], async (editor) => {
    const stage = await editor.dragFromPalette('modelet-stage', 400, 100);
    await editor.open(stage);
    await editor.openConfig('runtime');
    await editor.page.locator('.red-ui-tray-footer .fa-book').click();
    await assertHelp(editor, 'modelet-runtime');
    await editor.openConfig('keys', 'add');
    await editor.page.locator('.red-ui-tray-footer .fa-book').click();
    await assertHelp(editor, 'modelet-keys');
    await editor.cancel();
    await editor.openConfig('broker', 'add');
    await editor.page.locator('.red-ui-tray-footer .fa-book').click();
    await assertHelp(editor, 'modelet-broker');
    await editor.cancel();
    await editor.cancel();
    await editor.cancel();
  });
});

async function assertHelp(editor: EditorPage, type: NodeType): Promise<void> {
  const source = helpSource(type);
  const help = editor.page.locator('.red-ui-help', { has: editor.page.locator('h1.red-ui-help-title') });
  await help
    .locator('h1', { hasText: type in LABELS ? LABELS[type as keyof typeof LABELS] : type.replace('-', ' ') })
    .waitFor();
  const expected = headings(source);
  assert.ok(expected.includes('Details') && expected.includes('References'), expected.join(', '));
  assert.deepEqual(
    (await help.locator('h3').allInnerTexts()).map((heading) => heading.trim()),
    expected,
  );
  assert.equal(await help.locator('h3').first().isVisible(), true);
  const subheadings = [...source.matchAll(/<h4>(.*?)<\/h4>/g)].map(([, heading]) => heading);
  assert.deepEqual(await help.locator('h4').allInnerTexts(), subheadings);
}

test('every text of every dialog is translated', async () => {
  await session.inEditor([], async (editor) => {
    for (const [index, type] of IN_PALETTE.entries()) {
      const id = await editor.dragFromPalette(type, 400, 60 + 60 * index);
      await editor.open(id);
      const form = editor.page.locator('#dialog-form');
      // A key without a text shows as the key itself.
      assert.doesNotMatch(
        (await form.textContent()) ?? '',
        /modelet-(stage|batcher|gate|collector|join|stream|feed|metrics|runtime)\.\w/,
        type,
      );
      const placeholders = await form
        .locator('input[placeholder]')
        .evaluateAll((inputs) => inputs.map((input) => input.getAttribute('placeholder')));
      for (const placeholder of placeholders) assert.doesNotMatch(placeholder ?? '', /\.placeholder\./);
      await editor.cancel();
    }
  });
});
