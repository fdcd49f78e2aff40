/** The editor in Chinese: palette, badges, sidebar and dialogs hold no English sentence, the server's ones included. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isConfig, NODE_SCHEMAS } from '../../fixtures/node-schemas.ts';
import { EditorPage } from '../editor-page.ts';
import { sharedSession } from '../session.ts';
import { SidebarPage } from '../sidebar-page.ts';

declare const localStorage: { setItem(key: string, value: string): void; removeItem(key: string): void };

const session = sharedSession();

const stageOf = (id: string, y: number, more: object): object => ({
  ...{ id, z: 'tab', type: 'modelet-stage', name: id, runtime: 'runtime', x: 460, y, wires: [['sink']] },
  ...more,
});
const FLOW = [
  { id: 'tab', type: 'tab', label: 'Chinese' },
  { id: 'runtime', type: 'modelet-runtime', name: 'main' },
  {
    id: 'gate',
    z: 'tab',
    type: 'modelet-gate',
    name: 'gate',
    source: 'saturation',
    x: 140,
    y: 80,
    wires: [['batch'], []],
  },
  { id: 'batch', z: 'tab', type: 'modelet-batcher', name: 'batch', maxBatchSize: 8, x: 300, y: 80, wires: [['good']] },
  stageOf('good', 80, { code: 'return input;' }),
  stageOf('lacks', 160, { source: 'file', path: 'absent.js' }),
  stageOf('throws', 240, { setup: 'throw new Error("oops");' }),
  { id: 'sink', z: 'tab', type: 'debug', name: 'sink', active: false, x: 640, y: 80, wires: [] },
];
/** Names of products and formats that stand together in sentences of any language. */
const NAMES =
  /Node-RED|Server-Sent Events|Prometheus|Open Inference Protocol|Authorization: Bearer KEY|X-API-Key: KEY/g;
/** Three words of Latin letters, one after the other. */
const ENGLISH = /[A-Za-z][a-z']+(?: [a-z']+){2,}/g;

interface Part {
  readonly textContent: string;
  querySelectorAll(selector: string): Iterable<{ remove(): void }>;
}

/** Runs in the page. The texts below an element, except for code and what users have typed. */
function textsOf(element: { cloneNode(deep: boolean): unknown }): string {
  const copy = element.cloneNode(true) as Part;
  const fixed = copy.querySelectorAll('code, pre, textarea, script, style, .monaco-editor, .ace_editor');
  for (const part of fixed) part.remove();
  return copy.textContent;
}

async function englishIn(editor: EditorPage, selector: string): Promise<string[]> {
  const texts = await Promise.all((await editor.page.locator(selector).all()).map((part) => part.evaluate(textsOf)));
  assert.ok(texts.length > 0, selector);
  return texts.flatMap((text) => text.replaceAll(NAMES, '').match(ENGLISH) ?? []);
}

test('the editor in Chinese has no English sentence', async () => {
  await session.inEditor(FLOW, async ({ page: first }) => {
    const page = await first.context().newPage();
    await page.addInitScript(() => localStorage.setItem('editor-language', 'zh-CN'));
    const editor = await EditorPage.open(page, session.nodeRed);
    try {
      await editor.waitForBadge('good', /^空闲，1 个 worker$/);
      await editor.waitForBadge('lacks', /^文件：没有文件 absent\.js$/);
      await editor.waitForBadge('throws', /^无法启动：/);
      await editor.waitForBadge('batch', /^尚无批次，最多 8$/);
      await editor.waitForBadge('gate', /^打开，空闲 100 %$/);
      assert.equal(await page.locator('#red-ui-palette-header-modelets').textContent(), '模型流水线');
      const found: Record<string, string[]> = {
        palette: await englishIn(editor, '.red-ui-palette-node[data-palette-type^="modelet-"]'),
      };

      const sidebar = await SidebarPage.show(editor);
      await sidebar.verdict(/lacks 无法使用：文件：没有文件/, 'error');
      await sidebar.stage('good').waitFor();
      found['sidebar'] = await englishIn(editor, '.modelet-sb-root');

      for (const id of ['good', 'gate', 'batch']) {
        await editor.open(id);
        if (id === 'good') {
          await editor.openTab('modelet-stage-live');
          await page.locator('#modelet-stage-state', { hasText: '空闲' }).waitFor();
        }
        found[id] = await englishIn(editor, '.red-ui-tray-body');
        await editor.cancel();
      }
      await editor.open('good');
      await editor.openConfig('runtime');
      found['runtime'] = await englishIn(editor, '.red-ui-tray-body');
      for (const property of ['keys', 'broker']) {
        await editor.openConfig(property, 'add');
        found[property] = await englishIn(editor, '.red-ui-tray-body');
        await editor.cancel();
      }
      await editor.cancel();
      await editor.cancel();
      const others = Object.keys(NODE_SCHEMAS).filter((type) => !isConfig(type) && !/stage|gate|batcher/.test(type));
      for (const [index, type] of others.entries()) {
        await editor.open(await editor.dragFromPalette(type, 300, 360 + 40 * index));
        found[type] = await englishIn(editor, '.red-ui-tray-body');
        await editor.cancel();
      }
      await page.goto(`${session.nodeRed.editorUrl}modelets/dashboard`);
      await page.locator('#findings', { hasText: /lacks 无法使用：.*没有文件/ }).waitFor();
      found['dashboard'] = await englishIn(editor, 'main');
      assert.deepEqual(
        Object.entries(found).filter(([, sentences]) => sentences.length > 0),
        [],
      );
      assert.deepEqual(editor.problems, []);
    } finally {
      await page.evaluate(() => localStorage.removeItem('editor-language'));
      await page.close();
    }
  });
});
