/** From a flow file to endpoints without Node-RED: what runs, with which values, and why the rest does not. */
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import { hostname, tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { describe, test } from 'node:test';
import { compileFlows, type HeadlessFlows } from '../../src/headless/compile-flows.ts';
import { readFlows } from '../../src/headless/flow-file.ts';
import { judge } from '../../src/headless/refusals.ts';
import { FILE_FLOWS, type FileNode, PROCESS_VARIABLE } from '../fixtures/file-flows.ts';

const [name, value] = PROCESS_VARIABLE;
process.env[name] = value;

function folderWith(files: Readonly<Record<string, unknown>>): string {
  const folder = mkdtempSync(join(tmpdir(), 'modelet-flows-'));
  for (const [file, content] of Object.entries(files)) {
    writeFileSync(join(folder, file), typeof content === 'string' ? content : JSON.stringify(content));
  }
  return folder;
}

function compile(flow: readonly FileNode[], settings = ''): HeadlessFlows {
  return compileFlows(readFlows(folderWith({ 'flows.json': flow, ...(settings ? { 'settings.js': settings } : {}) })));
}

function served({ compiled, plan, nodes }: HeadlessFlows): unknown[] {
  return compiled.endpoints.map(({ path, entry }) => [
    path,
    ...(plan.routes.get(entry)?.stages ?? []).map((id) => nodes.settings('stage', id)?.init),
  ]);
}

describe('headless: expansion', () => {
  for (const { title, flow, served: expected } of FILE_FLOWS) {
    test(title, () => assert.deepEqual(served(compile(flow)), expected));
  }

  test('a subflow that contains itself is refused', () => {
    const sub = { id: 'sub', type: 'subflow', name: 'loop', in: [], out: [] };
    const inside = { id: 'again', type: 'subflow:sub', z: 'sub', x: 1, y: 1, wires: [] };
    assert.throws(() => compile([sub, inside]), /the subflow loop contains itself/);
  });

  test('a node that needs a credential says so', () => {
    const [one] = FILE_FLOWS.filter(({ title }) => title.startsWith('each instance'));
    const flow = (one?.flow ?? []).map((node) =>
      node.id === 'i2' ? { ...node, env: [{ name: 'V', type: 'cred' }] } : node,
    );
    const { refused } = judge(compile(flow));
    const why = refused.map(({ reason }) => reason).join('\n');
    assert.match(why, /the environment variable V is a credential, and credentials are not read without Node-RED/);
  });
});

test('a stream response is served as in Node-RED, and opens the collector in front of it, except in order of arrival', () => {
  const draw = (order: string): FileNode[] => [
    { id: 'tab', type: 'tab' },
    { id: 'r', type: 'modelet-runtime' },
    ...[
      { id: 'in', type: 'http in', method: 'post', url: '/p', wires: [['s']] },
      { id: 's', type: 'modelet-stage', runtime: 'r', source: 'inline', code: 'return 1;', wires: [['c']] },
      { id: 'c', type: 'modelet-collector', results: 'whole', order, wires: [['out'], ['out']] },
      { id: 'out', type: 'modelet-stream', format: 'openai', wires: [] },
    ].map((node) => ({ ...node, z: 'tab', x: 1, y: 1 })),
  ];
  const flows = compile(draw('completion'));
  const stream = { format: 'openai', event: '', heartbeatMs: 15_000 };
  assert.deepEqual(
    flows.compiled.endpoints.map(({ parts }) => parts),
    [{ copies: [], stream }],
  );
  assert.deepEqual(judge(flows), { refused: [], leftOut: [] });
  const ordered = compile(draw('arrival'));
  assert.match(ordered.compiled.uncompiled[0]?.reason ?? '', /order of arrival/);
  assert.ok(judge(ordered).refused.some(({ node }) => node === 'modelet-stream out'));
});

describe('headless: the flow file', () => {
  const [first] = FILE_FLOWS;
  const flow = first?.flow ?? [];

  test('is the file that Node-RED would take from a user directory', () => {
    const ofHost = `flows_${hostname()}.json`;
    const files = { 'flows.json': [], [ofHost]: flow, 'mine.json': { flows: flow, rev: '1' } };
    assert.ok(readFlows(folderWith({ 'flows.json': flow })).file.endsWith('flows.json'));
    assert.ok(readFlows(folderWith(files)).file.endsWith(ofHost));
    const settings = "module.exports = { flowFile: 'mine.json', httpNodeRoot: '/api' };";
    const source = readFlows(folderWith({ ...files, 'settings.js': settings }));
    assert.ok(source.file.endsWith('mine.json'));
    assert.deepEqual(served(compileFlows(source)), [['/api/p', {}]]);
  });

  test('is the one of the active project', () => {
    const userDir = folderWith({ '.config.projects.json': { activeProject: 'mine' }, 'flows.json': [] });
    const project = join(userDir, 'projects', 'mine');
    assert.ok(readFlows(userDir).file.endsWith('flows.json'), 'a project that is missing');
    mkdirSync(project, { recursive: true });
    writeFileSync(join(project, 'flows.json'), JSON.stringify(flow));
    assert.equal(readFlows(userDir).file, join(project, 'flows.json'));
    writeFileSync(
      join(project, 'package.json'),
      JSON.stringify({ 'node-red': { settings: { flowFile: 'own.json' } } }),
    );
    assert.throws(() => readFlows(userDir), /there is no flow file .*own\.json/);
    writeFileSync(join(project, 'own.json'), JSON.stringify(flow));
    assert.deepEqual(served(compileFlows(readFlows(userDir))), [['/p', {}]]);
    writeFileSync(join(project, 'package.json'), '{');
    assert.throws(() => readFlows(userDir), /package\.json cannot be read/);
  });

  test('is none of a project if the settings use no projects', () => {
    const settings = (projects: string): string => `module.exports = { editorTheme: { projects: ${projects} } };`;
    const files = { '.config.projects.json': { activeProject: 'mine' }, 'flows.json': flow };
    const userDir = folderWith({ ...files, 'settings.js': settings('{ enabled: false }') });
    mkdirSync(join(userDir, 'projects', 'mine'), { recursive: true });
    assert.equal(readFlows(userDir).file, join(userDir, 'flows.json'));
    const elsewhere = folderWith({ 'flows.json': [] });
    const path = dirname(elsewhere);
    const own = { '.config.projects.json': { activeProject: basename(elsewhere) } };
    const used = folderWith({ ...own, 'settings.js': settings(`{ enabled: true, path: ${JSON.stringify(path)} }`) });
    assert.equal(readFlows(used).file, join(elsewhere, 'flows.json'));
  });

  test('may begin with a byte order mark, as in Node-RED', () => {
    const userDir = folderWith({});
    writeFileSync(join(userDir, 'flows.json'), `\uFEFF${JSON.stringify(flow)}`);
    assert.equal(readFlows(userDir).definitions.length, flow.length);
  });

  test('causes an error that names it if it cannot be used', () => {
    const refuse =
      (content: unknown): (() => unknown) =>
      () =>
        readFlows(folderWith({ 'flows.json': content }));
    assert.throws(refuse('no json'), /flows\.json cannot be read/);
    assert.throws(refuse({ nodes: [] }), /flows\.json holds no flows/);
    assert.throws(refuse([{ id: 'a' }]), /without id or type/);
    assert.throws(refuse([...flow, ...flow]), /two nodes with the id/);
    assert.throws(() => readFlows(folderWith({})), /there is no flow file/);
    assert.throws(() => readFlows(folderWith({ 'settings.js': 'oops(' })), /settings\.js cannot be read/);
  });

  test('serves nothing that the settings would have Node-RED refuse', () => {
    const { compiled } = compile(flow, "module.exports = { httpNodeAuth: { user: 'a', pass: 'b' } };");
    assert.deepEqual(compiled.endpoints, []);
    assert.match(compiled.uncompiled[0]?.reason ?? '', /log in/);
  });
});

describe('headless: nodes that do not run', () => {
  const stageOf = (id: string): FileNode => ({
    ...{ id, type: 'modelet-stage', name: id, z: 'a', x: 1, y: 1, runtime: 'rt', wires: [[]] },
  });
  const inject = (id: string, to: string, more: object = {}): FileNode => ({
    ...{ id, type: 'inject', name: id, z: 'a', x: 1, y: 1, wires: [[to]] },
    ...more,
  });
  const node = (id: string, type: string, to: readonly string[] = []): FileNode => ({
    ...{ id, type, name: id, z: 'a', x: 1, y: 1, wires: [to] },
  });
  const base: FileNode[] = [
    { id: 'rt', type: 'modelet-runtime' },
    { id: 'a', type: 'tab', label: 'a' },
  ];

  const rows: readonly (readonly [title: string, nodes: FileNode[], refused: string[], leftOut: string[]])[] = [
    ['a button and what is behind it', [inject('press', 'f'), node('f', 'function')], [], ['press', 'f']],
    ['a clock and what is behind it', [inject('tick', 'f', { repeat: '5' }), node('f', 'function')], ['tick', 'f'], []],
    [
      'a source of messages',
      [node('m', 'mqtt in', ['f']), node('f', 'function', ['d']), node('d', 'debug')],
      ['m', 'f'],
      ['d'],
    ],
    ['a pipeline without an endpoint', [inject('press', 's'), stageOf('s')], ['s'], ['press']],
    ['a gate and a paced split', [node('g', 'modelet-gate'), node('l', 'modelet-feed')], ['g', 'l'], []],
    ['a Catch node and what is behind it', [node('c', 'catch', ['f']), node('f', 'function')], [], ['c', 'f']],
  ];
  for (const [title, nodes, refused, leftOut] of rows) {
    test(title, () => {
      const verdict = judge(compile([...base, ...nodes]));
      const names = (list: readonly { node: string }[]): unknown[] => list.map((one) => /"(.*)"/.exec(one.node)?.[1]);
      assert.deepEqual([names(verdict.refused), names(verdict.leftOut)], [refused, leftOut]);
    });
  }
});

test('the versions of a stage behind an endpoint run, and are chosen by a header', () => {
  const at = { z: 'a', x: 1, y: 1 };
  const stage = { type: 'modelet-stage', ...at, runtime: 'r', code: 'return input;' };
  const draw = (sticky: string): HeadlessFlows =>
    compile([
      { id: 'a', type: 'tab' },
      { id: 'r', type: 'modelet-runtime' },
      { id: 'in', type: 'http in', ...at, method: 'post', url: '/ask', wires: [['old']] },
      { ...stage, id: 'old', wires: [['out']], sticky, versions: ['new'], shares: [{ share: '10' }], rollback: '5' },
      { ...stage, id: 'new', wires: [[]] },
      { id: 'out', type: 'http response', ...at, wires: [] },
    ]);
  const flows = draw('req.headers["x-user"]');
  assert.deepEqual(judge(flows), { refused: [], leftOut: [] });
  const [old, version] = flows.plan.of('r').stages;
  assert.deepEqual(old?.versions, { list: [{ stage: 'new', share: 10, mode: 'answer' }], rollbackAbove: 5 });
  assert.equal(version?.id, 'new');
  assert.equal(flows.compiled.endpoints[0]?.sticky, 'x-user');
  assert.match(judge(draw('user')).refused[0]?.reason ?? '', /chosen by msg\.user, which is no header/);
});
