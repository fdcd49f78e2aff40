/** A stage is tested in its dialog before anything is deployed: a typo has its line marked, and the fix has its result. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { repositoryRoot } from '../../fixtures/repository.ts';
import { UPDATES_PICTURES } from '../picture.ts';
import { sharedSession } from '../session.ts';

/** The editor's jQuery. */
declare const $: (selector: string) => { val(): string; prop(name: string): number };

declare const RED: {
  readonly actions: { invoke(action: string): void };
  readonly nodes: { node(id: string): { changed?: boolean; maxBatchSize?: string } };
};

const session = sharedSession();

test('a stage that is not deployed is tested: a typo has its line underlined, and the fix has a result', async () => {
  await session.inEditor([], async (editor) => {
    const { page } = editor;
    const id = await editor.dragFromPalette('modelet-stage', 400, 100);
    await editor.open(id);
    await editor.typeCode('code', 'return input.a *;');
    // The mark leads back to the tab with the typo.
    await editor.showCode('stop');
    await page.getByLabel('Input (JSON)').fill('{"a": 21}');
    const run = page.getByRole('button', { name: 'Run', exact: true });
    const result = page.locator('#modelet-stage-test-result');
    await run.click();
    await result.getByText('Predict:1: Unexpected token').waitFor();
    assert.match((await result.textContent()) ?? '', /^stage_unavailable: does not start: stage: Predict:1: /);
    const underlined = page.locator('#modelet-stage-code-editor .squiggly-error').first();
    await underlined.waitFor();
    await page.getByRole('button', { name: 'Go to line 1 of Predict' }).click();
    await page.keyboard.insertText('return 0; ');
    await underlined.waitFor({ state: 'detached' });

    await editor.typeCode('code', 'console.log("twice"); return input.a * 2;');
    await run.click();
    await result.getByText('42', { exact: true }).waitFor();
    assert.equal(await page.getByRole('status', { name: 'Result' }).textContent(), '42');
    assert.equal(await page.locator('#modelet-stage-test-log').textContent(), 'info: twice');
    assert.match((await page.locator('#modelet-stage-test-times').textContent()) ?? '', /ready after .* ran for /);
    await page.locator('#modelet-stage-test').scrollIntoViewIfNeeded();
    const path = join(repositoryRoot, 'test-results', 'dialogs', 'modelet-stage-test.png');
    if (UPDATES_PICTURES) await page.screenshot({ path });
    const body = page.locator('.red-ui-tray-body').last();
    assert.ok((await body.evaluate(({ scrollWidth, clientWidth }) => scrollWidth - clientWidth)) <= 0, 'it fits');

    // A file in place of the JSON: the result is drawn over the picture, and labels have bars.
    const name = 'digits.png';
    const buffer = readFileSync(join(repositoryRoot, 'docs', name));
    await page.locator('#modelet-stage-test-chosen').setInputFiles({ name, mimeType: 'image/png', buffer });
    await editor.typeCode('code', 'return [{ label: "<b>bytes</b>", score: input.length > 99 ? 0.5 : 0 }];');
    await run.click();
    const drawn = page.getByRole('img', { name: 'The input with the result drawn over it' });
    await drawn.waitFor();
    await page.waitForFunction(() => $('#modelet-stage-test-picture').prop('naturalWidth') > 0);
    assert.equal(await page.getByRole('meter', { name: '<b>bytes</b>' }).getAttribute('value'), '0.5');
    if (UPDATES_PICTURES) await page.screenshot({ path: path.replace('.png', '-picture.png') });
    await page.getByRole('button', { name: 'Remove the file' }).click();

    // An endless loop goes on until a user cancels it, or closes the dialog.
    await editor.typeCode('code', 'for (;;);');
    await run.click();
    await page.getByRole('button', { name: 'Cancel', exact: true }).last().click();
    await result.getByText('cancelled').waitFor();
    await page.getByLabel('Input (JSON)').fill('{"a":');
    await run.click();
    await result.getByText('The input is not valid JSON').waitFor();
    await editor.cancel();
    assert.equal((await editor.saved(id))['code'], '// input is msg.payload; return the result\nreturn input;');
  });
});

test('a stage is measured in its dialog, and the proposal becomes its settings and those of its batcher, as one undo', async () => {
  const common = { z: 'tab', y: 100 };
  // The machine's speed does not count: a run waits.
  const code = 'await new Promise((done) => setTimeout(done, 5 + input.length)); return input;';
  const flows = [
    { id: 'tab', type: 'tab', label: 'Measured' },
    { id: 'runtime', type: 'modelet-runtime', name: 'default' },
    { ...common, id: 'in', type: 'inject', x: 100, wires: [['batcher']] },
    {
      ...common,
      id: 'batcher',
      type: 'modelet-batcher',
      name: 'eights',
      policy: 'gap',
      maxBatchSize: '8',
      x: 260,
      wires: [['leave']],
    },
    { ...common, id: 'leave', type: 'link out', mode: 'link', links: ['enter'], x: 375, wires: [] },
    { ...common, id: 'enter', type: 'link in', links: ['leave'], x: 415, wires: [['stage']] },
    {
      ...common,
      id: 'stage',
      type: 'modelet-stage',
      runtime: 'runtime',
      predict: 'batch',
      workers: '1-3',
      code,
      x: 500,
      wires: [['out']],
    },
    { ...common, id: 'out', type: 'debug', x: 700, wires: [] },
  ];
  await session.inEditor(flows, async (editor) => {
    const { page } = editor;
    const settings = async (): Promise<unknown> => {
      const [{ workers }, { policy, maxBatchSize }] = [await editor.saved('stage'), await editor.saved('batcher')];
      return { workers, policy, maxBatchSize };
    };
    const before = await settings();
    const prepare = async (): Promise<void> => {
      await editor.open('stage');
      await page.getByLabel('Input (JSON)').fill('1');
      await page.locator('#modelet-stage-measure > summary').click();
      await page.getByLabel('Batches up to').fill('2');
      await page.getByLabel('Workers up to').fill('1');
    };
    const areChanged = (): Promise<boolean[]> =>
      page.evaluate(() => ['stage', 'batcher'].map((id) => RED.nodes.node(id).changed === true));
    await prepare();
    const state = page.locator('#modelet-stage-measure-state');
    await page.getByLabel('Requests per second').fill('many');
    const run = page.getByRole('button', { name: 'Measure', exact: true });
    await run.click();
    await state.getByText('A field is not a number').waitFor();
    await page.getByLabel('Requests per second').fill('20');
    await run.click();
    const table = page.getByRole('table', { name: 'At 20 requests/s, workers: 1' });
    await table.waitFor();
    assert.deepEqual(await table.getByRole('rowheader').allTextContents(), ['1', '2']);
    if (UPDATES_PICTURES)
      await page.screenshot({ path: join(repositoryRoot, 'test-results', 'dialogs', 'modelet-stage-measure.png') });
    // Another rate needs no other measurement.
    await page.getByLabel('Requests per second').fill('1000');
    await page.getByText('No measured number of workers keeps up').waitFor();
    await page.getByLabel('Requests per second').fill('20');
    await page.getByText('Proposed for 20 requests/s: Workers 1, Batch size ').waitFor();
    await page.getByRole('button', { name: 'Apply', exact: true }).click();
    await page.getByText('sets Batch size and Policy of the batcher “eights”').waitFor();
    assert.deepEqual(await settings(), before);
    await editor.ok();
    const { workers, policy, maxBatchSize } = (await settings()) as Record<string, string>;
    assert.equal(workers, '1');
    assert.ok(['greedy', 'oldest'].includes(policy ?? '') && ['1', '2'].includes(maxBatchSize ?? ''));
    assert.deepEqual(await areChanged(), [true, true]);

    // The stage has the proposed workers already: only the batcher changes.
    await page.evaluate(() => {
      for (const id of ['stage', 'batcher']) RED.nodes.node(id).changed = false;
      RED.nodes.node('batcher').maxBatchSize = '8';
    });
    await prepare();
    await page.getByLabel('Requests per second').fill('20');
    await run.click();
    await page.getByText('Proposed for 20 requests/s: Workers 1, Batch size ').waitFor();
    await page.getByRole('button', { name: 'Apply', exact: true }).click();
    await editor.ok();
    assert.deepEqual(await areChanged(), [false, true]);
    assert.notEqual((await editor.saved('batcher'))['maxBatchSize'], '8');
    await page.evaluate(() => RED.actions.invoke('core:undo'));
    assert.deepEqual(await areChanged(), [false, false]);
    assert.equal((await editor.saved('batcher'))['maxBatchSize'], '8');
    await page.evaluate(() => RED.actions.invoke('core:undo'));
    assert.deepEqual(await settings(), before);
  });
});

test('the last input of a deployed stage is a sample for code that is not deployed', async () => {
  const common = { z: 'tab', y: 100 };
  const flows = [
    { id: 'tab', type: 'tab', label: 'Last' },
    { id: 'runtime', type: 'modelet-runtime', name: 'default' },
    { ...common, id: 'in', type: 'http in', method: 'post', url: '/last', x: 100, wires: [['stage']] },
    { ...common, id: 'stage', type: 'modelet-stage', runtime: 'runtime', code: 'return 1;', x: 300, wires: [['out']] },
    { ...common, id: 'out', type: 'http response', x: 500, wires: [] },
  ];
  await session.inEditor(flows, async (editor) => {
    const body = JSON.stringify({ a: 21 });
    const headers = { 'Content-Type': 'application/json' };
    await (await fetch(`${session.nodeRed.url}/last`, { method: 'POST', headers, body })).text();
    const { page } = editor;
    await editor.open('stage');
    await editor.typeCode('code', 'return input.a * 2;');
    await page.getByRole('button', { name: 'Last input' }).click();
    await page.waitForFunction(() => $('#modelet-stage-test-sample').val().includes('21'));
    await page.getByRole('button', { name: 'Run', exact: true }).click();
    await page.locator('#modelet-stage-test-result').getByText('42', { exact: true }).waitFor();
    await editor.cancel();
  });
});
