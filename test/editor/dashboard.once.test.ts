/** Starts `npm run dashboard` as a user does and compares the page with the requests and the snapshot. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import type { Page } from 'playwright-core';
import { isAlive } from '../fixtures/alive.ts';
import { RepositoryCopy, readySnapshot, type Started, snapshotOf } from '../fixtures/command.ts';
import { TestBrowser } from '../fixtures/editor.ts';
import { descendants } from '../fixtures/family.ts';
import { freePort } from '../fixtures/free-port.ts';
import { pidsOf } from '../fixtures/node-red.ts';
import { until } from '../fixtures/polling.ts';
import { repositoryRoot } from '../fixtures/repository.ts';
import { type EditorNode, EditorPage } from './editor-page.ts';
import { takePicture, UPDATES_PICTURES } from './picture.ts';

const SIZE = { width: 1400, height: 1130 };
const REFUSED = 23;

const { images } = JSON.parse(readFileSync(join(repositoryRoot, 'assets', 'data', 'digits-test.json'), 'utf8')) as {
  images: { image: number[] }[];
};

describe('npm run dashboard', () => {
  let copy: RepositoryCopy;
  let browser: TestBrowser;
  before(async () => {
    [copy, browser] = await Promise.all([RepositoryCopy.make(), TestBrowser.launch()]);
  });
  after(async () => {
    await browser.close();
    await copy.remove();
  });

  test('without its load it shows the requests that the test sent, their errors, and the workers', async () => {
    const started = await start(copy, { RATE: '0' });
    await readySnapshot(started);
    const { page, problems } = await openDashboard(browser, started);

    let longest = 0;
    for (let n = 0; n < 40; n += 1) {
      const at = performance.now();
      assert.equal(await post(started, { image: images[n]?.image }), 200);
      longest = Math.max(longest, performance.now() - at);
    }
    // Quantiles are of the last interval, and gone with it: one request after the other until there are some.
    let sent = 40;
    const [p50, p99] = await until('the page has quantiles', async () => {
      const at = performance.now();
      await post(started, { image: images[0]?.image });
      sent += 1;
      longest = Math.max(longest, performance.now() - at);
      const shown = [await text(page, 'p50'), await text(page, 'p99')];
      return shown.every((value) => value !== '') && shown.map(Number);
    });
    assert.ok(p50 && p99 && p50 <= p99 && p99 <= longest * 1.05, `p50 ${p50}, p99 ${p99}, longest ${longest} ms`);

    const refused = Array.from({ length: REFUSED }, (_, n) => `refused-${n}`);
    for (const id of refused) assert.equal(await post(started, { image: [1, 2, 3] }, id), 422);
    await until('the page has all errors', async () => (await text(page, 'errors')) === String(refused.length));
    assert.equal(await text(page, 'requests'), String(sent + refused.length));
    const { requests } = (await snapshotOf(started)).runtimes[0] ?? {};
    assert.deepEqual([requests?.['ok'], requests?.['invalid_input']], [sent, refused.length]);
    const last = refused.at(-1) as string;
    await until('the errors are counted', async () => (await rows(page, 'errors'))[0]?.[4] === last);
    const [group, ...others] = await rows(page, 'errors');
    assert.deepEqual(group?.slice(0, 3), [String(refused.length), 'invalid_input', 'normalise']);
    assert.deepEqual(others, []);
    await until('the page says that requests fail', async () =>
      /^normalise: \d+ x invalid_input: |^All is well/.test(await text(page, 'verdict')),
    );

    await assertWorkers(page, started);
    const [stage] = (await snapshotOf(started)).runtimes[0]?.stages ?? [];
    process.kill(stage?.workers[0]?.pid as number, 'SIGKILL');
    await until('the page shows the restart', async () => (await rows(page, 'workers'))[0]?.[6] === '1');
    await readySnapshot(started);
    await assertWorkers(page, started);

    assert.deepEqual(problems, []);
    await page.close();
    await end(started);
  });

  test('with its load it draws every chart, and Ctrl-C leaves no process', async () => {
    const started = await start(copy);
    await readySnapshot(started);
    const { page, problems } = await openDashboard(browser, started);
    const wanted = UPDATES_PICTURES ? 100 : 3;
    await until('errors of the load have come', async () => Number(await text(page, 'errors')) >= wanted);

    const before = await ended(started);
    const shown = await until('the page is as new as that', async () => {
      const requests = Number(await text(page, 'requests'));
      return requests >= before && requests;
    });
    assert.ok(shown <= (await ended(started)), `${shown} requests`);
    const [requests, errors] = [shown, Number(await text(page, 'errors'))];
    assert.ok(errors / requests > 1 / 80 && errors / requests < 1 / 20, `${errors} errors of ${requests}`);
    // On a slow machine no request may end in an interval.
    await until('the page has a rate', async () => Number(await text(page, 'requestsPerSecond')) > 0);
    await assertWorkers(page, started);
    assert.match(await gauge(page, 'backlog'), /\d\s*requests/);
    await until('the gate has measured', async () => /^\d+\s*%$/.test(await gauge(page, 'free')));
    await assertCharts(page);
    for (const metric of ['p50', 'p99']) {
      const value = page.locator(`.modelet-${metric} .nrdb-ui-text-value`);
      const fits = (element: Element): boolean => element.scrollHeight <= element.clientHeight + 1;
      assert.ok(await value.evaluate(fits), `${metric} is cut`);
    }
    await takePicture(page, 'dashboard.png', SIZE);

    assert.deepEqual(problems, []);
    await page.close();
    await assertDrawn(browser, started);
    await end(started);
  });
});

/** In the editor every node is known and valid, as after an import. A button adds the page of another runtime. */
async function assertDrawn(browser: TestBrowser, { url }: Started): Promise<void> {
  const editor = await EditorPage.open(await browser.context.newPage(), { editorUrl: `${url}/editor/` });
  const all = async (): Promise<EditorNode[]> => [...(await editor.nodes()), ...(await editor.configNodes())];
  const count = async (type: string): Promise<number> => (await all()).filter((node) => node.type === type).length;
  const [charts, pages] = [await count('ui-chart'), await count('ui-page')];
  assert.ok(charts > 0);
  const metrics = (await all()).find(({ type }) => type === 'modelet-metrics')?.id ?? '';
  await editor.open(metrics);
  await editor.page.locator('#modelet-metrics-nodes').click();
  await until('the page is there once more', async () => (await count('ui-page')) === pages + 1);
  assert.deepEqual([await count('ui-chart'), await count('ui-base'), await count('ui-theme')], [2 * charts, 1, 1]);
  assert.deepEqual(
    (await all()).filter(({ valid, type }) => !valid || type === 'unknown'),
    [],
  );
  await editor.page.close();
}

async function start(copy: RepositoryCopy, env: Readonly<Record<string, string>> = {}): Promise<Started> {
  const started = await copy.start('dashboard.mjs', await freePort(), env);
  assert.match(started.output, new RegExp(`Editor +${started.url}/editor\n`));
  return started;
}

/** Ends it as Ctrl-C does; all that it has started is gone then. */
async function end(started: Started): Promise<void> {
  const family = descendants(started.process.pid as number);
  for (const pid of pidsOf(await snapshotOf(started))) assert.ok(family.includes(pid));
  started.process.kill('SIGINT');
  await until('it has ended', () => started.process.exitCode !== null);
  await until('its processes have ended', () => !family.some(isAlive));
}

/** Opens the page at the address that the command has printed. */
async function openDashboard(browser: TestBrowser, { output }: Started): Promise<{ page: Page; problems: string[] }> {
  const address = /Dashboard +(http:\S+)/.exec(output)?.[1];
  assert.ok(address, output);
  const page = await browser.context.newPage();
  await page.setViewportSize(SIZE);
  const problems: string[] = [];
  page.on('console', (message) => {
    if (message.type() === 'error') problems.push(message.text());
  });
  page.on('pageerror', (error) => problems.push(`uncaught: ${error.stack ?? error.message}`));
  await page.goto(address);
  await page.locator('.modelet-workers-table tbody tr').nth(2).waitFor();
  return { page, problems };
}

async function post({ url }: Started, body: object, requestId?: string): Promise<number> {
  const response = await fetch(`${url}/watched/digits`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json', ...(requestId ? { 'X-Request-Id': requestId } : {}) },
    body: JSON.stringify(body),
  });
  await response.arrayBuffer();
  return response.status;
}

/** A number at the top of the page, as it is written there. */
async function text(page: Page, metric: string): Promise<string> {
  return ((await page.locator(`.modelet-${metric} .nrdb-ui-text-value`).textContent()) ?? '').trim();
}

async function gauge(page: Page, name: string): Promise<string> {
  return ((await page.locator(`.modelet-${name}`).textContent()) ?? '').trim();
}

/** The cells of a table on the page. */
function rows(page: Page, table: string): Promise<string[][]> {
  return page
    .locator(`.modelet-${table}-table tbody tr`)
    .evaluateAll((found) =>
      found.map((row) => [...row.querySelectorAll('td')].map((cell) => (cell.textContent ?? '').trim())),
    );
}

/** The page has the snapshot's workers, with their pids. */
async function assertWorkers(page: Page, started: Started): Promise<void> {
  const { stages = [] } = (await snapshotOf(started)).runtimes[0] ?? {};
  const wanted = stages.flatMap(({ name, workers }) =>
    workers.map(({ index, pid, state }) => [name, String(index), String(pid), state]),
  );
  assert.equal(wanted.length, 3);
  await until('the page has these workers', async () => {
    const shown = (await rows(page, 'workers')).map((cells) => cells.slice(0, 4));
    return JSON.stringify(shown) === JSON.stringify(wanted);
  });
}

/** Requests that have ended, by the snapshot. */
async function ended(started: Started): Promise<number> {
  const { requests = {} } = (await snapshotOf(started)).runtimes[0] ?? {};
  return Object.values(requests).reduce((sum, count) => sum + count, 0);
}

/** Each chart has drawn its lines: the colours of them are there. */
async function assertCharts(page: Page): Promise<void> {
  const lines = { latency: 3, throughput: 2, batch: 2, queue: 2 };
  for (const [chart, count] of Object.entries(lines)) {
    await until(`the chart of ${chart} has ${count} lines`, async () => {
      const hues = await page.locator(`.modelet-${chart} canvas`).evaluate(coloursOf);
      return hues >= count;
    });
  }
}

/** How many different saturated colours a canvas has much of. Runs in the page. */
function coloursOf(element: Element): number {
  const canvas = element as unknown as {
    width: number;
    height: number;
    getContext(kind: '2d'): {
      getImageData(x: number, y: number, width: number, height: number): { data: Uint8ClampedArray };
    };
  };
  const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
  const counts = new Map<string, number>();
  for (let at = 0; at < data.length; at += 4) {
    const [r = 0, g = 0, b = 0, alpha = 0] = data.subarray(at, at + 4);
    if (alpha < 255 || Math.max(r, g, b) - Math.min(r, g, b) < 80) continue;
    const colour = `${r} ${g} ${b}`;
    counts.set(colour, (counts.get(colour) ?? 0) + 1);
  }
  // The dots of the legend alone have more.
  return [...counts.values()].filter((count) => count > 30).length;
}
