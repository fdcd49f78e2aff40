/** Nodes that a deploy closes lose no message that they hold, and none comes twice. */
import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { arrived, numbers, payloads, sorted } from '../../fixtures/drawn.ts';
import { completeNode, node, runtime, sink, stage, TAB } from '../../fixtures/flow.ts';
import { type DeployType, type FlowNode, NodeRed } from '../../fixtures/node-red.ts';
import { repositoryRoot } from '../../fixtures/repository.ts';

/** Three kinds: one gives up what it holds, as a Delay node does, one sends it on first, one sends it on later. */
const KINDS = {
  drops: 'held.splice(0).forEach(({ done }) => done())',
  flushes: 'held.splice(0).forEach(({ msg, send, done }) => { send(msg); done(); })',
  'sends later': 'setTimeout(() => held.splice(0).forEach(({ msg, send, done }) => { send(msg); done(); }), 20)',
};

/** Once all are there, it holds them until it is closed; a message that comes after that it sends on. */
const HOLDER = `module.exports = (RED) => {
  const closed = new Set();
  const register = (kind, close) => RED.nodes.registerType(kind, function (definition) {
    RED.nodes.createNode(this, definition);
    const held = [];
    this.on('input', (msg, send, done) => {
      if (!closed.has(this.id)) return held.push({ msg, send, done });
      send(msg);
      done();
    });
    this.on('close', () => {
      closed.add(this.id);
      close(held);
    });
  });
  ${Object.entries(KINDS)
    .map(([kind, close]) => `register('${kind}', (held) => ${close});`)
    .join('\n  ')}
};`;

test('a node that a deploy closes loses no message that it holds, and none comes twice', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'modelet-nodes-'));
  await writeFile(join(folder, 'holders.js'), HOLDER);
  await writeFile(join(folder, 'holders.html'), '');
  const red = await NodeRed.start({ nodesDir: [repositoryRoot, folder] });
  try {
    for (const kind of Object.keys(KINDS)) {
      for (const type of ['full', 'flows', 'nodes'] satisfies DeployType[]) {
        const id = `${kind} ${type}`;
        const flows = (round: number): FlowNode[] => [
          TAB,
          runtime(),
          { ...node(id, kind, ['stage']), info: `round ${round}` },
          stage('stage', 'return input;', 'out'),
          completeNode('complete', [id], 'done'),
          sink('done'),
          sink('out'),
        ];
        await red.deployReady(flows(1));
        for (const payload of numbers(5)) red.send(id, { payload });
        await red.deploy(flows(2), type);
        const [out, done] = [red.inputs('out'), red.inputs('done')];
        await arrived(out, 5);
        red.send(id, { payload: 'last' });
        await arrived(out, 6);
        assert.deepEqual(sorted(payloads(out)), sorted([...numbers(5), 'last']), id);
        // A message that was dropped is complete where it was sent on.
        if (kind === 'drops') assert.equal((await arrived(done, 6)).length, 6, id);
      }
    }
  } finally {
    await red.stop();
    await rm(folder, { recursive: true, force: true });
  }
});
