/** The dialog, badge and sidebar entry of a dispatch gate at work, and the buttons that command it. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { after, before, beforeEach, test } from 'node:test';
import type { Locator } from 'playwright-core';
import { free, READY } from '../../fixtures/badges.ts';
import { NODE_RED } from '../../fixtures/editor.ts';
import { dispatchGate, endpoint, runtime, stage, TAB } from '../../fixtures/flow.ts';
import { Gate } from '../../fixtures/gate.ts';
import { until } from '../../fixtures/polling.ts';
import type { EditorPage } from '../editor-page.ts';
import { Form } from '../form.ts';
import { sharedSession } from '../session.ts';
import { SidebarPage } from '../sidebar-page.ts';

const session = sharedSession();

/** Answers as Prometheus does, to those who know the token. */
let prometheus: Server;
let saturation = 0.7;
let held: Gate;

before(async () => {
  held = new Gate();
  prometheus = createServer((request, response) => {
    const isKnown = request.headers.authorization === 'Bearer hush';
    const data = { resultType: 'scalar', result: [Date.now() / 1000, String(saturation)] };
    response.writeHead(isKnown ? 200 : 401, { 'content-type': 'application/json' });
    response.end(JSON.stringify(isKnown ? { status: 'success', data } : { status: 'error', error: 'who are you?' }));
  });
  prometheus.listen(0, '127.0.0.1');
  await once(prometheus, 'listening');
});
beforeEach(() => held.close());
after(async () => {
  await held.remove();
  prometheus.close();
  prometheus.closeAllConnections();
});

function address(): string {
  return `http://127.0.0.1:${(prometheus.address() as AddressInfo).port}`;
}

/** Under a separate id in each test: a gate outlives deploys, with its counts and with what was asked of it. */
function flows(id: string, properties: object = {}): object[] {
  const gate = { x: 300, y: 40, maxSys: '4', budget: 0.75, baseline: 0.25, ...properties };
  return [
    TAB,
    runtime(),
    ...endpoint('/work', id),
    dispatchGate(id, 'work', [], { ...gate, name: 'batch <b>work</b>' }),
    stage('work', held.code(), 'collector /work', { workers: '4', y: 240 }),
  ];
}

/** Posts, and expects these answers once the stage may go on. */
function post(count: number): Promise<number[]> {
  const answers = Array.from({ length: count }, (_, n) => session.nodeRed.post('/work', { n }));
  return Promise.all(answers.map(async (answer) => (await answer).status));
}

interface Shown {
  fact(name: string, text: RegExp): Promise<void>;
  figure(name: string): Promise<string>;
  decision(name: string): Promise<number>;
  readonly why: Locator;
  readonly meter: Locator;
}

/** A gate as it is drawn, wherever that is. */
function shownIn(gate: Locator): Shown {
  return {
    fact: (name, text) => gate.locator(`[data-fact="${name}"] .modelet-sb-value`).filter({ hasText: text }).waitFor(),
    figure: async (name) => (await gate.locator(`[data-figure="${name}"] b`).textContent()) ?? '',
    decision: async (name) => Number(await gate.locator(`[data-decision="${name}"] b`).textContent()),
    why: gate.locator('.modelet-sb-why'),
    meter: gate.locator('.modelet-sb-meter'),
  };
}

async function showGate(editor: EditorPage, id: string): Promise<Shown> {
  await editor.waitForBadge('work', READY);
  await editor.open(id);
  const gate = editor.page.locator('#modelet-gate-live .modelet-sb-gate');
  await gate.waitFor();
  await gate.locator('.modelet-sb-how > summary').click();
  return shownIn(gate);
}

test('the dialog of a gate shows why the gate is open, and counts requests as they come and go', async () => {
  await session.inEditor(flows('watched'), async (editor) => {
    const gate = await showGate(editor, 'watched');
    await gate.why.filter({ hasText: 'N 2 = 4 x (D 0.75 - B 0.25)' }).waitFor();
    const figures = await Promise.all(['budget', 'baseline', 'quota', 'maxSys'].map((name) => gate.figure(name)));
    assert.deepEqual(figures, ['0.75', '0.25', '2', '4']);
    await gate.fact('waiting', /^0 of 1024$/);
    await gate.fact('refusal', /^never$/);

    const answers = post(5);
    await gate.fact('inFlight', /^2 requests$/);
    await gate.fact('waiting', /^3 of 1024, the first for /);
    await editor.waitForBadge('watched', /^open, 75 % free, 3 wait$/);
    await gate.meter.filter({ hasText: /^75 % free, would admit 0 now, 3 wait: sample \d.* old$/ }).waitFor();
    await held.open();
    assert.deepEqual(await answers, [200, 200, 200, 200, 200]);
    await gate.fact('inFlight', /^0 requests$/);
    await until('it is counted', async () => (await gate.decision('admitted_late')) === 3);
    assert.equal(await gate.decision('admitted'), 2);
    assert.equal(await gate.decision('expired'), 0);
    await editor.cancel();
  });
});

test('the dialog of a gate that cannot work says why', async () => {
  const odd = dispatchGate('odd', 'work', [], { source: 'composite', members: '["odd"]', name: 'odd' });
  await session.inEditor([...flows('even'), odd], async (editor) => {
    await editor.waitForBadge('odd', /^its members lead back/);
    await editor.open('odd');
    const reason = editor.page.locator('#modelet-gate-invalid');
    await reason.filter({ hasText: 'its members lead back to itself: a gate cannot be part of itself' }).waitFor();
    await editor.cancel();
  });
});

test('the buttons of a gate close it, drop and admit what waits, open it, and give it back to its budget', async () => {
  await session.inEditor(flows('ordered'), async (editor) => {
    const gate = await showGate(editor, 'ordered');
    await held.open();
    const order = (name: string): Locator => editor.page.locator(`#modelet-gate-live [data-order="${name}"]`);
    await order('close').click();
    await editor.waitForBadge('ordered', /^closed: by a message$/);
    await gate.why.filter({ hasText: /^closed: by a message/ }).waitFor();
    const dropped = post(2);
    await gate.fact('waiting', /^2 of 1024/);
    await order('drop').click();
    assert.deepEqual(await dropped, [503, 503]);
    const flushed = post(2);
    await gate.fact('waiting', /^2 of 1024/);
    await order('flush').click();
    assert.deepEqual(await flushed, [200, 200]);
    await order('open').click();
    await editor.waitForBadge('ordered', /^open by a message$/);
    await order('auto').click();
    await editor.waitForBadge('ordered', free(75));
    await editor.cancel();
  });
});

test('the sidebar shows a gate with its buttons and a warning that the gate never opens', async () => {
  await session.inEditor(flows('drawn', { budget: 0.2 }), async (editor) => {
    const sidebar = await SidebarPage.show(editor);
    const drawn = sidebar.root.locator('[data-gate="drawn"]');
    await drawn.locator('.modelet-sb-warning', { hasText: 'it never opens: D is at most 0.2' }).waitFor();
    assert.equal(await drawn.locator('.modelet-sb-name').textContent(), 'batch <b>work</b>');
    const gate = shownIn(drawn);
    await gate.meter.filter({ hasText: /^closed: 20 % free, 25 % kept/ }).waitFor();
    await held.open();
    const answers = post(1);
    await gate.fact('waiting', /^1 of 1024/);
    await drawn.locator('[data-order="open"]').click();
    assert.deepEqual(await answers, [200]);
    await until('it is counted', async () => (await gate.decision('admitted_late')) === 1);
    assert.ok(await sidebar.root.evaluate(({ scrollWidth, clientWidth }) => scrollWidth <= clientWidth));
  });
});

test('the dialog of a durable gate shows dead requests with their errors, and a button tries them again', async (t) => {
  // It needs Node.js 22.13.
  if (NODE_RED === 'node-red-4') return t.skip('Node-RED 4.1 runs on Node.js 20 here');
  const failing = `
    if (!require('node:fs').existsSync(${JSON.stringify(join(held.folder, 'open'))})) throw new Error('not <b>yet</b>');
    return input;`;
  const durable = { store: 'durable', maxAttempts: 1, maxSys: '4', y: 40 };
  const nodes = [
    TAB,
    runtime(),
    ...endpoint('/kept', 'kept'),
    dispatchGate('kept', 'frail', [], durable),
    stage('frail', failing, 'collector /kept', { y: 240 }),
  ];
  await session.inEditor(nodes, async (editor) => {
    await editor.waitForBadge('frail', READY);
    await editor.open('kept');
    const drawn = editor.page.locator('#modelet-gate-live .modelet-sb-gate');
    const gate = shownIn(drawn);
    await gate.fact('store', /^0 running, 0 to be tried again, 0 dead$/);
    const redrive = drawn.locator('[data-order="redrive"]');
    assert.equal(await redrive.isVisible(), false);
    assert.equal((await session.nodeRed.post('/kept', { n: 1 })).status, 202);
    await gate.fact('store', /, 1 dead$/);
    await drawn.locator('.modelet-sb-dead', { hasText: 'not <b>yet</b>' }).waitFor();
    await held.open();
    await redrive.click();
    await gate.fact('store', /^0 running, 0 to be tried again, 0 dead$/);
    await drawn.locator('.modelet-sb-dead').waitFor({ state: 'detached' });
    await editor.cancel();
  });
});

test('the test button of a gate reads its source once with the values in the dialog, and shows the sample or the error', async () => {
  await session.inEditor(flows('tried'), async (editor) => {
    await editor.open('tried');
    const form = new Form(editor);
    const source = { source: 'prometheus', url: address(), query: '0.7', token: 'wrong', value: 'saturation' };
    await form.set({ ...source, timeoutMs: '60000' });
    const reading = editor.page.locator('#modelet-gate-reading');
    const button = editor.page.locator('#modelet-gate-test');
    await button.click();
    await reading.filter({ hasText: /No sample, the gate would be closed: .*401/ }).waitFor();
    await form.set({ token: 'hush' });
    await button.click();
    await reading.filter({ hasText: '30 % free: the gate would be open, 25 % are kept. saturation 0.7' }).waitFor();
    saturation = 0.8;
    await button.click();
    await reading.filter({ hasText: '20 % free: the gate would be closed, 25 % are kept.' }).waitFor();
    await form.set({ query: '' });
    await button.click();
    await reading.filter({ hasText: /PromQL: is missing/ }).waitFor();

    // Once deployed, the secret stays with Node-RED, and is used from there.
    await form.set({ query: '0.7' });
    await editor.ok();
    await editor.deploy();
    saturation = 0.5;
    await editor.waitForBadge('tried', free(50));
    await editor.open('tried');
    assert.deepEqual(await form.get(['token']), { token: '__PWRD__' });
    await form.unfold();
    await button.click();
    await reading.filter({ hasText: '50 % free: the gate would be open' }).waitFor();
    await editor.cancel();
  });
});
