/** From an empty flow to the boxes of objects in a posted JPEG, by at most twelve clicks: a known model from a hub. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { READY } from '../../fixtures/badges.ts';
import { redJpeg } from '../../fixtures/jpeg.ts';
import { until } from '../../fixtures/polling.ts';
import type { EditorPage } from '../editor-page.ts';
import { sharedSession } from '../session.ts';

const session = sharedSession();
const MOST_CLICKS = 12;

interface Found {
  readonly label: string;
  readonly box: object;
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
    const example = (): Promise<string | null> => page.getByLabel('Input (JSON)').getAttribute('placeholder');
    assert.match((await example()) ?? '', /^\{"text":/);
    await hand.choose('source', 'task');
    await hand.choose('task', 'object-detection');
    assert.equal(await example(), 'Choose a file below, or drop it here.');
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
      body: new Uint8Array(redJpeg(200, 100)),
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
