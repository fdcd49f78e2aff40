/** Values that the dialogs of batchers, paced splits, collectors, stream responses, metrics and runtimes refuse. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { NodeType } from '../../fixtures/node-schemas.ts';
import { importFlows } from '../clipboard.ts';
import { Form } from '../form.ts';
import { sharedSession } from '../session.ts';
import { assertBounds, numberTrials, tryAll, validityOf } from '../trials.ts';

const session = sharedSession();

test('the dialog of a batcher refuses values that it cannot use, and says why', async () => {
  await session.inEditor([], async (editor) => {
    const id = await editor.dragFromPalette('modelet-batcher', 400, 100);
    const form = new Form(editor);
    await editor.open(id);
    assert.equal(await form.element('maxWaitMs').isVisible(), false, 'a greedy batcher has no wait to set');
    assert.equal(
      await form.element('costBy').isVisible(),
      false,
      'a batch without a largest cost has items without costs',
    );
    await form.set({ policy: 'oldest', batchCost: 'padded' });
    const isGoal = ({ property }: { property: string }): boolean => property === 'targetMs';
    const trials = numberTrials('modelet-batcher');
    await tryAll(
      form,
      trials.filter((trial) => !isGoal(trial)),
    );
    await form.set({ policy: 'adaptive' });
    await tryAll(form, trials.filter(isGoal));
    await form.set({ policy: 'oldest' });
    await form.assertRefuses('costBy', 'payload[', /^Cost of an item: /);
    await form.set({ costBy: 'payload.length' });

    // A wait of another policy is of no consequence once it is greedy again.
    await form.assertRefuses('maxWaitMs', 'soon', /^Maximum wait: must be a number from 0 to 60000$/);
    await form.set({ policy: 'greedy' });
    await editor.ok();
    assert.deepEqual(await validityOf(editor, id), { valid: true, errors: [] });

    await editor.open(id);
    await form.set({ policy: 'gap' });
    await editor.ok();
    assert.deepEqual(await validityOf(editor, id), {
      valid: false,
      errors: ['Maximum wait: must be a number from 0 to 60000'],
    });
  });
});

test('the dialog of a paced split refuses values that it cannot use, and says why', async () => {
  await session.inEditor([], async (editor) => {
    const id = await editor.dragFromPalette('modelet-feed', 400, 100);
    await editor.open(id);
    await tryAll(new Form(editor), numberTrials('modelet-feed'));
    await editor.ok();
    assert.deepEqual(await validityOf(editor, id), { valid: true, errors: [] });
  });
});

test('the dialog of a result collector refuses results in parts with the order of arrival', async () => {
  await session.inEditor([], async (editor) => {
    const id = await editor.dragFromPalette('modelet-collector', 400, 100);
    const form = new Form(editor);
    await editor.open(id);
    await form.set({ results: 'parts' });
    assert.deepEqual(await form.marked(), []);
    await form.set({ order: 'arrival' });
    assert.deepEqual(await form.marked(), ['results']);
    await editor.ok();
    assert.deepEqual(await validityOf(editor, id), {
      valid: false,
      errors: ['Results in parts: parts leave as they are made: the order cannot be that of arrival'],
    });
    await editor.open(id);
    await form.set({ order: 'completion' });
    assert.deepEqual(await form.marked(), []);
    await editor.ok();
    assert.deepEqual(await validityOf(editor, id), { valid: true, errors: [] });
  });
});

test('the dialog of a stream response refuses values that it cannot use, and shows what the format needs', async () => {
  await session.inEditor([], async (editor) => {
    const id = await editor.dragFromPalette('modelet-stream', 400, 100);
    const form = new Form(editor);
    await editor.open(id);
    await tryAll(form, numberTrials('modelet-stream'));
    const shown: Readonly<Record<string, readonly boolean[]>> = {
      openai: [false, true],
      jsonl: [false, false],
      raw: [false, false],
      websocket: [false, true],
      sse: [true, true],
    };
    for (const [format, expected] of Object.entries(shown)) {
      await form.set({ format });
      const fields = await Promise.all(['event', 'heartbeatMs'].map((name) => form.element(name).isVisible()));
      assert.deepEqual(fields, expected, format);
    }
    await editor.ok();
    assert.deepEqual(await validityOf(editor, id), { valid: true, errors: [] });
  });
});

test('the dialog of pipeline metrics refuses values that it cannot use, and says why', async () => {
  await session.inEditor([], async (editor) => {
    const id = await editor.dragFromPalette('modelet-metrics', 400, 100);
    await editor.open(id);
    await tryAll(new Form(editor), numberTrials('modelet-metrics'));
    await editor.ok();
    assert.deepEqual(await validityOf(editor, id), { valid: true, errors: [] });
  });
});

test('the dialog of a runtime refuses values that it cannot use, and marks the stages of that runtime', async () => {
  await session.inEditor([], async (editor) => {
    const stage = await editor.dragFromPalette('modelet-stage', 400, 100);
    const runtime = String((await editor.saved(stage))['runtime']);
    await editor.open(stage);
    await editor.openConfig('runtime');
    const form = new Form(editor, 'config');
    await tryAll(form, [
      ...numberTrials('modelet-runtime').slice(0, 1),
      { property: 'engineCpus', bad: [['1,x', /^Engine cores: cannot read "x"$/]], good: '0' },
      { property: 'serverCpus', bad: [['3-1', /^Node-RED cores: "3-1" runs backwards$/]], good: '0-1' },
      {
        property: 'publicPath',
        bad: ['/a b', '/:id', '/a//b', '/..'].map(
          (path) => [path, /^Public path: must be a path of letters, digits and any of \. _ ~ -$/] as const,
        ),
        good: '/ops/v1',
      },
      {
        property: 'v2Path',
        bad: [['/:id', /^KServe v2 path: must be a path of letters, digits and any of \. _ ~ -$/]],
        good: '/triton',
      },
      {
        property: 'baseUrl',
        bad: ['api.example.com', 'ftp://example.com', 'https://a:b@example.com', 'https://example.com/?a'].map(
          (url) => [url, /^Base URL: must be like https:/] as const,
        ),
        good: 'https://api.example.com/v1',
      },
      {
        property: 'listen',
        bad: [
          ['localhost', /^Listen at: must be a port, host:port or unix:\/path$/],
          ['1.2.3.4:70000', /^Listen at: must be a port/],
          ['unix:socket', /^Listen at: the path of a socket must be absolute, at most 103 characters long$/],
        ],
        good: '[::1]:8080',
      },
    ]);
    await form.set({ capacity: '0' });
    await editor.ok();
    await editor.ok();
    const reason = 'Open requests: must be a whole number from 1 to 1000000';
    assert.deepEqual(await validityOf(editor, runtime), { valid: false, errors: [reason] });
    assert.equal((await validityOf(editor, stage)).valid, false);

    await editor.open(stage);
    await editor.openConfig('runtime');
    await form.set({ capacity: '10' });
    await editor.ok();
    await editor.ok();
    assert.deepEqual(await validityOf(editor, runtime), { valid: true, errors: [] });
    assert.deepEqual(await validityOf(editor, stage), { valid: true, errors: [] });
    await assertBounds(editor, runtime, 'modelet-runtime');
  });
});

test('an imported node with a choice that does not exist is marked with a reason', async () => {
  await session.inEditor([], async (editor) => {
    const node = (id: string, y: number, rest: object): object => ({ id, x: 300, y, wires: [], ...rest });
    await importFlows(editor, [
      { id: 'c000000000000001', type: 'modelet-runtime', name: 'r', logLevel: 'loud' },
      node('c000000000000002', 60, {
        type: 'modelet-stage',
        runtime: 'c000000000000001',
        source: 'web',
        predict: 'all',
        isolation: 'fibre',
      }),
      node('c000000000000003', 120, { type: 'modelet-batcher', policy: 'never' }),
      node('c000000000000004', 180, { type: 'modelet-collector', order: 'none', catch: 'all', errorPayload: 'none' }),
      node('c000000000000005', 240, { type: 'modelet-feed', from: 'stars' }),
    ]);
    const all = [...(await editor.nodes()), ...(await editor.configNodes())];
    const errorsOf = (type: NodeType): readonly string[] => all.find((found) => found.type === type)?.errors ?? [];
    assert.deepEqual(errorsOf('modelet-runtime'), ['Log level: there is no choice "loud"']);
    assert.deepEqual([...errorsOf('modelet-stage')].sort(), [
      'Call: there is no choice "all"',
      'Isolation: there is no choice "fibre"',
      'Runtime: invalid configuration node',
      'Source: there is no choice "web"',
    ]);
    assert.deepEqual(errorsOf('modelet-batcher'), ['Policy: there is no choice "never"']);
    assert.equal(errorsOf('modelet-collector').length, 3);
    for (const error of errorsOf('modelet-collector')) assert.match(error, /: there is no choice "(none|all)"$/);
    assert.equal(errorsOf('modelet-feed').length, 1);
  });
});
