/** A pipeline drawn from nothing with mouse and keyboard, deployed and used. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { idle } from '../../fixtures/badges.ts';
import type { EditorPage } from '../editor-page.ts';
import { sharedSession } from '../session.ts';

const session = sharedSession();

interface Drawn {
  readonly httpIn: string;
  readonly scale: string;
  readonly batcher: string;
  readonly sum: string;
  readonly collector: string;
  readonly response: string;
}

/** Two rows, as the canvas is not wide enough for one. */
async function draw(editor: EditorPage): Promise<Drawn> {
  const drawn = {
    httpIn: await editor.dragFromPalette('http in', 200, 100),
    scale: await editor.dragFromPalette('modelet-stage', 420, 100),
    batcher: await editor.dragFromPalette('modelet-batcher', 640, 100),
    sum: await editor.dragFromPalette('modelet-stage', 240, 240),
    collector: await editor.dragFromPalette('modelet-collector', 480, 240),
    response: await editor.dragFromPalette('http response', 720, 240),
  };
  await editor.wire(drawn.httpIn, drawn.scale);
  await editor.wire(drawn.scale, drawn.batcher);
  await editor.wire(drawn.batcher, drawn.sum);
  await editor.wire(drawn.sum, drawn.collector);
  await editor.wire(drawn.collector, drawn.response, 0);
  await editor.wire(drawn.collector, drawn.response, 1);
  return drawn;
}

const SCALE_START = 'return { factor: 10 };';
const SCALE_CODE = 'return { a: input.a * state.factor, b: input.b * state.factor };';
const SCALE_STOP = "node.log('the factor was ' + state.factor);";
const SUM_CODE =
  "return input.map(({ a, b }) => Number.isFinite(a + b) ? { sum: a + b } : Object.assign(new Error('a and b must be numbers'), { code: 'invalid_input' }));";

async function fillIn(editor: EditorPage, drawn: Drawn): Promise<{ cpus: string }> {
  await editor.open(drawn.httpIn);
  await editor.field('method').selectOption('post');
  await editor.fill(editor.field('url'), '/sum');
  await editor.ok();

  await editor.open(drawn.scale);
  await editor.fill(editor.field('name'), 'scale');
  await editor.typeCode('start', SCALE_START);
  await editor.typeCode('code', SCALE_CODE);
  await editor.typeCode('stop', SCALE_STOP);
  await editor.ok();

  await editor.open(drawn.batcher);
  await editor.fill(editor.field('maxBatchSize'), '8');
  await editor.field('policy').selectOption('oldest');
  await editor.fill(editor.field('maxWaitMs'), '50');
  await editor.ok();

  await editor.open(drawn.sum);
  await editor.fill(editor.field('name'), 'sum');
  await editor.field('predict').selectOption('batch');
  await editor.typeCode('code', SUM_CODE);
  await editor.fill(editor.field('workers'), '2');
  const cores = editor.page.locator('.modelet-core');
  await editor.reveal(cores.first());
  await cores.first().click();
  if ((await cores.count()) > 1) await cores.nth(1).click();
  const cpus = await editor.field('cpus').inputValue();
  await editor.ok();
  return { cpus };
}

test('a pipeline drawn with mouse and keyboard answers requests, and its badges say ready', async () => {
  await session.inEditor([], async (editor) => {
    const drawn = await draw(editor);

    const runtimes = await editor.configNodes();
    assert.deepEqual(
      runtimes.map(({ type, name, valid }) => ({ type, name, valid })),
      [{ type: 'modelet-runtime', name: 'default', valid: true }],
      'one runtime for both stages',
    );
    for (const stage of [drawn.scale, drawn.sum]) {
      assert.equal((await editor.saved(stage))['runtime'], runtimes[0]?.id);
    }

    const { cpus } = await fillIn(editor, drawn);
    const { setup, code, teardown } = await editor.saved(drawn.scale);
    assert.deepEqual([setup, code, teardown], [SCALE_START, SCALE_CODE, SCALE_STOP]);
    const sum = await editor.saved(drawn.sum);
    assert.deepEqual([sum['predict'], sum['workers'], sum['cpus']], ['batch', '2', cpus]);
    assert.match(cpus, /^\d+(,\d+)?$/);
    const { maxBatchSize, policy, maxWaitMs } = await editor.saved(drawn.batcher);
    assert.deepEqual([maxBatchSize, policy, maxWaitMs], ['8', 'oldest', '50']);

    await editor.deploy();
    await editor.waitForBadge(drawn.scale, idle(1));
    await editor.waitForBadge(drawn.sum, idle(2));

    const { nodeRed } = session;
    const answers = await Promise.all([1, 2, 3, 4, 5].map((a) => nodeRed.post('/sum', { a, b: 1 })));
    assert.deepEqual(
      answers.map(({ status }) => status),
      [200, 200, 200, 200, 200],
    );
    assert.deepEqual(await Promise.all(answers.map((answer) => answer.json())), [
      { sum: 20 },
      { sum: 30 },
      { sum: 40 },
      { sum: 50 },
      { sum: 60 },
    ]);
    const refused = await nodeRed.post('/sum', { a: 'one', b: 1 });
    assert.equal(refused.status, 422);
    const { error } = (await refused.json()) as { error: Record<string, unknown> };
    assert.deepEqual(
      [error['code'], error['stage'], error['message']],
      ['invalid_input', 'sum', 'a and b must be numbers'],
    );

    // Six items went through; the badge of the batched stage counts them in batches.
    await editor.waitForBadge(drawn.batcher, /^batches of [1-5](\.\d)?$/);
    await editor.waitForBadge(drawn.sum, idle(2));

    await editor.open(drawn.scale);
    await editor.openTab('modelet-stage-live');
    const deployed = editor.page.locator('#modelet-stage-deployed');
    await deployed.waitFor();
    assert.equal(
      await editor.page.locator('#modelet-stage-handler').textContent(),
      'the catch output of "result collector"',
    );
    assert.match(
      (await editor.page.locator('#modelet-stage-route').textContent()) ?? '',
      /^scale \u2192 sum; ends there/,
    );
    assert.equal(
      await editor.page.locator('#modelet-stage-endpoints').textContent(),
      'POST /sum: compiled: its requests never become messages',
    );
    await editor.cancel();
    assert.equal(
      await editor.page.evaluate(() => document.querySelectorAll('.red-ui-flow-node-error:not(.hide)').length),
      0,
    );
  });
});

test('one undo removes the first stage and its runtime, and one redo restores both', async () => {
  await session.inEditor([], async (editor) => {
    const id = await editor.dragFromPalette('modelet-stage', 400, 100);
    const [runtime] = await editor.configNodes();
    assert.equal((await editor.saved(id))['runtime'], runtime?.id);

    await editor.page.keyboard.press('ControlOrMeta+z');
    await editor.node(id).waitFor({ state: 'detached' });
    assert.deepEqual([await editor.nodes(), await editor.configNodes()], [[], []]);

    await editor.page.keyboard.press('ControlOrMeta+y');
    await editor.node(id).waitFor();
    assert.deepEqual(await editor.configNodes(), [runtime]);
    assert.equal((await editor.saved(id))['runtime'], runtime?.id);
    assert.ok((await editor.nodes()).every(({ valid }) => valid));
  });
});

test('the quick-add search creates a runtime only when a stage is added from it', async () => {
  await session.inEditor([], async (editor) => {
    const search = editor.page.locator('.red-ui-search-container input:visible, .red-ui-type-search input:visible');
    const typeFor = async (text: string): Promise<void> => {
      await editor.chart.click({ position: { x: 400, y: 200 }, modifiers: ['ControlOrMeta'] });
      await search.pressSequentially(text);
      await editor.page
        .locator('.red-ui-search-result-node-label', { hasText: /^stage\b/ })
        .first()
        .waitFor();
    };

    await typeFor('modelet');
    await editor.page.keyboard.press('ArrowDown');
    await editor.page.keyboard.press('ArrowUp');
    await editor.page.keyboard.press('Escape');
    await search.waitFor({ state: 'hidden' });
    assert.deepEqual([await editor.nodes(), await editor.configNodes()], [[], []]);

    await typeFor('modelet-stage');
    await editor.page.keyboard.press('Enter');
    await editor.page.locator('.red-ui-flow-node-group').first().waitFor();
    await editor.page.waitForFunction(() => document.querySelectorAll('.red-ui-flow-node-group').length === 1);
    const [stage] = await editor.nodes();
    const [runtime, ...others] = await editor.configNodes();
    assert.deepEqual(others, []);
    assert.equal((await editor.saved(stage?.id ?? ''))['runtime'], runtime?.id);
  });
});
