/** Messages and HTTP requests that wait while a deploy replaces nodes: none of them keeps the others from going on. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { post, read } from '../../fixtures/callers.ts';
import { endpoint, func, httpIn, httpOut, runtime, stage, TAB } from '../../fixtures/flow.ts';
import { type FlowNode, NodeRed } from '../../fixtures/node-red.ts';
import { PATIENCE_MS, until } from '../../fixtures/polling.ts';

/** HTTP requests that a deploy holds. */
const MOST_HELD = 1000;

test('a message that cannot be taken holds up neither the others nor the HTTP requests, of which many wait', async () => {
  const hooks: { listens?: true; closed?: () => void } = {};
  const waits = `
    const hooks = global.get('hooks');
    node.on('close', (done) => { hooks.closed = done; });
    hooks.listens = true;`;
  // The deploy waits until the test lets it go on.
  const nodeRed = await NodeRed.start({ functionGlobalContext: { hooks }, nodeCloseTimeout: PATIENCE_MS });
  try {
    const flows = (version: number): FlowNode[] => [
      TAB,
      runtime('runtime', { capacity: String(2 * MOST_HELD) }),
      ...endpoint('/double', 'double'),
      stage('double', 'return 2 * input.n;', 'collector /double'),
      httpIn('in', '/through', 'pass'),
      func('pass', 'return msg;', 'through'),
      stage('through', 'return 3 * input.n;', 'out', { capacity: String(2 * MOST_HELD) }),
      httpOut('out'),
      func('slow', `${waits} // ${version}`, []),
    ];
    await nodeRed.deployReady(flows(1));
    nodeRed.send('slow', {});
    await until('a node listens', () => Promise.resolve(hooks.listens));
    const deployed = nodeRed.deploy(flows(2), 'nodes');
    await until('the deploy waits for a node', () => Promise.resolve(hooks.closed !== undefined));
    const answered = post(`${nodeRed.url}/double`, 'json', { n: 2 });
    // Cannot be given a request's id.
    nodeRed.send('double', Object.freeze({ _msgid: 'frozen', payload: 1 }));
    const refused: (string | undefined)[] = [];
    // Not by fetch, which gives a connection 10 s.
    const others = Array.from({ length: MOST_HELD + 5 }, async () => {
      const { status, headers, bytes } = await post(`${nodeRed.url}/through`, 'json', { n: 1 });
      if (status === 429) refused.push(headers['retry-after']);
      return [status, status === 429 ? null : read('json', bytes)];
    });
    await until('those that find no room are told to come back', () => refused.length === 5);
    hooks.closed?.();
    await deployed;
    assert.deepEqual(refused, Array(5).fill('1'));
    const served = (await Promise.all(others)).filter(([status]) => status !== 429);
    assert.deepEqual(served, Array(MOST_HELD).fill([200, 3]));
    assert.equal(read('json', (await answered).bytes), 4);
    assert.equal(await (await nodeRed.post('/double', { n: 3 })).json(), 6);
  } finally {
    await nodeRed.stop();
  }
});
