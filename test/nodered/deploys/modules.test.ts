/** npm modules of stages, which Node-RED installs before a flow that names them starts, and known models, which a dialog downloads. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, test } from 'node:test';
import { endpoint, runtime, stage, TAB } from '../../fixtures/flow.ts';
import { FakeHub } from '../../fixtures/hub.ts';
import { KNOWN, type KnownModel, writeKnownModel } from '../../fixtures/known-models.ts';
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

const known = mkdtempSync(join(tmpdir(), 'modelet-known-'));
after(() => rmSync(known, { recursive: true, force: true }));
const hub = await FakeHub.start({ 'tiny/words': writeKnownModel(known, KNOWN['text-classification'] as KnownModel) });
after(() => hub.close());

/** Node-RED itself has read them when it started. */
const projects = { enabled: false };

const nodeRed = useNodeRed({
  settings: {
    editorTheme: { projects },
    modelets: { hub: hub.address },
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
    assert.match(
      error.message,
      /not installed: run "npm install unlisted" in .* deploy the stage from its dialog: .*externalModules/,
    );
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
    await nodeRed.deployReady(flow({ libs }, code));
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

  test('prefers the modules of the active project to those of the user directory if projects are used, in a thread as well', async () => {
    const project = join(nodeRed.userDir, 'projects', 'mine');
    await write(project, 'thrice', "module.exports = () => 'of the project';");
    await writeFile(join(nodeRed.userDir, '.config.projects.json'), '{"activeProject": "mine"}');
    await write(nodeRed.userDir, 'elsewhere', "module.exports = () => 'of the user';");
    const answer = async (code: string): Promise<unknown> => {
      await nodeRed.deployReady(flow({ libs, isolation: 'thread' }, code));
      return triple(1);
    };
    assert.deepEqual(await answer('return thrice({ n: 1 });'), { tripled: 3 });
    projects.enabled = true;
    assert.deepEqual(await answer('return [thrice(), require("elsewhere")()];'), ['of the project', 'of the user']);
  });
});

describe('a known model by its name on a hub', () => {
  const wanted = { model: 'tiny/words', task: 'text-classification', precision: 'auto', runtime: 'runtime' };
  const admin = async <Answer>(method: string, path: string, body?: object): Promise<Answer> => {
    const init = { method, headers: { 'Content-Type': 'application/json' }, body: body ? JSON.stringify(body) : null };
    const response = await fetch(`${nodeRed.url}/admin/modelets/models${path}`, init);
    const text = await response.text();
    return { status: response.status, ...(text === '' ? {} : (JSON.parse(text) as object)) } as Answer;
  };
  interface Listed {
    readonly models: readonly { readonly folder: string; readonly model: string; readonly stages: readonly string[] }[];
  }

  test('waits for its download, and then answers', async () => {
    hub.token = 'secret';
    // Else the stage of the test before would go on with its code.
    await nodeRed.deploy([]);
    const id = 'triple';
    const nodes = flow({ ...wanted, source: 'task', name: '' });
    const withToken = (node: FlowNode): FlowNode => ({ ...node, credentials: { token: 'secret' } });
    await nodeRed.deploy(nodes.map((node) => (node.type === 'modelet-runtime' ? withToken(node) : node)));
    await until('the badge says it', () =>
      nodeRed.badges.get(id)?.text?.startsWith('does not start: not downloaded: tiny/words'),
    );
    const refused = (await triple(1)) as { error: { code: string; message: string } };
    assert.equal(refused.error.code, 'stage_unavailable');
    assert.match(refused.error.message, /press Download in the dialog of the stage/);

    assert.equal((await admin<{ code: string }>('POST', '/look', { ...wanted, token: 'wrong' })).code, 'no_access');
    const plan = await admin<{ files: { name: string; size: number }[]; bytes: number }>('POST', '/look', wanted);
    assert.equal(plan.files.at(-1)?.name, 'onnx/model.onnx');
    assert.equal(
      plan.bytes,
      plan.files.reduce((sum, { size }) => sum + size, 0),
    );
    const { status } = await admin<{ status: number }>('POST', '', wanted);
    assert.equal(status, 200);
    await nodeRed.whenReady();
    const [first] = (await (await nodeRed.post('/triple', { text: 'good' })).json()) as { label: string }[];
    assert.ok(first?.label);

    const { models } = await admin<Listed>('GET', '');
    assert.deepEqual(
      models.map(({ model, stages }) => [model, stages]),
      [['tiny/words', ['triple']]],
    );
    const folder = encodeURIComponent(models[0]?.folder ?? '');
    const remove = async (): Promise<number> => (await admin<{ status: number }>('DELETE', `/${folder}`)).status;
    assert.equal(await remove(), 409, 'a stage uses it');
    await nodeRed.deploy([]);
    assert.equal(await remove(), 204);
    assert.deepEqual((await admin<Listed>('GET', '')).models, []);
  });

  test('is not asked for without a name, and must not lead out of the folder of the models', async () => {
    assert.equal((await admin<{ status: number }>('POST', '', { ...wanted, model: '../x' })).status, 400);
    assert.equal((await admin<{ status: number }>('DELETE', '/..%2Fx')).status, 404);
    assert.equal((await admin<{ status: number }>('DELETE', '/download?model=tiny/words')).status, 404);
  });
});
