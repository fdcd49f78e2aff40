/** Stages of npm modules: Node-RED is asked to install what a flow names, before the flow starts. */
import assert from 'node:assert/strict';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { endpoint, runtime, stage, TAB } from '../fixtures/flow.ts';
import { type FlowNode, NodeRed, until } from '../fixtures/node-red.ts';

interface Install {
  readonly module: string;
  readonly version?: string;
  readonly dir: string;
}

interface Hooks {
  add(name: string, act: (event: Install) => Promise<boolean>): void;
  clear(): void;
}

let nodeRed: NodeRed;
let hooks: Hooks;
const asked: string[] = [];
before(async () => {
  nodeRed = await NodeRed.start({
    externalModules: { modules: { allowInstall: true, denyList: ['forbidden'] } },
  });
  hooks = (nodeRed.red as unknown as { hooks: Hooks }).hooks;
  // Instead of npm, which would ask a registry.
  hooks.add('preInstall.test', async ({ module, version, dir }) => {
    asked.push(`${module}@${version}`);
    const folder = join(dir, 'node_modules', module);
    await mkdir(folder, { recursive: true });
    await writeFile(join(folder, 'index.js'), 'module.exports = (input) => ({ tripled: input.n * 3 });');
    await writeFile(join(dir, 'package.json'), JSON.stringify({ dependencies: { [module]: version } }));
    return false;
  });
});
after(async () => {
  hooks.clear();
  await nodeRed.stop();
});

function flow(module: string): FlowNode[] {
  return [
    TAB,
    runtime(),
    ...endpoint('/triple', 'triple'),
    stage('triple', '', 'collector /triple', { source: 'module', module, name: '' }),
  ];
}

describe('a stage of an npm module', () => {
  test('is served by the module that Node-RED has installed for it, and known by its name', async () => {
    await nodeRed.deploy(flow('@models/triple@^1.2'));
    assert.deepEqual(asked, ['@models/triple@^1.2']);
    await nodeRed.whenReady();
    const response = await nodeRed.post('/triple', { n: 5 });
    assert.deepEqual(await response.json(), { tripled: 15 });
    const stages = (await nodeRed.snapshot()).runtimes.flatMap((one) => one.stages.map(({ name }) => name));
    assert.deepEqual(stages, ['triple']);
    await nodeRed.deploy(flow('@models/triple@^1.2'));
    assert.equal(asked.length, 1, 'it is there');
  });

  test('does not start where the settings forbid the module; Node-RED says so', async () => {
    await nodeRed.sendFlows(flow('forbidden'), 'full');
    await until('it says so', () => nodeRed.logs.some((line) => line.includes('- forbidden [install_not_allowed]')));
    assert.equal(asked.length, 1, 'nothing was installed');
  });
});
