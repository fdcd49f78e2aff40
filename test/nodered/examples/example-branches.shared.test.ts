/** The examples with several ways for a request, deployed as they are shipped, do what their comments say. */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { type FlowNode, useNodeRed } from '../../fixtures/node-red.ts';
import { until } from '../../fixtures/polling.ts';
import { repositoryRoot } from '../../fixtures/repository.ts';

const nodeRed = useNodeRed();

/** Deploys an example; the node of a type and name is then found by the function that it returns. */
async function deployExample(title: string): Promise<(type: string, name: string) => string> {
  const flow = JSON.parse(await readFile(join(repositoryRoot, 'examples', `${title}.json`), 'utf8')) as FlowNode[];
  await nodeRed.deployReady(flow);
  return (type, name) => {
    const found = flow.find((node) => node.type === type && node['name'] === name);
    assert.ok(found, `${type} ${name}`);
    return found.id;
  };
}

describe('examples: an ensemble of two models', () => {
  test('gathers what there is, and needs both over HTTP', async () => {
    const find = await deployExample('Ensemble of two models');
    const results = nodeRed.inputs(find('debug', 'results'));
    const errors = nodeRed.inputs(find('debug', 'errors'));
    await nodeRed.press(find('inject', '4: two results'));
    await until('both results are there', () => results.length === 1);
    await nodeRed.press(find('inject', '-4: one fails'));
    await nodeRed.press(find('inject', '"x": both fail'));
    await until('all three are back', () => results.length === 2 && errors.length === 1);
    assert.deepEqual(
      results.map(({ payload }) => payload),
      [{ linear: 9, bent: 10 }, { linear: -7 }],
    );
    assert.equal(errors[0]?.error?.code, 'modelet_failed');
    const answer = await nodeRed.post('/examples/ensemble', { number: 4 });
    assert.deepEqual(await answer.json(), { line: 9, curve: 10 });
    const refused = await nodeRed.post('/examples/ensemble', { number: -4 });
    assert.equal(refused.status, 500);
    assert.match(await refused.text(), /branch curve: only numbers from 0/);
  });
});

describe('examples: one of two models', () => {
  test('the text, or the request, decides which stage answers, and the engine follows the switch', async () => {
    const find = await deployExample('One of two models');
    const results = nodeRed.inputs(find('debug', 'results'));
    await nodeRed.press(find('inject', 'a short text'));
    await until('the first is back', () => results.length === 1);
    await nodeRed.press(find('inject', 'a long text'));
    await until('both are back', () => results.length === 2);
    assert.deepEqual(
      results.map(({ payload }) => (payload as { by: string }).by),
      ['short', 'long'],
    );
    for (const [model, root] of [
      ['small', 4],
      ['large', Math.sqrt(17)],
    ]) {
      const answer = await nodeRed.post('/examples/either', { model, number: 17 });
      assert.deepEqual(await answer.json(), { by: model, root });
    }
    const refused = await nodeRed.post('/examples/either', { number: 'x' });
    assert.equal(refused.status, 500);
    const { endpoints } = (await nodeRed.snapshot()) as unknown as { endpoints: { reason: string | null }[] };
    assert.deepEqual(
      endpoints.map(({ reason }) => reason),
      [null],
    );
  });
});

describe('examples: the words of a picture', () => {
  test('each word is read by itself, in its place, and an unknown one has none', async () => {
    const find = await deployExample('Read the words of a picture');
    const results = nodeRed.inputs(find('debug', 'results'));
    await nodeRed.press(find('inject', 'five words'));
    await until('the first is back', () => results.length === 1);
    await nodeRed.press(find('inject', 'one unknown'));
    await until('both are back', () => results.length === 2);
    interface Read {
      readonly item: { readonly x: number; readonly y: number };
      readonly result: string | null;
    }
    const [first = [], second = []] = results.map(({ payload }) => payload as Read[]);
    assert.deepEqual(
      first.map(({ item: { x, y }, result }) => [result, x, y]),
      [
        ['EACH', 0, 1],
        ['WORD', 19, 1],
        ['IS', 38, 1],
        ['AN', 0, 7],
        ['ITEM', 11, 7],
      ],
    );
    assert.deepEqual(
      second.map(({ result }) => result),
      ['THE', null, 'IS', 'OPEN'],
    );
    assert.match(JSON.stringify(results[1]?.['branches']), /"1":.*the letter at \d+ is unknown/);
  });
});
