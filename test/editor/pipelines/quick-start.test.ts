/** The quick start as `npm start` shows it, and its picture for the README. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { test } from 'node:test';
import type { Page } from 'playwright-core';
import { idle, READY } from '../../fixtures/badges.ts';
import { until } from '../../fixtures/polling.ts';
import { repositoryRoot } from '../../fixtures/repository.ts';
import { boxOf, type EditorPage } from '../editor-page.ts';
import type { ExportedNode } from '../in-page.ts';
import { takePicture } from '../picture.ts';
import { sharedSession } from '../session.ts';

/** In the page: how often the mouse was pressed there. */
declare global {
  var clicks: number;
}

const session = sharedSession();

const SIZE = { width: 1280, height: 800 };
const REQUESTS = 300;
/** A double click is one. */
const MOST_CLICKS = 4;

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

/** Every node and group of the flow is on the canvas, between the sidebars, and nothing lies over it. */
async function assertInView(editor: EditorPage): Promise<void> {
  const canvas = await visibleCanvas(editor);
  for (const { id, x, type } of flow) {
    if (x === undefined) continue;
    const box = await boxOf(editor.node(id));
    assert.ok(
      box.x >= canvas.left &&
        box.y >= canvas.top &&
        box.x + box.width <= canvas.right &&
        box.y + box.height <= SIZE.height,
      `${type} ${id} at ${JSON.stringify(box)} on ${JSON.stringify(canvas)}`,
    );
    if (type !== 'group') await editor.node(id).hover({ trial: true });
  }
}

/** Node-RED 5 lays its sidebars over the canvas, Node-RED 4.1 puts them beside it. */
async function visibleCanvas(editor: EditorPage): Promise<{ left: number; top: number; right: number }> {
  const canvas = await boxOf(editor.chart);
  const sidebar = await boxOf(editor.page.locator('#red-ui-sidebar'));
  return { left: canvas.x, top: canvas.y, right: Math.min(canvas.x + canvas.width, sidebar.x) };
}

/** Draws a line on the page of the flow, through points that are given as shares of the field. */
async function drawLine(
  page: Page,
  points: readonly (readonly [number, number])[],
  beforeEnd: () => Promise<void> = async () => {},
): Promise<void> {
  const field = await boxOf(page.locator('canvas'));
  const [first, ...others] = points.map(([x, y]) => [field.x + x * field.width, field.y + y * field.height] as const);
  assert.ok(first);
  await page.mouse.move(...first);
  await page.mouse.down();
  for (const point of others) await page.mouse.move(...point, { steps: 5 });
  await beforeEnd();
  await page.mouse.up();
}

const SEVEN = [
  [0.25, 0.15],
  [0.75, 0.15],
  [0.45, 0.85],
] as const;
const ONE = [
  [0.5, 0.1],
  [0.5, 0.9],
] as const;
const ZERO = Array.from({ length: 25 }, (_, at) => {
  const turn = (2 * Math.PI * at) / 24;
  return [0.5 + 0.22 * Math.sin(turn), 0.5 - 0.35 * Math.cos(turn)] as const;
});

test('the quick start gets ready, recognises digits, and fits into the window', async () => {
  await session.inEditor(flow, async (editor) => {
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
    await editor.page.setViewportSize(SIZE);
    await editor.page.mouse.move(SIZE.width / 2, SIZE.height - 100);
    await editor.page.locator('.red-ui-notification').first().waitFor({ state: 'detached' });
    await assertInView(editor);
    await takePicture(editor.page, 'quick-start.png', SIZE);
  });
});

test('a digit that is drawn on its page, with the mouse or the keyboard, is read by the endpoint', async () => {
  await session.inEditor(flow, async (editor) => {
    await editor.waitForBadge(idOf('modelet-stage', 'classify'), READY);
    const page = await editor.page.context().newPage();
    await page.setViewportSize(SIZE);
    await page.goto(`${session.nodeRed.url}/digits`);
    const answer = page.getByRole('status');
    await page.emulateMedia({ colorScheme: 'light' });
    await answer.filter({ hasText: 'Nothing is drawn yet' }).waitFor();
    for (const [digit, points] of Object.entries({ 7: SEVEN, 1: ONE, 0: ZERO })) {
      await drawLine(page, points);
      await answer.getByText(digit, { exact: true }).waitFor();
      const shares = await page
        .getByRole('meter')
        .evaluateAll((meters) => meters.map((meter) => (meter as unknown as { value: number }).value));
      assert.equal(shares.length, 10);
      assert.equal(shares.indexOf(Math.max(...shares)), Number(digit));
      await page.getByRole('button', { name: 'Clear' }).click();
    }
    await page.getByRole('application', { name: 'Drawing field' }).focus();
    for (let step = 0; step < 12; step += 1) await page.keyboard.press('ArrowDown');
    await answer.getByText('1', { exact: true }).waitFor();
    await page.getByRole('button', { name: 'Clear' }).click();
    await assertLiveAndFitting(page);
    await page.close();
  });
});

const SCREENS = [
  { width: 390, height: 844 },
  { width: 1280, height: 720 },
];

/** The answer comes while the mouse is still down, all of the page is in view, and axe-core finds nothing wrong. */
async function assertLiveAndFitting(page: Page): Promise<void> {
  await page.addScriptTag({ path: createRequire(import.meta.url).resolve('axe-core/axe.min.js') });
  for (const size of SCREENS) {
    await page.setViewportSize(size);
    await page.getByRole('button', { name: 'Clear' }).click();
    await drawLine(page, SEVEN, async () => {
      await page.getByRole('status').getByText('7', { exact: true }).waitFor();
    });
    const [width, height] = await page.evaluate(extentOfPage);
    assert.deepEqual({ width, height }, size);
    for (const colorScheme of ['dark', 'light'] as const) {
      await page.emulateMedia({ colorScheme });
      assert.deepEqual(await page.evaluate(axeViolations), []);
    }
  }
  await takePicture(page, 'digits.png', { width: 1280, height: 720 });
}

declare const document: { readonly documentElement: { readonly scrollWidth: number; readonly scrollHeight: number } };
declare const axe: { run(): Promise<{ violations: { id: string }[] }> };

/** Runs in the page. */
function extentOfPage(): [number, number] {
  return [document.documentElement.scrollWidth, document.documentElement.scrollHeight];
}

/** Runs in the page. */
async function axeViolations(): Promise<string[]> {
  return (await axe.run()).violations.map(({ id }) => id);
}

test("a stage of one's own answers over HTTP after at most four clicks and one line of code", async () => {
  const { nodeRed } = session;
  await session.inEditor(flow, async (editor) => {
    await editor.open(idOf('modelet-stage', 'mine'));
    await editor.page.evaluate(() => {
      // The double click is one, however often a slow machine needed to try it.
      globalThis.clicks = 1;
      globalThis.addEventListener('mousedown', () => (globalThis.clicks += 1), { capture: true });
    });
    await editor.page.locator('#modelet-stage-code-editor .view-lines').click();
    await editor.page.keyboard.press('ControlOrMeta+a');
    await editor.page.keyboard.insertText('return { words: input.text.split(" ").length };');
    await editor.ok();
    await editor.deploy();
    await until('the new line answers', async () => {
      const response = await nodeRed.post('/mine', { text: 'a walk in the woods' });
      return (await response.text()) === '{"words":5}';
    });
    const clicks = await editor.page.evaluate(() => globalThis.clicks);
    assert.ok(clicks > 1 && clicks <= MOST_CLICKS, `${clicks} clicks`);
  });
});
