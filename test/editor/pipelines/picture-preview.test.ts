/** Pictures are drawn below their node on the canvas and in the sidebar, while a user sees them. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { test } from 'node:test';
import { jpeg } from '../../fixtures/jpeg.ts';
import { until } from '../../fixtures/polling.ts';
import { repositoryRoot } from '../../fixtures/repository.ts';
import { UPDATES_PICTURES } from '../picture.ts';
import { sharedSession } from '../session.ts';
import { SidebarPage } from '../sidebar-page.ts';

const session = sharedSession();

/** A picture in which blue becomes green from left to right. */
const blueToGreen = (width: number, height: number): Uint8Array<ArrayBuffer> =>
  new Uint8Array(
    jpeg(width, height, (x) => {
      const part = Math.round(200 * x);
      return [40, part, 200 - part];
    }),
  );

const FOUND = [
  { label: 'person', score: 0.97, box: { xmin: 60, ymin: 90, xmax: 240, ymax: 420 } },
  { label: '<img src=x onerror=alert(1)>', score: 0.52, box: { xmin: 330, ymin: 200, xmax: 610, ymax: 460 } },
];

test('a picture with boxes is drawn below its node and in the sidebar', async () => {
  const common = { z: 'tab', y: 100 };
  const flows = [
    { id: 'tab', type: 'tab', label: 'Pictures' },
    { ...common, id: 'in', type: 'http in', method: 'post', url: '/picture', x: 140, wires: [['boxes']] },
    {
      ...common,
      id: 'boxes',
      type: 'function',
      name: 'find',
      func: `msg.objects = ${JSON.stringify(FOUND)}; return msg;`,
      outputs: 1,
      x: 290,
      wires: [['view']],
    },
    { ...common, id: 'view', type: 'modelet-view', name: 'door', results: 'objects', x: 450, wires: [['out'], []] },
    { ...common, id: 'out', type: 'http response', x: 610, wires: [] },
  ];
  await session.inEditor(flows, async (editor) => {
    const { page } = editor;
    const post = async (body: Uint8Array<ArrayBuffer>): Promise<void> => {
      const headers = { 'Content-Type': 'image/jpeg' };
      await (await fetch(`${session.nodeRed.url}/picture`, { method: 'POST', headers, body })).text();
    };
    await post(blueToGreen(640, 480));
    const picture = editor.node('view').locator('image.modelet-picture');
    await picture.waitFor();
    assert.deepEqual([await picture.getAttribute('width'), await picture.getAttribute('height')], ['240', '180']);
    const first = await picture.getAttribute('href');
    assert.match(first ?? '', /^blob:/);

    await SidebarPage.show(editor);
    const figure = page.locator('.modelet-sb-picture-of');
    await figure.getByRole('img', { name: 'door' }).waitFor();
    await post(blueToGreen(320, 80));
    await until('the new picture', async () => (await picture.getAttribute('height')) === '60');
    assert.notEqual(await picture.getAttribute('href'), first);
    if (UPDATES_PICTURES) {
      await post(blueToGreen(640, 480));
      await until('the first picture again', async () => (await picture.getAttribute('height')) === '180');
      await page.screenshot({ path: join(repositoryRoot, 'test-results', 'dialogs', 'modelet-view-canvas.png') });
    }

    await post(new Uint8Array(Buffer.from('no picture')));
    await editor.waitForBadge('view', /^not a JPEG, PNG, WebP or GIF file$/);
    await picture.waitFor({ state: 'detached' });
    await figure.getByText('not a JPEG, PNG, WebP or GIF file').waitFor();
  });
});
