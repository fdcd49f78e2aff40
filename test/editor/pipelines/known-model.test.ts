/** From an empty flow to the boxes of objects in a posted JPEG, by at most twelve clicks: a known model from a hub. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { test } from 'node:test';
import { READY } from '../../fixtures/badges.ts';
import { KNOWN, type KnownModel, writeKnownModel } from '../../fixtures/known-models.ts';
import { until } from '../../fixtures/polling.ts';
import { repositoryRoot } from '../../fixtures/repository.ts';
import type { EditorPage } from '../editor-page.ts';
import type { ExportedNode } from '../in-page.ts';
import { sharedSession } from '../session.ts';

const session = sharedSession();
const MOST_CLICKS = 12;

interface Jpeg {
  encode(picture: object, quality: number): { readonly data: Buffer };
}

interface Found {
  readonly label: string;
  readonly box: object;
}

/** A red picture. */
function jpeg(width: number, height: number): Buffer {
  const { encode } = createRequire(import.meta.url)('jpeg-js') as Jpeg;
  const data = Buffer.alloc(width * height * 4);
  for (let at = 0; at < data.length; at += 4) data.set([255, 0, 0, 255], at);
  return encode({ data, width, height }, 95).data;
}

/** Counts what a person does with the mouse: a drag and a double click are one each, as is a choice of a list. */
class Hand {
  clicks = 0;
  readonly #editor: EditorPage;

  constructor(editor: EditorPage) {
    this.#editor = editor;
  }

  async does<T>(what: Promise<T>): Promise<T> {
    this.clicks += 1;
    return what;
  }

  choose(property: string, value: string): Promise<unknown> {
    return this.does(this.#editor.field(property).selectOption(value));
  }

  /** Closes the dialog from a field by the keys that Node-RED has for it. */
  async done(field: string): Promise<void> {
    await this.#editor.field(field).press('ControlOrMeta+Enter');
    await this.#editor.settle(0);
  }
}

test('a name on a hub becomes an endpoint that finds objects, with the size of the download shown before', async () => {
  await session.inEditor([], async (editor) => {
    const { page } = editor;
    const hand = new Hand(editor);
    const httpIn = await hand.does(editor.dragFromPalette('http in', 160, 100));
    const detect = await hand.does(editor.dragFromPalette('modelet-stage', 400, 100));
    const response = await hand.does(editor.dragFromPalette('http response', 640, 100));
    await hand.does(editor.wire(httpIn, detect));
    await hand.does(editor.wire(detect, response));

    await hand.does(editor.open(httpIn));
    await hand.choose('method', 'post');
    await editor.fill(editor.field('url'), '/objects');
    await hand.done('url');

    await hand.does(editor.open(detect));
    await hand.choose('source', 'task');
    await hand.choose('task', 'object-detection');
    await editor.fill(editor.field('model'), 'tiny/objects');
    const download = page.getByRole('button', { name: /^Download \(\d.* k?B\)$/ });
    await download.waitFor();
    assert.match(
      (await page.locator('#modelet-stage-hub-files').textContent()) ?? '',
      /^\d.* k?B: config\.json \d.* B, preprocessor_config\.json \d+ B, onnx\/model\.onnx .* k?B$/,
    );
    assert.deepEqual(session.hub.sent, []);
    await hand.does(download.click());
    await page.getByText('Downloaded. The stages that wait for this model restart.').waitFor();
    await hand.done('model');
    await hand.does(editor.deploy());

    await editor.waitForBadge(detect, READY);
    const answer = await fetch(`${session.nodeRed.url}/objects`, {
      method: 'POST',
      headers: { 'Content-Type': 'image/jpeg' },
      body: new Uint8Array(jpeg(200, 100)),
    });
    const found = (await answer.json()) as readonly Found[];
    assert.deepEqual(
      found.map(({ label, box }) => [label, box]),
      [0, 50].flatMap((ymin) => [0, 100].map((xmin) => ['red', { xmin, ymin, xmax: xmin + 100, ymax: ymin + 50 }])),
    );
    assert.ok(hand.clicks <= MOST_CLICKS, `${hand.clicks} clicks`);

    // The dialog of the runtime lists the model.
    await editor.open(detect);
    await editor.openConfig('runtime');
    await page.locator('#modelet-runtime-models li', { hasText: 'tiny/objects' }).waitFor();
    const remove = page.getByRole('button', { name: 'Remove tiny/objects' });
    assert.equal(await remove.isDisabled(), true, 'a stage uses it');
    await editor.cancel();
    await editor.cancel();
  });
  await session.inEditor([], async () => {
    const models = `${session.nodeRed.editorUrl}modelets/models`;
    await until('it is removed', async () => {
      const response = await fetch(`${models}/tiny--objects@main`, { method: 'DELETE' });
      return response.status === 204;
    });
  });
});

test('the page of "What is in this picture" sends a picture that a person chooses, and draws a box around each object', async () => {
  const model = writeKnownModel(join(session.nodeRed.userDir, 'objects'), KNOWN['object-detection'] as KnownModel);
  const file = join(repositoryRoot, 'examples', 'What is in this picture.json');
  const flow = (JSON.parse(readFileSync(file, 'utf8')) as ExportedNode[]).map((node) =>
    node['source'] === 'task' ? { ...node, model } : node,
  );
  await session.inEditor(flow, async (editor) => {
    const stage = flow.find((node) => node['source'] === 'task');
    await editor.waitForBadge(String(stage?.id), READY);
    const page = await editor.page.context().newPage();
    await page.goto(`${session.nodeRed.url}/picture`);
    const chosen = page.waitForEvent('filechooser');
    await page.getByRole('button', { name: 'Choose' }).click();
    await (await chosen).setFiles({ name: 'red.jpg', mimeType: 'image/jpeg', buffer: jpeg(200, 100) });
    await page
      .getByRole('status')
      .filter({ hasText: /^4 objects, \d+ ms$/ })
      .waitFor();
    assert.deepEqual(await page.getByRole('listitem').allTextContents(), ['4 x red']);
    // The left side of the lower box on the right, and the middle of that box.
    const colours = await page.locator('canvas').evaluate((canvas) => {
      const context = (
        canvas as unknown as {
          getContext(kind: string): { getImageData(...of: number[]): { data: Uint8ClampedArray } };
        }
      ).getContext('2d');
      return [100, 150].map((x) => [...context.getImageData(x, 80, 1, 1).data]);
    });
    assert.deepEqual(colours[0]?.slice(0, 3), [0, 114, 178]);
    assert.ok(Number(colours[1]?.[0]) > 200 && Number(colours[1]?.[2]) < 50, String(colours[1]));
    await page.close();
  });
});
