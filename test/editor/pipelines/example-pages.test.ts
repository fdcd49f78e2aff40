/**
 * The examples of known models as a person sees them, with tiny models in the place of those from the hub: their pages, to which
 * a browser gives pictures, sounds, a camera and a microphone, and their buttons in the editor.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import type { Locator, Page } from 'playwright-core';
import { READY } from '../../fixtures/badges.ts';
import { redJpeg } from '../../fixtures/jpeg.ts';
import { KNOWN, type KnownModel, writeKnownModel } from '../../fixtures/known-models.ts';
import { until } from '../../fixtures/polling.ts';
import { repositoryRoot } from '../../fixtures/repository.ts';
import type { EditorPage } from '../editor-page.ts';
import type { ExportedNode } from '../in-page.ts';
import { sharedSession } from '../session.ts';

const session = sharedSession();

const PICTURE = 'What is in this picture';
const SPEECH = 'Speech to text';
const CAMERA = 'Count objects of a camera';
const TEXTS = 'Find similar texts';
const MACHINE = 'Anomaly of a machine';
/** The size of the picture of the browser's own camera. */
const OWN_CAMERA = { width: 640, height: 480 };
const RATE = 16_000;

const flows = new Map(
  [PICTURE, SPEECH, CAMERA, TEXTS, MACHINE].map((title) => {
    const file = join(repositoryRoot, 'examples', `${title}.json`);
    return [title, JSON.parse(readFileSync(file, 'utf8')) as ExportedNode[]];
  }),
);

function idOf(title: string, type: string, name?: string): string {
  const found = flows.get(title)?.find((node) => node.type === type && (name === undefined || node['name'] === name));
  assert.ok(found, `${title} has ${type} ${name}`);
  return found.id;
}

let isWritten = false;

/** Gives the stages their models, once there is a folder for them. */
function allFlows(): readonly ExportedNode[] {
  const all = [...flows.values()].flat();
  for (const node of isWritten ? [] : all) {
    if (node['source'] !== 'task') continue;
    const task = String(node['task']);
    const model = writeKnownModel(join(session.nodeRed.userDir, `page-${task}`), KNOWN[task] as KnownModel);
    // The frames of the camera are mostly grey, in which the tiny model is sure of little.
    const init = task === 'object-detection' ? { threshold: 0.1 } : {};
    Object.assign(node, { model, init: JSON.stringify(init) });
  }
  isWritten = true;
  return all;
}

/** Deploys all of them once, and waits for the stage of this one. */
async function withExample(title: string, work: (editor: EditorPage) => Promise<void>): Promise<void> {
  await session.inEditor(allFlows(), async (editor) => {
    await editor.showTab(title);
    await editor.waitForBadge(idOf(title, 'modelet-stage'), READY);
    await work(editor);
  });
}

/** Opens the page of an example beside the editor. */
async function onPage(title: string, path: string, work: (page: Page) => Promise<void>): Promise<void> {
  await withExample(title, async (editor) => {
    const page = await editor.page.context().newPage();
    const problems: string[] = [];
    page.on('pageerror', (error) => problems.push(String(error)));
    try {
      await page.goto(`${session.nodeRed.url}${path}`);
      await work(page);
      assert.deepEqual(problems, []);
    } finally {
      await page.close();
    }
  });
}

const press = (editor: EditorPage, title: string, button: string): Promise<void> =>
  editor
    .node(idOf(title, 'inject', button))
    .locator('.red-ui-flow-node-button-button')
    .click();

/** Gives the page a file by its button. */
async function choose(page: Page, button: string, name: string, mimeType: string, buffer: Buffer): Promise<void> {
  const chosen = page.waitForEvent('filechooser');
  await page.getByRole('button', { name: button }).click();
  await (await chosen).setFiles({ name, mimeType, buffer });
}

const statusOf = (page: Page, text: RegExp): Promise<void> =>
  page.getByRole('status').filter({ hasText: text }).waitFor();

/** An expression for the page: what a drag or the clipboard has in it, a JPEG file. */
const transferOf = (file: Buffer): string => `(() => {
  const made = new DataTransfer();
  const bytes = Uint8Array.from(atob('${file.toString('base64')}'), (sign) => sign.charCodeAt(0));
  made.items.add(new File([bytes], 'file', { type: 'image/jpeg' }));
  return made;
})()`;

function pixels(canvas: Locator, ...places: readonly (readonly [x: number, y: number])[]): Promise<number[][]> {
  return canvas.evaluate((element, places) => {
    const context = (
      element as unknown as {
        getContext(kind: string): { getImageData(...of: number[]): { data: Uint8ClampedArray } };
      }
    ).getContext('2d');
    return places.map(([x, y]) => [...context.getImageData(x, y, 1, 1).data].slice(0, 3));
  }, places);
}

describe(`the page of "${PICTURE}"`, () => {
  test('sends a picture that a person chooses, drops or pastes, and draws a box around each object', async () => {
    await onPage(PICTURE, '/picture', async (page) => {
      const canvas = page.locator('canvas');
      await choose(page, 'Choose', 'red.jpg', 'image/jpeg', redJpeg(200, 100));
      await statusOf(page, /^4 objects, \d+ ms$/);
      assert.deepEqual(await page.getByRole('listitem').allTextContents(), ['4 x red']);
      // The left side of the lower box on the right, and the middle of that box.
      const [side, middle] = await pixels(canvas, [100, 80], [150, 80]);
      assert.deepEqual(side, [0, 114, 178]);
      assert.ok(Number(middle?.[0]) > 200 && Number(middle?.[2]) < 50, String(middle));

      const isWide = (width: string) => async () => (await canvas.getAttribute('width')) === width;
      const dataTransfer = await page.evaluateHandle(transferOf(redJpeg(120, 60)));
      await page.dispatchEvent('figure', 'drop', { dataTransfer });
      await until('the dropped picture is drawn', isWide('120'));
      const pasted = `new ClipboardEvent('paste', { clipboardData: ${transferOf(redJpeg(80, 40))} })`;
      await page.evaluate(`document.dispatchEvent(${pasted})`);
      await until('the pasted picture is drawn', isWide('80'));
      await choose(page, 'Choose', 'words.jpg', 'image/jpeg', Buffer.from('no picture'));
      await statusOf(page, /^The browser cannot read this file as a picture$/);
    });
  });

  test('asks for one frame of a camera after the other, until a person chooses a picture', async () => {
    await onPage(PICTURE, '/picture', async (page) => {
      const answer = (): Promise<unknown> =>
        page.waitForResponse((response) => response.url().endsWith('/predict/objects'));
      const first = answer();
      await page.getByRole('button', { name: 'Camera' }).click();
      await first;
      await answer();
      await statusOf(page, /^\d objects, \d+ ms$/);
      const canvas = page.locator('canvas');
      const size = await Promise.all(['width', 'height'].map(async (side) => Number(await canvas.getAttribute(side))));
      assert.deepEqual(size, [OWN_CAMERA.width, OWN_CAMERA.height]);
      await choose(page, 'Choose', 'red.jpg', 'image/jpeg', redJpeg(200, 100));
      await page.getByText('4 x red').waitFor();
      assert.equal(await canvas.getAttribute('width'), '200');
    });
  });
});

/** A WAV file whose loudness the tiny model takes for letters. */
function spoken(...levels: readonly number[]): Buffer {
  const samples = levels.flatMap((level) => new Array(400).fill(Math.round(level * 32_768)));
  const file = Buffer.alloc(44 + 2 * samples.length);
  file.write('RIFF    WAVEfmt ', 'latin1');
  file.writeUInt32LE(36 + 2 * samples.length, 4);
  file.writeUInt32LE(16, 16);
  file.writeUInt16LE(1, 20);
  file.writeUInt16LE(1, 22);
  file.writeUInt32LE(RATE, 24);
  file.writeUInt32LE(2 * RATE, 28);
  file.writeUInt16LE(2, 32);
  file.writeUInt16LE(16, 34);
  file.write('data', 36, 'latin1');
  file.writeUInt32LE(2 * samples.length, 40);
  for (const [at, sample] of samples.entries()) file.writeInt16LE(sample, 44 + 2 * at);
  return file;
}

describe(`the page of "${SPEECH}"`, () => {
  test('writes down a file that a person chooses', async () => {
    await onPage(SPEECH, '/speech', async (page) => {
      await choose(page, 'Choose a file', 'abc.wav', 'audio/wav', spoken(0.2, 0.3, 0.4));
      await statusOf(page, /^\d+\.\d s$/);
      assert.deepEqual(await page.getByRole('cell').allTextContents(), ['', 'abc']);
      await page.locator('audio').waitFor();
      await choose(page, 'Choose a file', 'words.wav', 'audio/wav', Buffer.from('no sound'));
      await statusOf(page, /^No answer: .*decode/);
    });
  });

  test('writes down what a microphone hears', async () => {
    await onPage(SPEECH, '/speech', async (page) => {
      // Holds what the microphone hears, so that the test can wait for a beep.
      await page.evaluate(`{
        const ask = navigator.mediaDevices.getUserMedia.bind(navigator.mediaDevices);
        navigator.mediaDevices.getUserMedia = async (wanted) => (globalThis.heard = await ask(wanted));
      }`);
      await page.getByRole('button', { name: 'Record' }).click();
      await page.getByRole('button', { name: 'Stop' }).waitFor();
      await statusOf(page, /^Speak/);
      await page.evaluate(`(async () => {
        const context = new AudioContext();
        const analyser = context.createAnalyser();
        context.createMediaStreamSource(globalThis.heard).connect(analyser);
        const wave = new Float32Array(analyser.fftSize);
        do {
          await new Promise(requestAnimationFrame);
          analyser.getFloatTimeDomainData(wave);
        } while (!wave.some((sample) => Math.abs(sample) > 0.05));
        await context.close();
      })()`);
      await page.getByRole('button', { name: 'Stop' }).click();
      await statusOf(page, /^\d+\.\d s$/);
      assert.equal(await page.getByRole('row').count(), 1);
      await page.getByRole('button', { name: 'Record' }).waitFor();
    });
  });
});

test(`the button of "${CAMERA}" draws the newest frames and tells what is in them`, async () => {
  await withExample(CAMERA, async (editor) => {
    await press(editor, CAMERA, 'watch for ten seconds');
    await editor.waitForBadge(idOf(CAMERA, 'function', 'count'), /^\d (?:red|green|blue)/);
    const picture = editor.node(idOf(CAMERA, 'modelet-view')).locator('image.modelet-picture');
    await picture.waitFor();
    assert.deepEqual([await picture.getAttribute('width'), await picture.getAttribute('height')], ['240', '180']);
  });
});

test(`the buttons of "${TEXTS}" remember eight sentences and tell the three nearest to a question`, async () => {
  await withExample(TEXTS, async (editor) => {
    await press(editor, TEXTS, 'eight sentences');
    await editor.waitForBadge(idOf(TEXTS, 'function', 'index'), /^8 texts$/);
    await press(editor, TEXTS, 'a question');
    await editor.waitForDebug(/similarmsg\.payload : array\[3\]/);
  });
});

test(`the button of "${MACHINE}" tells the three unusual readings of a day`, async () => {
  await withExample(MACHINE, async (editor) => {
    await press(editor, MACHINE, 'a day of readings');
    await editor.waitForBadge(idOf(MACHINE, 'function', 'sort out'), /^3 of 288 readings are unusual$/);
    await editor.waitForDebug(/unusualmsg\.payload : array\[3\]/);
    await editor.waitForBadge(idOf(MACHINE, 'debug', 'unusual'), /^current, temperature, vibration$/);
  });
});
