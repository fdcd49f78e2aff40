/** The sidebar "modelets" beside the quick start under load, and its picture for the README. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { READY } from '../../fixtures/badges.ts';
import { until } from '../../fixtures/polling.ts';
import { repositoryRoot } from '../../fixtures/repository.ts';
import { boxOf } from '../editor-page.ts';
import type { ExportedNode } from '../in-page.ts';
import { takePicture, UPDATES_PICTURES } from '../picture.ts';
import { sharedSession } from '../session.ts';
import { SidebarPage } from '../sidebar-page.ts';

declare const RED: { readonly actions: { invoke(action: string): void } };

const session = sharedSession();

const SIZE = { width: 1440, height: 900 };
/** One a second. */
const POINTS = UPDATES_PICTURES ? 45 : 3;
/** Requests that come at once, again and again. */
const BURSTS = [16, 28, 48, 32];
const PAUSE_MS = 250;

function read<T>(folder: string, ...path: string[]): T {
  return JSON.parse(readFileSync(join(repositoryRoot, folder, ...path), 'utf8')) as T;
}

const flow = read<ExportedNode[]>('examples', 'Quick start - handwritten digits.json');
const { images } = read<{ images: { image: number[] }[] }>('assets', 'data', 'digits-test.json');

function idOf(name: string): string {
  const found = flow.find((node) => node['name'] === name);
  assert.ok(found, `the quick start has ${name}`);
  return found.id;
}

async function ask(count: number): Promise<void> {
  await Promise.all(
    Array.from({ length: count }, async (_, index) => {
      const response = await session.nodeRed.post('/predict/digits', { image: images[index % images.length]?.image });
      assert.equal(response.status, 200);
      await response.arrayBuffer();
    }),
  );
}

async function heightOf({ root }: SidebarPage): Promise<number> {
  return (await boxOf(root)).height;
}

test('the sidebar draws the quick start while it is under load', async () => {
  await session.inEditor(flow, async (editor) => {
    await editor.page.setViewportSize(SIZE);
    await editor.waitForBadge(idOf('classify'), READY);
    const sidebar = await SidebarPage.show(editor);
    // The debug messages have the lower half.
    const debug = editor.page.locator('button[data-tab-id="debug"].selected');
    await debug.waitFor();
    const height = await heightOf(sidebar);
    await sidebar.root.getByRole('button', { name: 'Hide the messages below: all of the height' }).click();
    await debug.waitFor({ state: 'detached' });
    await until('it has all of the height', async () => (await heightOf(sidebar)) > 1.5 * height);
    // The whole flow in sight.
    await editor.page.evaluate(() => RED.actions.invoke('core:toggle-palette'));
    await editor.page.mouse.move(SIZE.width / 2, SIZE.height - 200);
    let isOver = false;
    const load = (async () => {
      for (let turn = 0; !isOver; turn += 1) {
        await ask(BURSTS[Math.floor(turn / 12) % BURSTS.length] as number);
        await pause(PAUSE_MS);
      }
    })();
    try {
      const line = sidebar.stage(idOf('classify')).locator('path').last();
      const points = async (): Promise<number> => ((await line.getAttribute('d')) ?? '').split(/[ML]/).length - 1;
      for (let wanted = 1; wanted <= POINTS; wanted += 1) {
        await until(`the curve has ${wanted} points`, async () => (await points()) >= wanted);
      }
      await editor.page.locator('.red-ui-notification').first().waitFor({ state: 'detached' });
      await takePicture(editor.page, 'sidebar.png', SIZE);
    } finally {
      isOver = true;
      await load;
    }
    await editor.page.evaluate(() => RED.actions.invoke('core:toggle-palette'));
    await sidebar.root.getByRole('button', { name: 'Show the messages below again' }).click();
    await debug.waitFor();
  });
});
