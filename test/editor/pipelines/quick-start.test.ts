/** The quick start as `npm start` shows it, and its picture for the README. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { idle, READY } from '../../fixtures/badges.ts';
import { listeningAt } from '../../fixtures/flow.ts';
import { repositoryRoot } from '../../fixtures/repository.ts';
import { boxOf, type EditorPage, type ExportedNode } from '../editor-page.ts';
import { takePicture } from '../picture.ts';
import { sharedSession } from '../session.ts';

const session = sharedSession();

const SIZE = { width: 1440, height: 560 };
const REQUESTS = 300;

function read<T>(folder: string, ...path: string[]): T {
  return JSON.parse(readFileSync(join(repositoryRoot, folder, ...path), 'utf8')) as T;
}

const flow = read<ExportedNode[]>('examples', 'Quick start - handwritten digits.json');
const { images } = read<{ images: { image: number[]; label: number }[] }>('assets', 'data', 'digits-test.json');

function idOf(type: string, name?: string): string {
  const found = flow.find((node) => node.type === type && (name === undefined || node['name'] === name));
  assert.ok(found, `the quick start has a node of type ${type}`);
  return found.id;
}

/** Leaves the canvas as wide as the flow, and the palette at the nodes that it is about. */
async function tidy(editor: EditorPage): Promise<void> {
  await editor.page.setViewportSize(SIZE);
  await editor.page.keyboard.press('Control+Space');
  // Node-RED 5 has it above the palette.
  const explorer = editor.page.locator('button[data-tab-id="explorer"]');
  if ((await explorer.count()) > 0) {
    await explorer.click();
    await explorer.blur();
  }
  await editor.paletteNode('modelet-collector').scrollIntoViewIfNeeded();
  await editor.page.locator('#red-ui-palette-container').evaluate((palette) => {
    palette.scrollTop = palette.scrollHeight;
  });
  await editor.page.mouse.move(SIZE.width / 2, SIZE.height - 100);
  await editor.page.locator('.red-ui-notification').first().waitFor({ state: 'detached' });
}

/** Every node of the flow is in the window, and nothing lies over it. */
async function assertInView(editor: EditorPage): Promise<void> {
  for (const { id, x } of flow) {
    if (x === undefined) continue;
    const box = await boxOf(editor.node(id));
    assert.ok(
      box.x >= 0 && box.y >= 0 && box.x + box.width <= SIZE.width && box.y + box.height <= SIZE.height,
      `${id} at ${JSON.stringify(box)}`,
    );
    await editor.node(id).hover({ trial: true });
  }
}

test('the quick start gets ready, recognises digits, and fits into the window', async () => {
  await session.inNewEditor(listeningAt(session.nodeRed.url, flow), async (editor) => {
    await editor.waitForBadge(idOf('modelet-stage', 'normalise'), READY);
    await editor.waitForBadge(idOf('modelet-stage', 'classify'), READY);
    const { nodeRed } = session;
    const asked = Array.from({ length: REQUESTS }, (_, index) => images[index % images.length]);
    const answers = await Promise.all(
      asked.map(async (asked) => {
        const response = await nodeRed.post('/predict/digits', { image: asked?.image });
        return (await response.json()) as { digit: number };
      }),
    );
    const right = answers.filter(({ digit }, index) => digit === asked[index]?.label).length;
    assert.ok(right >= 0.95 * REQUESTS, `${right} of ${REQUESTS}`);

    await editor.node(idOf('inject', 'a seven')).locator('.red-ui-flow-node-button-button').click();
    await editor.waitForBadge(idOf('debug'), /^7$/);
    await editor.waitForBadge(idOf('modelet-stage', 'classify'), idle(1));
    await editor.waitForBadge(idOf('modelet-stage', 'normalise'), idle(2));
    await tidy(editor);
    await assertInView(editor);
    await takePicture(editor.page, 'quick-start.png', SIZE);
  });
});
