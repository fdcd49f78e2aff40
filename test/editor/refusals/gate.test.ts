/** The dialog of a dispatch gate: the fields of each source, and the values that it refuses. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { node, runtime, stage, TAB } from '../../fixtures/flow.ts';
import { NODE_SCHEMAS } from '../../fixtures/node-schemas.ts';
import type { EditorPage } from '../editor-page.ts';
import { Form } from '../form.ts';
import { sharedSession } from '../session.ts';
import { assertBounds, tryAll, validityOf } from '../trials.ts';

declare const document: { getElementById(id: string): { checkVisibility(options: object): boolean } | null };

const session = sharedSession();

const PROPERTIES = Object.keys(NODE_SCHEMAS['modelet-gate'].properties);
const SHARED = ['name', 'runtime', 'source', 'unit', 'whenClosed', 'capacity', 'store', 'leaseMs'];
/** A composite measures no budget itself. */
const OF_BUDGET = ['baseline', 'maxSys', 'stage', 'rounding', 'atLeastOne', 'intervalMs', 'lagMs', 'staleMs'];
const CREDENTIALS = ['token', 'username', 'password'];

/** Beside the fields that all sources share. */
const OF_SOURCE: Readonly<Record<string, readonly string[]>> = {
  saturation: [],
  prometheus: ['url', 'query', 'maxSysQuery', 'value', ...CREDENTIALS, 'timeoutMs'],
  scrape: ['url', 'metric', 'labels', 'perServer', 'value', ...CREDENTIALS, 'timeoutMs'],
  redis: ['url', 'key', 'value', 'username', 'password', 'timeoutMs'],
  context: ['context', 'key', 'value'],
  aimd: ['minWindow', 'maxWindow', 'increase', 'decreaseFactor', 'holdMs'],
  constant: ['budget'],
  composite: ['members'],
};

const FLOWS = [
  TAB,
  runtime(),
  stage('work', 'return input;', []),
  node('gate', 'modelet-gate', [[], []], { y: 200 }),
  node('second', 'modelet-gate', [[], []], { y: 260, name: 'second' }),
  node('third', 'modelet-gate', [[], []], { y: 320, name: 'third' }),
];

/** Those of the properties whose fields, or what stands in for them, can be seen. */
async function visible(editor: EditorPage, properties: readonly string[]): Promise<string[]> {
  const standIns: Readonly<Record<string, string>> = { members: 'modelet-gate-members', baseline: 'modelet-gate-keep' };
  const ids = properties.map((property) => standIns[property] ?? `node-input-${property}`);
  const areVisible = await editor.page.evaluate(
    (all) => all.map((id) => document.getElementById(id)?.checkVisibility({ visibilityProperty: true }) ?? false),
    ids,
  );
  return properties.filter((_, index) => areVisible[index]).sort();
}

test('the dialog of a gate shows exactly the fields that its source needs', async () => {
  await session.inEditor(FLOWS, async (editor) => {
    await editor.open('gate');
    const form = new Form(editor);
    await form.unfold();
    for (const [source, own] of Object.entries(OF_SOURCE)) {
      await form.set({ source });
      await form.unfold();
      const counted = source === 'aimd' || source === 'composite' ? [] : ['maxConcurrency'];
      const budget = source === 'composite' ? [] : OF_BUDGET;
      const expected = [...SHARED, ...budget, ...counted, ...own].sort();
      assert.deepEqual(await visible(editor, [...PROPERTIES, ...CREDENTIALS]), expected, source);
    }
    await editor.cancel();
  });
});

test('the dialog of a composite gate offers the other gates on the canvas as members', async () => {
  await session.inEditor(FLOWS, async (editor) => {
    await editor.open('gate');
    const form = new Form(editor);
    await form.set({ source: 'composite' });
    await form.unfold();
    const choices = editor.page.locator('#modelet-gate-members label');
    assert.deepEqual(
      (await choices.allTextContents()).map((text) => text.trim()),
      ['second', 'third'],
    );
    await choices.nth(1).locator('input').check();
    await choices.nth(0).locator('input').check();
    await editor.ok();
    assert.deepEqual((await editor.saved('gate'))['members'], ['second', 'third']);
    await editor.open('gate');
    await form.unfold();
    assert.equal(await choices.locator('input:checked').count(), 2);
    await choices.nth(0).locator('input').uncheck();
    await choices.nth(1).locator('input').uncheck();
    await editor.ok();
    assert.deepEqual(await validityOf(editor, 'gate'), {
      valid: false,
      errors: ['Gates: must name at least one other gate'],
    });
  });
});

test('a loaded flow with gates is valid in any order of its nodes', async () => {
  const first = node('first', 'modelet-gate', [[], []], { source: 'composite', members: '["last"]' });
  const last = node('last', 'modelet-gate', [[], []], { y: 160, stage: 'work' });
  await session.inEditor(
    [TAB, first, last, stage('work', 'return input;', [], { y: 220 }), runtime()],
    async (editor) => {
      for (const id of ['first', 'last']) assert.deepEqual(await validityOf(editor, id), { valid: true, errors: [] });
    },
  );
});

test('the dialog of a gate refuses values that it cannot use, and says why', async () => {
  await session.inEditor(FLOWS, async (editor) => {
    await editor.open('gate');
    const form = new Form(editor);
    await tryAll(form, [
      { property: 'baseline', bad: [['1.01', /^Keep free: must be from 0 to 100 %$/]], good: '0.3' },
      { property: 'maxSys', bad: [['some', /^Total capacity: must be a number/]], good: '' },
    ]);
    await form.set({ source: 'prometheus', query: 'load' });
    await tryAll(form, [
      {
        property: 'url',
        bad: [
          ['', /^Address: is missing$/],
          ['redis://127.0.0.1', /^Address: must be a URL that begins with http:\/\/, https:\/\/$/],
          ['http://me:secret@127.0.0.1', /^Address: must not contain user and password/],
        ],
        good: 'http://127.0.0.1:9090',
      },
    ]);
    await form.set({ source: 'scrape', labels: '[]', metric: '' });
    assert.deepEqual(await form.marked(), ['labels', 'metric']);
    await form.set({ source: 'aimd', maxWindow: '10', minWindow: '20' });
    assert.deepEqual(await form.marked(), ['maxWindow']);
    // The value of a hidden field has no effect.
    await form.set({ source: 'saturation', unit: 'tokens' });
    assert.deepEqual(await form.marked(), ['costProperty']);
    await form.set({ unit: 'requests' });
    assert.deepEqual(await form.marked(), []);
    await editor.ok();
    assert.deepEqual(await validityOf(editor, 'gate'), { valid: true, errors: [] });
  });
});

test('the numbers of a gate have the bounds of the schema', async () => {
  await session.inEditor(FLOWS, async (editor) => {
    await assertBounds(editor, 'gate', 'modelet-gate', (property) => {
      const source = Object.keys(OF_SOURCE).find((name) => OF_SOURCE[name]?.includes(property)) ?? 'saturation';
      return { source, store: 'durable' };
    });
  });
});

test('a preset of the gate dialog fills in the fields, which stay as they are until one is chosen', async () => {
  await session.inEditor(FLOWS, async (editor) => {
    const form = new Form(editor);
    const preset = editor.page.locator('#modelet-gate-preset');
    await editor.open('gate');
    assert.equal(await preset.inputValue(), 'behind');
    assert.equal(await editor.page.locator('#modelet-gate-keep').inputValue(), '5');
    await editor.ok();
    assert.equal(Number((await editor.saved('gate'))['baseline']), 0.05);
    await editor.open('gate');
    await preset.selectOption('limit');
    assert.deepEqual(await form.get(['source', 'baseline', 'maxSys']), {
      source: 'constant',
      baseline: '0',
      maxSys: '10',
    });
    await preset.selectOption('protect');
    assert.deepEqual(await form.get(['source', 'maxSys']), { source: 'aimd', maxSys: '10' });
    await form.set({ source: 'scrape' });
    assert.equal(await preset.inputValue(), 'own');
    await editor.cancel();
  });
});

test('the dialog of a gate asks for certificates if the address uses TLS', async () => {
  await session.inEditor(FLOWS, async (editor) => {
    await editor.open('gate');
    const form = new Form(editor);
    await form.set({ source: 'prometheus', url: 'http://127.0.0.1' });
    assert.deepEqual(await visible(editor, ['tls']), []);
    await form.set({ url: 'https://127.0.0.1' });
    await form.unfold();
    await editor.field('tls').waitFor({ state: 'visible' });
    await form.set({ source: 'redis' });
    assert.deepEqual(await visible(editor, ['tls']), []);
    await form.set({ url: 'rediss://127.0.0.1' });
    await editor.field('tls').waitFor({ state: 'visible' });
    await editor.cancel();
  });
});

test('the dialog of a gate says how many requests its numbers admit', async () => {
  await session.inEditor(FLOWS, async (editor) => {
    await editor.open('gate');
    const form = new Form(editor);
    const rule = editor.page.locator('#modelet-gate-rule');
    await form.set({ baseline: '0.1', maxSys: '50' });
    await rule
      .getByText(
        'Admits up to 45 requests at a time, while more than 10 % of the capacity is free. The others wait here.',
      )
      .waitFor();
    await form.set({ maxSys: '' });
    await form.set({ maxConcurrency: '10' });
    await rule.getByText('Admits up to 9 requests at a time for each ready worker').waitFor();
    await form.set({ baseline: '1' });
    await rule.getByText('Never opens').waitFor();
    await editor.cancel();
  });
});

test('the dialog of a gate suggests a longer sample age for Prometheus, keeps a typed one, and warns if it is too short', async () => {
  await session.inEditor(FLOWS, async (editor) => {
    await editor.open('gate');
    const form = new Form(editor);
    await form.unfold();
    const short = editor.page.locator('#modelet-gate-stale-short');
    await form.set({ source: 'prometheus' });
    assert.deepEqual(await form.get(['staleMs']), { staleMs: '35000' });
    assert.equal(await short.isVisible(), false);
    await form.set({ source: 'scrape' });
    assert.deepEqual(await form.get(['staleMs']), { staleMs: '5000' });
    await form.set({ staleMs: '7000' });
    await form.set({ source: 'prometheus' });
    assert.deepEqual(await form.get(['staleMs']), { staleMs: '7000' });
    assert.equal(await short.isVisible(), true);
    await form.set({ url: 'http://127.0.0.1:9090', query: 'up', maxSysQuery: 'sum(up' });
    await editor.ok();
    assert.deepEqual(await validityOf(editor, 'gate'), {
      valid: false,
      errors: ['Capacity PromQL: a bracket or a quote does not close'],
    });
  });
});
