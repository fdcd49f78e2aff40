/** npm modules of stages: Node-RED is asked to install what a flow names, before the flow starts. */
import assert from 'node:assert/strict';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { endpoint, runtime, stage, TAB } from '../../fixtures/flow.ts';
import { type FlowNode, useNodeRed } from '../../fixtures/node-red.ts';
import { until } from '../../fixtures/polling.ts';

interface Install {
  readonly module: string;
  readonly version?: string;
  readonly dir: string;
}

interface Hooks {
  add(name: string, act: (event: Install) => Promise<boolean>): void;
  clear(): void;
}

const TRIPLES = 'module.exports = (input) => ({ tripled: input.n * 3 });';

const nodeRed = useNodeRed({
  settings: {
    externalModules: {
      modules: { allowInstall: true, denyList: ['forbidden', 'node:child_process', 'onnxruntime-*'] },
    },
  },
  prepare: async (nodeRed) => {
    hooks = (nodeRed.red as unknown as { hooks: Hooks }).hooks;
    // Instead of npm, which would ask a registry.
    hooks.add('preInstall.test', async ({ module, version, dir }) => {
      asked.push(version === undefined ? module : `${module}@${version}`);
      await write(dir, module, TRIPLES);
      const file = join(dir, 'package.json');
      const { dependencies } = JSON.parse(await readFile(file, 'utf8')) as { dependencies?: object };
      await writeFile(file, JSON.stringify({ dependencies: { ...dependencies, [module]: version ?? '*' } }));
      return false;
    });
  },
});
let hooks: Hooks;
const asked: string[] = [];
after(() => hooks.clear());

async function write(dir: string, module: string, code: string): Promise<void> {
  const folder = join(dir, 'node_modules', module);
  await mkdir(folder, { recursive: true });
  await writeFile(join(folder, 'index.js'), code);
}

function flow(properties: object, code = 'return input;'): FlowNode[] {
  return [
    TAB,
    runtime(),
    ...endpoint('/triple', 'triple'),
    stage('triple', code, 'collector /triple', { ...properties }),
  ];
}

/** As the dialog saves it. */
function ofModule(module: string): FlowNode[] {
  return flow({ source: 'module', module, libs: [{ var: '', module }], name: '' });
}

async function triple(n: number): Promise<unknown> {
  return (await nodeRed.post('/triple', { n })).json();
}

async function refusal(flows: readonly FlowNode[], reason: string): Promise<void> {
  const before = asked.length;
  await nodeRed.sendFlows(flows, 'full');
  await until(`it says ${reason}`, () => nodeRed.logs.some((line) => line.includes(reason)));
  assert.equal(asked.length, before, 'nothing was installed');
}

describe('a stage of an npm module', () => {
  test('is served by the module that Node-RED has installed for it, and bears its name', async () => {
    await nodeRed.deploy(ofModule('@models/triple@^1.2'));
    assert.deepEqual(asked.splice(0), ['@models/triple@^1.2']);
    await nodeRed.whenReady();
    assert.deepEqual(await triple(5), { tripled: 15 });
    const stages = (await nodeRed.snapshot()).runtimes.flatMap((one) => one.stages.map(({ name }) => name));
    assert.deepEqual(stages, ['triple']);
    await nodeRed.deploy(ofModule('@models/triple@^1.2'));
    assert.deepEqual(asked, [], 'it is there');
  });

  test('does not start if the settings forbid the module, and Node-RED says so', async () => {
    await refusal(ofModule('forbidden'), '- forbidden [install_not_allowed]');
  });

  test('says how to install an unlisted module', async () => {
    await nodeRed.deploy(flow({ source: 'module', module: 'unlisted' }));
    const badge = await until('the badge says it', () => {
      const text = nodeRed.badges.get('triple')?.text;
      return text?.startsWith('does not start') && text;
    });
    assert.match(badge, /^does not start: the module unlisted is not/);
    const { error } = (await triple(1)) as { error: { code: string; message: string } };
    assert.equal(error.code, 'stage_unavailable');
    assert.match(error.message, /not installed: run "npm install unlisted" in .*externalModules/);
    assert.deepEqual(asked, []);
  });
});

test('the settings that forbid a module forbid the dialog to install it, too', async () => {
  const response = await nodeRed.post('/admin/modelets/packages', { source: 'onnx' });
  assert.equal(response.status, 403);
  assert.deepEqual(await response.json(), {
    code: 'not_allowed',
    error: 'the settings of Node-RED forbid it: externalModules.modules.denyList',
  });
});

describe('inline code with modules', () => {
  const libs = [
    { var: 'thrice', module: 'thrice@2' },
    { var: 'path', module: 'node:path' },
  ];

  test('has the modules that Node-RED has installed for it as variables, in all of its tabs', async () => {
    const tabs = { libs, setup: 'return thrice({ n: 1 }).tripled;', teardown: "node.warn('ends ' + typeof thrice);" };
    await nodeRed.deploy(
      flow({ ...tabs, module: 'unused' }, 'return [state, thrice(input).tripled, path.basename("a/b")];'),
    );
    assert.deepEqual(asked.splice(0), ['thrice@2'], 'and nothing that only another source would use');
    await nodeRed.whenReady();
    assert.deepEqual(await triple(5), [3, 15, 'b']);
    await nodeRed.deploy(flow({ libs: [] }, 'return { type: typeof thrice };'));
    await until('On Stop had it', () => nodeRed.logs.some((line) => line.includes('ends function')));
    await nodeRed.whenReady();
    assert.deepEqual(await triple(5), { type: 'undefined' });
  });

  test('gets new workers when its modules change, and keeps them when they do not', async () => {
    const code = 'return { pid: process.pid, os: typeof os };';
    // Until they are ready, the old ones answer.
    const answer = (os: string): Promise<{ pid: number }> =>
      until('the new code serves', async () => {
        const said = (await triple(1)) as { pid: number; os?: string };
        return said.os === os && said;
      });
    await nodeRed.deploy(flow({ libs }, code));
    const first = await answer('undefined');
    await nodeRed.deploy(flow({ libs }, code));
    assert.deepEqual(await answer('undefined'), first);
    await nodeRed.deploy(flow({ libs: [...libs, { var: 'os', module: 'os' }] }, code));
    assert.notEqual((await answer('object')).pid, first.pid);
  });

  test('does not start if the settings forbid one of its modules, or of Node\u2019s own, and Node-RED says so', async () => {
    await refusal(flow({ libs: [{ var: 'it', module: 'forbidden@1' }] }), '- forbidden@1 [install_not_allowed]');
    await refusal(
      flow({ libs: [{ var: 'it', module: 'node:child_process' }] }),
      '- node:child_process [module_not_allowed]',
    );
  });

  test('shows an invalid variable on its badge', async () => {
    await nodeRed.deploy(flow({ libs: [{ var: 'input', module: 'thrice' }] }));
    await until('the badge says it', () =>
      nodeRed.badges.get('triple')?.text?.includes('Modules: the name input is a'),
    );
  });

  test('prefers the modules of the active project to those of the user directory, in a thread as well', async () => {
    const project = join(nodeRed.userDir, 'projects', 'mine');
    await write(project, 'thrice', "module.exports = () => 'of the project';");
    await writeFile(join(nodeRed.userDir, '.config.projects.json'), '{"activeProject": "mine"}');
    await write(nodeRed.userDir, 'elsewhere', "module.exports = () => 'of the user';");
    await nodeRed.deployReady(flow({ libs, isolation: 'thread' }, 'return [thrice(), require("elsewhere")()];'));
    assert.deepEqual(await triple(1), ['of the project', 'of the user']);
  });
});
