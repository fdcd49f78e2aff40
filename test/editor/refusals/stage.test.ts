/** Values that a stage cannot use: the field turns red and says why, the node is marked, and a good value cures both. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Form } from '../form.ts';
import { sharedSession } from '../session.ts';
import { assertBounds, numberTrials, type Trial, tryAll, validityOf } from '../trials.ts';

const session = sharedSession();

const CPUS_REASONS: Trial['bad'] = [
  ['0,,1', /CPU pins: an entry between two commas or brackets is empty$/],
  ['a', /CPU pins: cannot read "a"$/],
  ['3-1', /CPU pins: "3-1" runs backwards$/],
  ['5000', /CPU pins: core 5000 is beyond 4095$/],
  ['0-256', /CPU pins: makes more than 256 workers$/],
];

test('the dialog of a stage refuses values that it cannot use, and says why', async () => {
  await session.inEditor([], async (editor) => {
    const id = await editor.dragFromPalette('modelet-stage', 400, 100);
    await editor.open(id);
    const form = new Form(editor);
    await form.unfold();
    await tryAll(form, [
      { property: 'init', bad: [['{"a":', /^Init: is not valid JSON \(/]], good: '{"a": 1}' },
      {
        property: 'inputSchema',
        bad: [
          ['{"type"', /^Input schema: is not valid JSON \(/],
          ['[1]', /^Input schema: must be a JSON Schema, which is an object$/],
        ],
        good: '{"type": "object"}',
      },
      { property: 'outputSchema', bad: [['"number"', /^Output schema: must be a JSON Schema/]], good: 'true' },
      {
        property: 'workers',
        bad: [
          ['0', /^Workers: must be 1 to 256, a range such as 0-4, or auto$/],
          ['0-257', /^Workers: must be 1 to 256, a range such as 0-4, or auto$/],
          ['4-2', /^Workers: "4-2" runs backwards$/],
        ],
        good: '0-2',
      },
      { property: 'cpus', bad: CPUS_REASONS, good: '0,[0,1],-' },
      {
        property: 'env',
        bad: [
          ['{"A"', /^Environment: is not valid JSON \(/],
          ['{"A": {}}', /^Environment: must be an object of strings, or an array with one such object per worker$/],
          ['[{}]', /^Environment: needs one object per worker: it has 1 for 2$/],
        ],
        good: '[{"A": "1"}, {}]',
      },
      {
        property: 'mediaTypes',
        bad: [
          ['json', /^HTTP bodies: "json" is not a media type such as image\/png or image\/\*$/],
          ['image/png, */png', /^HTTP bodies: "\*\/png" is not a media type/],
        ],
        good: 'image/*, */*',
      },
      {
        property: 'input',
        bad: [
          ['', /^Input: is missing$/],
          ['a[', /^Input: is not a message property/],
        ],
        good: 'payload.image',
      },
      {
        property: 'output',
        bad: [
          ['a..b', /^Output: is not a message property/],
          ['res', /^Output: cannot be msg\.res, which belongs to the HTTP client$/],
          ['req.body', /^Output: cannot be msg\.req/],
        ],
        good: 'result',
      },
      // The others say it the same way, see below.
      ...numberTrials('modelet-stage').slice(0, 1),
    ]);
    await form.set({ source: 'module' });
    await tryAll(form, [
      {
        property: 'module',
        bad: [
          ['', /^Module: must be the name of an npm module$/],
          ['../mine', /^Module: must be the name of an npm module$/],
        ],
        good: '@scope/model/part@1.2',
      },
    ]);
    await form.set({ source: 'onnx', path: '@modelet/node-red-pipeline/assets/models/digits.onnx' });
    const ports = editor.page.locator('#modelet-stage-ports');
    await ports.getByText('in image: float32 [batch, 8, 8]').waitFor();
    await ports.getByText('out scores: float32 [batch, 10]').waitFor();
    await form.set({ path: '/etc/passwd' });
    await ports.getByText('/etc/passwd is not looked into before it is deployed: it lies outside').waitFor();
    // The browser tells of the refusal as well.
    assert.match(editor.problems.splice(0).join(), /^[^,]*403[^,]*onnx[^,]*passwd[^,]*$/);
    await form.set({ path: '@modelet/node-red-pipeline/assets/models/digits.onnx' });
    await tryAll(form, [
      {
        property: 'concurrency',
        bad: [['2', /^Concurrency: an ONNX model computes one batch at a time/]],
        good: '1',
      },
      { property: 'isolation', bad: [['thread', /^Isolation: an ONNX model runs in native code/]], good: 'process' },
    ]);
    await form.set({ source: 'file' });
    await tryAll(form, [
      {
        property: 'path',
        bad: [['', /^File: is missing$/]],
        good: '@modelet/node-red-pipeline/assets/modelets/classify.js',
      },
    ]);
    await form.set({ source: 'python', python: 'python3.12' });
    await tryAll(form, [
      {
        property: 'path',
        bad: [['', /^File: is missing$/]],
        good: '@modelet/node-red-pipeline/assets/modelets/digits.py',
      },
      { property: 'isolation', bad: [['thread', /^Isolation: Python runs in processes only$/]], good: 'process' },
    ]);
    await editor.ok();
    assert.deepEqual(await validityOf(editor, id), { valid: true, errors: [] });
    assert.deepEqual((await editor.saved(id))['libs'], [], 'Node-RED would install modules that no code uses');
    assert.equal((await editor.saved(id))['python'], 'python3.12');
    await assertBounds(editor, id, 'modelet-stage', (property) => {
      return { outputs: { source: 'inline' }, idleMs: { workers: '0-4' } }[property] ?? {};
    });
  });
});

test('a stage is marked on the canvas while it has no code or a value that it cannot use', async () => {
  await session.inEditor([], async (editor) => {
    const id = await editor.dragFromPalette('modelet-stage', 400, 100);
    const form = new Form(editor);
    await editor.open(id);
    await form.set({ workers: '0', code: '' });
    await editor.ok();
    assert.deepEqual(await validityOf(editor, id), {
      valid: false,
      errors: ['Predict: has no code', 'Workers: must be 1 to 256, a range such as 0-4, or auto'],
    });

    await editor.open(id);
    assert.deepEqual(await form.marked(), ['code', 'workers']);
    assert.deepEqual(await form.get(['workers', 'code']), { workers: '0', code: '' });
    await form.set({ workers: '', code: 'return 1;' });
    await editor.ok();
    assert.deepEqual(await validityOf(editor, id), { valid: true, errors: [] });

    // Code that is not used may be absent.
    await editor.open(id);
    await form.set({ code: '', source: 'file', path: '@modelet/node-red-pipeline/assets/modelets/classify.js' });
    await editor.ok();
    assert.deepEqual(await validityOf(editor, id), { valid: true, errors: [] });
  });
});
