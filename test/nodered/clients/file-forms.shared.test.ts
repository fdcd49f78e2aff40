/**
 * Forms with files: what their senders are told where the file, or the end of the form, is missing; and pictures that a
 * known model names, and an ONNX model with presets.
 */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { catchNode, func, httpIn, httpOut, runtime, stage, TAB } from '../../fixtures/flow.ts';
import { KNOWN, type KnownModel, writeKnownModel } from '../../fixtures/known-models.ts';
import { useNodeRed } from '../../fixtures/node-red.ts';

const folder = mkdtempSync(join(tmpdir(), 'modelet-known-'));
after(() => rmSync(folder, { recursive: true, force: true }));
const model = writeKnownModel(folder, KNOWN['image-classification'] as KnownModel);
const known = { source: 'task', task: 'image-classification', model, init: '{"topK":1}' };

/** The file of that model, as if it came from elsewhere. */
const presets = { takes: 'picture', size: '8', gives: 'classes', labels: '../config.json', topK: 1 };
const byPresets = { source: 'onnx', path: join(model, 'onnx', 'model.onnx'), init: JSON.stringify(presets) };

const red = useNodeRed({
  flows: [
    TAB,
    runtime(),
    { ...httpIn('in', '/file', 'size'), upload: true },
    stage('size', 'return { bytes: input.length };', 'out', { input: 'req.files[0].buffer' }),
    httpIn('in nested', '/nested', 'nested'),
    stage('nested', 'return { got: input };', 'out', { input: 'payload.image.data' }),
    { ...httpIn('in plain', '/plain', 'answer'), upload: true },
    func('answer', 'msg.payload = { files: msg.req.files.length }; return msg;', 'out'),
    httpIn('in picture', '/picture', 'name picture'),
    stage('name picture', '', 'out', known),
    { ...httpIn('in form', '/form', 'name file'), upload: true },
    stage('name file', '', 'out', { ...known, input: 'req.files[0]' }),
    httpIn('in onnx', '/onnx', 'name by presets'),
    stage('name by presets', '', 'out', byPresets),
    httpOut('out'),
    catchNode('catch', 'body'),
    func('body', 'msg.payload = { error: { code: msg._error.code, message: msg._error.message } }; return msg;', 'out'),
  ],
});

interface Answer {
  readonly status: number;
  readonly text: string;
  readonly error?: { readonly code: string; readonly message: string };
}

async function send(path: string, body: FormData | string, headers: Record<string, string> = {}): Promise<Answer> {
  const response = await fetch(red.url + path, { method: 'POST', body, headers });
  const text = await response.text();
  const { error } = text.startsWith('{') ? (JSON.parse(text) as { error?: Answer['error'] }) : {};
  return { status: response.status, text, ...(error ? { error } : {}) };
}

function form(fields: Readonly<Record<string, string | Blob>>): FormData {
  const data = new FormData();
  for (const [name, value] of Object.entries(fields)) data.append(name, value);
  return data;
}

const BOUNDARY = { 'Content-Type': 'multipart/form-data; boundary=edge' };
const PART = '--edge\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n';

describe('a form with files', () => {
  test('reaches the stage that reads its file', async () => {
    const { status, text } = await send('/file', form({ any: new Blob(['12345']) }));
    assert.deepEqual([status, JSON.parse(text)], [200, { bytes: 5 }]);
  });

  for (const [what, body, headers] of [
    ['a form without a file', form({ name: 'text' }), {}],
    ['JSON', '{}', { 'Content-Type': 'application/json' }],
  ] as const) {
    test(`${what} is told that the file is missing`, async () => {
      const { status, error } = await send('/file', body, headers);
      assert.equal(status, 422);
      assert.deepEqual(error, {
        code: 'invalid_input',
        message: 'no file was sent: the stage reads msg.req.files[0].buffer',
      });
    });
  }

  const broken: readonly (readonly [string, string, Record<string, string>])[] = [
    ['is cut off', `${PART}1234`, BOUNDARY],
    ['has no boundary', `${PART}1234\r\n--edge--\r\n`, { 'Content-Type': 'multipart/form-data' }],
    ['has a broken part', '--edge\r\nno header\r\n\r\n1234\r\n--edge--\r\n', BOUNDARY],
  ];
  for (const [what, body, headers] of broken) {
    test(`that ${what} is a bad_request`, async () => {
      const { status, error, text } = await send('/file', body, headers);
      assert.equal(status, 400, text);
      assert.equal(error?.code, 'bad_request');
      assert.match(error.message, /^the body cannot be read: /);
    });
  }

  test('that leads to no pipeline gets the answer of Node-RED, also if it is cut off', async () => {
    const { status, text } = await send('/plain', `${PART}1234`, BOUNDARY);
    assert.deepEqual([status, text], [500, 'Internal Server Error']);
  });
});

test('the error for a body without the part that a stage reads names that part', async () => {
  for (const body of ['{}', '{"image":null}']) {
    const { status, error } = await send('/nested', body, { 'Content-Type': 'application/json' });
    assert.equal(status, 422);
    assert.equal(error?.message, 'payload.image is missing: the stage reads msg.payload.image.data');
  }
});

describe('a known model behind an endpoint', () => {
  /** One pixel, blue. */
  const picture = Buffer.from(
    'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGNgYPgPAAEDAQAIicLsAAAAAElFTkSuQmCC',
    'base64',
  );
  const labels = ({ text }: Answer): string[] => (JSON.parse(text) as { label: string }[]).map(({ label }) => label);

  test('names a picture that is the body, a file of a form, or base64 in JSON with options', async () => {
    const answers = await Promise.all([
      send('/picture', picture as unknown as string, { 'Content-Type': 'image/png' }),
      send('/onnx', picture as unknown as string, { 'Content-Type': 'image/png' }),
      send('/form', form({ any: new Blob([picture]) })),
      send('/picture', JSON.stringify({ input: picture.toString('base64'), options: { topK: 2 } }), {
        'Content-Type': 'application/json',
      }),
    ]);
    assert.deepEqual(answers.map(labels), [['blue'], ['blue'], ['blue'], ['blue', 'green']]);
  });

  test('answers a file that is no picture with its code', async () => {
    const { status, error } = await send('/picture', 'no picture', { 'Content-Type': 'image/png' });
    assert.deepEqual([status, error?.code], [422, 'invalid_input']);
  });
});
