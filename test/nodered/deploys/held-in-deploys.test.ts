/** Messages that wait while a deploy replaces nodes: none of them keeps the others from going on. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { endpoint, func, runtime, stage, TAB } from '../../fixtures/flow.ts';
import { type FlowNode, NodeRed } from '../../fixtures/node-red.ts';
import { until } from '../../fixtures/polling.ts';

test('a message that cannot be taken holds up neither the others nor the HTTP requests', async () => {
  const hooks: { listens?: true; closed?: () => void } = {};
  const waits = `
    const hooks = global.get('hooks');
    node.on('close', (done) => { hooks.closed = done; });
    hooks.listens = true;`;
  const nodeRed = await NodeRed.start({ functionGlobalContext: { hooks } });
  try {
    const flows = (version: number): FlowNode[] => [
      TAB,
      runtime(),
      ...endpoint('/double', 'double'),
      stage('double', 'return 2 * input.n;', 'collector /double'),
      func('slow', `${waits} // ${version}`, []),
    ];
    await nodeRed.deployReady(flows(1));
    nodeRed.send('slow', {});
    await until('a node listens', () => Promise.resolve(hooks.listens));
    const deployed = nodeRed.deploy(flows(2), 'nodes');
    await until('the deploy waits for a node', () => Promise.resolve(hooks.closed !== undefined));
    const answered = nodeRed.post('/double', { n: 2 });
    // Cannot be given a request's id.
    nodeRed.send('double', Object.freeze({ _msgid: 'frozen', payload: 1 }));
    hooks.closed?.();
    await deployed;
    assert.equal(await (await answered).json(), 4);
    assert.equal(await (await nodeRed.post('/double', { n: 3 })).json(), 6);
  } finally {
    await nodeRed.stop();
  }
});
