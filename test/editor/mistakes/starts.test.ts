/** Mistakes that keep a stage, a gate or a listener from working: badge, sentence of the sidebar, and debug line. */
import { test } from 'node:test';
import { dispatchGate, endpoint, httpIn, runtime, stage, TAB } from '../../fixtures/flow.ts';
import { freePort } from '../../fixtures/free-port.ts';
import type { FlowNode } from '../../fixtures/node-red.ts';
import { until } from '../../fixtures/polling.ts';
import { sharedSession } from '../session.ts';
import { SidebarPage } from '../sidebar-page.ts';

declare const RED: { readonly nodes: { node(id: string): object; dirty(isDirty: boolean): void } };

const session = sharedSession();

function flowWith(code: string, properties: object = {}): FlowNode[] {
  return [
    TAB,
    runtime('runtime'),
    ...endpoint('/first', 'first'),
    stage('first', code, 'collector /first', { ...properties }),
  ];
}

const STARTS = [
  {
    mistake: 'a syntax error at the first deploy',
    flows: flowWith('return input.n +;'),
    badge: /^does not start: line 1: Unexpected token/,
    told: /^first: does not start: first: Predict:1: Unexpected token ';'/,
    debug: /does not start: first: Predict:1: Unexpected token/,
  },
  {
    mistake: 'a package that is not installed',
    flows: flowWith('return input;', { setup: `return require('left-padder');` }),
    badge: /^does not start: Cannot find module 'left-pa/,
    told: /^first: does not start: Cannot find module 'left-padder': list it on the tab Modules/,
    debug: /did not start: Cannot find module 'left-padder': list it on the tab/,
  },
  {
    mistake: 'an On Start that never ends',
    flows: flowWith('return input;', { setup: 'return new Promise(() => {});', startTimeoutMs: '1000' }),
    badge: /^does not start: Start timeout, [\d.]+ (?:ms|s|min) so far$/,
    told: /^first: does not start: was not ready within 1000 ms/,
    debug: /did not start: was not ready within 1000 ms/,
  },
  {
    mistake: 'a file that is no ONNX model',
    flows: flowWith('', { source: 'onnx', path: 'flows.json' }),
    badge: /^does not start: not an ONNX model$/,
    told: /^first: does not start: not an ONNX model, or an incomplete file: .*flows\.json/,
    debug: /does not start: not an ONNX model/,
  },
];

for (const { mistake, flows, badge, told, debug } of STARTS) {
  test(`${mistake}: badge, verdict and debug sidebar name it`, async () => {
    await session.inEditor(flows, async (editor) => {
      await editor.waitForBadge('first', badge);
      const sidebar = await SidebarPage.show(editor);
      await sidebar.verdict(told, 'error');
      // Lines that came before the page was open are lost: new workers report once more.
      await editor.page.evaluate(() => {
        Object.assign(RED.nodes.node('first'), { heapMb: '512', changed: true, dirty: true });
        RED.nodes.dirty(true);
      });
      await editor.deploy();
      await editor.waitForDebug(debug);
    });
  });
}

test('a file that is not there: badge, verdict and debug sidebar name it', async () => {
  await session.inEditor(flowWith('', { source: 'file', path: 'models/absent.js' }), async (editor) => {
    await editor.waitForBadge('first', /^File: no file absent\.js$/);
    const sidebar = await SidebarPage.show(editor);
    await sidebar.verdict(/^first cannot be used: .*absent\.js/, 'error');
    await editor.restartFlows();
    await editor.waitForDebug(/config_invalid: File: no file .*absent\.js/);
  });
});

test('an input schema that is no JSON: badge, verdict and debug sidebar name field and place', async () => {
  const flows = flowWith('return input;', { inputSchema: '{"type": "object"' });
  await session.inEditor(flows, async (editor) => {
    await editor.waitForBadge('first', /^Input schema: Expected ','/);
    const sidebar = await SidebarPage.show(editor);
    await sidebar.verdict(/^first cannot be used: Input schema: Expected ',' .* at position 17/, 'error');
    await editor.restartFlows();
    await editor.waitForDebug(/config_invalid: Input schema: Expected ','/);
    // While the flows restart, the path belongs to no node.
    await until('the stage answers that it is unavailable', async () => {
      const { status } = await session.nodeRed.post('/first', {});
      return status === 503;
    });
  });
});

test('two runtimes at one port: badge, verdict and debug sidebar name runtime and port', async () => {
  const listen = `127.0.0.1:${await freePort()}`;
  const flows = [
    ...flowWith('return 1;').map((node) => (node.type === 'modelet-runtime' ? { ...node, listen } : node)),
    runtime('other', { listen }),
    ...endpoint('/second', 'second'),
    stage('second', 'return 2;', 'collector /second', { runtime: 'other' }),
  ];
  // The port is of the runtime that is first to open it.
  await session.nodeRed.deploy(flows.filter(({ id }) => id !== 'second' && id !== 'other'));
  await until('the first runtime listens', () =>
    fetch(`http://${listen}/first`, { method: 'POST' }).then(
      () => true,
      () => false,
    ),
  );
  await session.inEditor(flows, async (editor) => {
    await editor.waitForBadge('second', /^cannot listen: port \d+ is in use$/);
    const sidebar = await SidebarPage.show(editor);
    await sidebar.verdict(new RegExp(`^other for tests: cannot listen at ${listen}: port \\d+ is in use`), 'error');
    await editor.waitForDebug(new RegExp(`other for testsmsg : .*cannot listen at ${listen}: port \\d+ is in use`));
  });
});

test('the port of another program: badge, verdict and debug sidebar name it', async () => {
  const { port } = new URL(session.nodeRed.url);
  const flows = [
    TAB,
    runtime('runtime', { listen: `127.0.0.1:${port}` }),
    ...endpoint('/first', 'first'),
    stage('first', 'return input;', 'collector /first'),
  ];
  await session.inEditor(flows, async (editor) => {
    await editor.waitForBadge('first', /^cannot listen: port \d+ is in use$/);
    const sidebar = await SidebarPage.show(editor);
    await sidebar.verdict(new RegExp(`cannot listen at 127.0.0.1:${port}`), 'error');
    await editor.waitForDebug(new RegExp(`cannot listen at 127.0.0.1:${port}: port ${port} is in use`));
  });
});

test('a wrong address of a gate: badge and verdict name it', async () => {
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const flows = [
    TAB,
    runtime('runtime'),
    httpIn('in', '/first', 'gate'),
    dispatchGate('gate', 'first', [], { source: 'prometheus', url, query: 'load' }),
    stage('first', 'return input;', 'collector /first', { x: 300, y: 200 }),
    ...endpoint('/first', 'gate').filter(({ type }) => type !== 'http in'),
  ];
  await session.inEditor(flows, async (editor) => {
    await editor.waitForBadge('gate', /ECONNREFUSED|cannot be reached|no answer|does not answer/);
    const sidebar = await SidebarPage.show(editor);
    await sidebar.verdict(new RegExp(`^Gate gate is .*${port}`), 'error');
    // A gate reads on, and its badge says at each moment what it reads.
    await editor.restartFlows();
    await editor.assertNoDebug(new RegExp(`gate|${port}`));
  });
});
