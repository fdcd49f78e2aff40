/** The dashboard of a runtime, from the editor to its figures, and its picture for the documentation. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { test } from 'node:test';
import type { Page } from 'playwright-core';
import type { RuntimeSnapshot } from '../../../src/observe/views/snapshot.ts';
import { READY } from '../../fixtures/badges.ts';
import { endpoint, node, runtime, stage, TAB } from '../../fixtures/flow.ts';
import { until } from '../../fixtures/polling.ts';
import type { EditorPage } from '../editor-page.ts';
import { takePicture, UPDATES_PICTURES } from '../picture.ts';
import { sharedSession } from '../session.ts';

declare global {
  var presses: number;
}
declare const document: { readonly documentElement: { readonly scrollWidth: number } };
declare const axe: { run(): Promise<{ violations: { id: string }[] }> };

const session = sharedSession();

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const MOST_CLICKS = 3;
const SIZE = { width: 1440, height: 1000 };
const SCREENS = [
  { width: 390, height: 844, colorScheme: 'light' },
  { width: 1280, height: 900, colorScheme: 'light' },
  { width: 1440, height: 1000, colorScheme: 'dark' },
] as const;

const CODE = `if (!Array.isArray(input.image)) throw Object.assign(new Error('no image'), { code: 'invalid_input' });
const until = Date.now() + 2 + 6 * Math.random();
while (Date.now() < until);
return input;`;
const WIRED = { x: 300, y: 100 };
const FLOWS = [
  TAB,
  runtime('runtime', { name: 'camera line' }),
  ...endpoint('/watched', 'resize'),
  stage('resize', CODE, 'classify', WIRED),
  stage('classify', CODE, 'collector /watched', { ...WIRED, workers: '2', x: 500 }),
  stage('aside', 'return input;', [], { ...WIRED, y: 200 }),
  node('metrics', 'modelet-metrics', [[], [], [], []], { runtime: 'runtime', x: 300, y: 300 }),
];

async function ask(count: number, body: object, status: number): Promise<void> {
  for (let n = 0; n < count; n += 1) {
    const response = await session.nodeRed.post('/watched', body);
    assert.equal(response.status, status);
    await response.arrayBuffer();
  }
}

/** Opens the dashboard as a person does who begins at the canvas, and counts the clicks. */
async function openDashboard(editor: EditorPage): Promise<Page> {
  await editor.page.evaluate(() => {
    globalThis.presses = 0;
    globalThis.addEventListener('mousedown', () => (globalThis.presses += 1), { capture: true });
  });
  const link = editor.page.locator('.modelet-sb-dashboard');
  if (!(await link.isVisible())) await editor.page.locator('[data-tab-id="modelets"]').first().click();
  const opened = editor.page.waitForEvent('popup');
  await link.click();
  const page = await opened;
  const clicks = await editor.page.evaluate(() => globalThis.presses);
  assert.ok(clicks > 0 && clicks <= MOST_CLICKS, `${clicks} clicks`);
  return page;
}

function rowsOf(page: Page, table: string): Promise<string[][]> {
  return page
    .locator(`#${table} tbody tr`)
    .evaluateAll((rows) =>
      rows.map((row) => [...row.querySelectorAll('th, td')].map((cell) => cell.textContent ?? '')),
    );
}

function linesOf(page: Page, chart: string): Promise<string[]> {
  return page.locator(`[data-chart="${chart}"] .legend li span:nth-child(2)`).allTextContents();
}

/** Nothing is cut at any size, and axe-core finds nothing wrong. */
async function assertFitting(page: Page): Promise<void> {
  await page.evaluate(AXE);
  for (const { colorScheme, ...size } of SCREENS) {
    await page.setViewportSize(size);
    await page.emulateMedia({ colorScheme });
    assert.deepEqual(await page.evaluate(async () => (await axe.run()).violations.map(({ id }) => id)), []);
    assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), size.width);
  }
}

test("the dashboard of one's own pipeline is three clicks away, follows requests, deaths and deploys", async () => {
  await session.inEditor(FLOWS, async (editor) => {
    for (const id of ['resize', 'classify', 'aside']) await editor.waitForBadge(id, READY);
    const page = await openDashboard(editor);
    const problems: string[] = [];
    page.on('console', (message) => {
      if (message.type() === 'error') problems.push(message.text());
    });
    page.on('pageerror', (error) => problems.push(`uncaught: ${error.message}`));
    await page.getByRole('heading', { name: 'camera line', level: 1 }).waitFor();
    await page.locator('#connection[data-kind="live"]').waitFor();
    assert.equal(await page.locator('#gates-section').isVisible(), false, 'there is no gate');

    await ask(5, { image: [1] }, 200);
    await ask(3, { image: 1 }, 422);
    await page.locator('[data-tile="rate"] dd', { hasText: /[1-9]/ }).waitFor();
    await page.locator('[data-tile="p99"] dd', { hasText: /\d ms$/ }).waitFor();
    await until('the errors are counted', async () => (await rowsOf(page, 'errors'))[0]?.[2] === '3');
    assert.deepEqual(
      (await rowsOf(page, 'errors')).map(([name, code]) => [name, code]),
      [['resize', 'invalid_input']],
    );
    assert.deepEqual(await linesOf(page, 'errors'), ['resize \u00b7 invalid_input']);
    assert.deepEqual(await linesOf(page, 'used'), ['resize', 'classify', 'aside']);
    assert.equal((await rowsOf(page, 'workers')).length, 4);

    const response = await fetch(`${session.nodeRed.editorUrl}modelets/snapshot`);
    const { runtimes } = (await response.json()) as { runtimes: RuntimeSnapshot[] };
    const [worker] = runtimes[0]?.stages.find(({ id }) => id === 'classify')?.workers ?? [];
    process.kill(worker?.pid as number, 'SIGKILL');
    await page.locator('#events [data-mark="death"]', { hasText: /classify: a worker died: .*SIGKILL/ }).waitFor();
    await session.nodeRed.deploy(FLOWS.filter(({ id }) => id !== 'aside'));
    await page.locator('#events [data-mark="deploy"]').waitFor();
    await until('the lines of the removed stage are gone', async () =>
      (await Promise.all(['used', 'queue'].map((chart) => linesOf(page, chart)))).every(
        (lines) => lines.join() === 'resize,classify',
      ),
    );

    await assertFitting(page);
    if (UPDATES_PICTURES) {
      await page.emulateMedia({ colorScheme: 'light' });
      const to = performance.now() + 150_000;
      for (let n = 0; performance.now() < to; n += 1) {
        await Promise.all(Array.from({ length: 1 + (Math.floor(n / 90) % 5) }, () => ask(1, { image: [1] }, 200)));
        if (n % 25 === 0) await ask(1, { image: 1 }, 422);
      }
    }
    await takePicture(page, 'dashboard-page.png', SIZE);
    assert.deepEqual(problems, []);
    await page.close();
  });
});

test('the dialog of pipeline metrics leads to the dashboard of its runtime', async () => {
  await session.inEditor(FLOWS, async (editor) => {
    await editor.open('metrics');
    const link = editor.page.locator('#modelet-metrics-dashboard');
    assert.equal(await link.getAttribute('href'), 'modelets/dashboard?runtime=runtime');
    await editor.page.locator('#node-input-runtime').selectOption('_ADD_');
    assert.equal(await link.getAttribute('href'), 'modelets/dashboard?runtime=');
    await editor.cancel();
  });
});
