/** The example flows that take in more than one message at a time: frames and lines. */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { before, describe, test } from 'node:test';
import { type FlowNode, useNodeRed } from '../../fixtures/node-red.ts';
import { until } from '../../fixtures/polling.ts';
import { repositoryRoot } from '../../fixtures/repository.ts';

const folder = join(repositoryRoot, 'examples');

const nodeRed = useNodeRed();

/** Deploys an example; the node of a name is then found by the function returned. */
async function deployExample(title: string): Promise<(name: string) => string> {
  const flow = JSON.parse(await readFile(join(folder, `${title}.json`), 'utf8')) as FlowNode[];
  await nodeRed.deployReady(flow);
  return (name) => {
    const found = flow.filter((node) => node['name'] === name);
    assert.equal(found.length, 1, name);
    return (found[0] as FlowNode).id;
  };
}

describe('examples: newest frame of four cameras', () => {
  test('runs the newest frame of each, drops the others, and loses none', async () => {
    const find = await deployExample('Newest frame of four cameras');
    const [ran, dropped] = [find('frames that were run'), find('frames that were dropped')].map((id) =>
      nodeRed.inputs(id),
    );
    assert.ok(ran && dropped);
    // One second instead of ten: 30 frames of each camera.
    nodeRed.send(find('four cameras'), { payload: 1 });
    await until('all frames have ended', () => ran.length + dropped.length === 120);
    assert.ok(dropped.length > 0);
    assert.ok(dropped.every(({ error }) => error?.code === 'dropped'));
    for (const camera of ['north', 'east', 'south', 'west']) {
      const frames: number[] = ran
        .filter(({ topic }) => topic === camera)
        .map(({ payload }) => (payload as { frame: number }).frame);
      assert.equal(frames.at(-1), 30, camera);
      assert.deepEqual(
        frames,
        frames.toSorted((a, b) => a - b),
      );
    }
    const badge = nodeRed.badges.get(find('frames that were run'))?.text ?? '';
    assert.ok(badge.startsWith(`${ran.length}: east 30, north 30, south 30, west 30 (`), badge);
  });
});

describe('examples: score a file line by line', () => {
  let find: (name: string) => string;
  before(async () => {
    find = await deployExample('Score a file line by line');
  });

  const summaryOf = async (button: string): Promise<Record<string, unknown>> => {
    const results = nodeRed.inputs(find('the whole file'));
    await nodeRed.press(find(button));
    const { payload } = await until('the summary is there', () => results[0]);
    return payload as Record<string, unknown>;
  };

  test('scores 1,000 lines, in their order', async () => {
    const summary = await summaryOf('1,000 lines');
    assert.deepEqual([summary['lines'], summary['failed']], [1000, 0]);
    assert.match(String(summary['best']), /^Guest \d+: the coffee was \w+, the waiter was friendly\.$/);
    const badge = nodeRed.badges.get(find('in order?'));
    assert.deepEqual([badge?.fill, badge?.text], ['green', '1000 in order']);
  });

  test('scores the lines of a file of this package', async () => {
    const text = await readFile(join(repositoryRoot, 'assets', 'models', 'README.md'), 'utf8');
    const summary = await summaryOf('a file of this package');
    assert.deepEqual([summary['lines'], summary['failed']], [text.trimEnd().split('\n').length, 0]);
  });
});
