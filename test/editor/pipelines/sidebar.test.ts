/** The sidebar "modelets": its figures and buttons, and that it costs nothing while it is hidden. */
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { test } from 'node:test';
import type { AxeResults } from 'axe-core';
import type { Locator } from 'playwright-core';
import { READY } from '../../fixtures/badges.ts';
import { gather } from '../../fixtures/drawn.ts';
import { NODE_RED } from '../../fixtures/editor.ts';
import { endpoint, httpIn, node, runtime, sink, stage, TAB } from '../../fixtures/flow.ts';
import { until } from '../../fixtures/polling.ts';
import { boxOf, EditorPage } from '../editor-page.ts';
import { sharedSession } from '../session.ts';
import { SidebarPage } from '../sidebar-page.ts';
import { FLOWS, HOSTILE, stageNow, underLoad, whenReady } from '../sums.ts';

declare const localStorage: { removeItem(key: string): void };
declare const RED: {
  readonly actions: { invoke(action: string): void };
  readonly view: { selection(): { readonly nodes?: readonly { readonly id: string }[] } };
};
declare const axe: { run(context: object): Promise<AxeResults> };
declare const document: {
  dispatchEvent(event: Event): void;
  readonly documentElement: { readonly classList: { toggle(name: string, isOn: boolean): void } };
};
declare const window: { pwned?: number };

const session = sharedSession();

const AXE = createRequire(import.meta.url).resolve('axe-core/axe.min.js');

/** Counts the views that the page gets from now on. */
function countViews(editor: EditorPage): () => number {
  let views = 0;
  editor.page.on('requestfinished', (request) => {
    if (request.url().endsWith('/modelets/view')) views += 1;
  });
  return () => views;
}

/** As when another tab of the browser is in front. */
function hideWindow(editor: EditorPage): Promise<void> {
  return editor.page.evaluate(() => {
    Object.defineProperty(document, 'visibilityState', { value: 'hidden', configurable: true });
    document.dispatchEvent(new Event('visibilitychange'));
  });
}

function showWindow(editor: EditorPage): Promise<void> {
  return editor.page.evaluate(() => {
    Reflect.deleteProperty(document, 'visibilityState');
    document.dispatchEvent(new Event('visibilitychange'));
  });
}

function stagesIn(part: Locator): Promise<(string | null)[]> {
  return part.locator('[data-stage]').evaluateAll((found) => found.map((one) => one.getAttribute('data-stage')));
}

test('the dialog of a batcher says what its settings make of the requests that come', async () => {
  await session.inEditor(FLOWS, async (editor) => {
    await whenReady(editor);
    await underLoad(async () => {
      await editor.open('batch');
      const now = editor.page.locator('#modelet-batcher-now');
      await now
        .filter({ hasText: /^[\d.]+ requests\/s: a wait of 20 ms makes batches of about [\d.]+\. As deployed: / })
        .waitFor();
      await editor.fill(editor.field('maxWaitMs'), '60000');
      await now.filter({ hasText: /a wait of 60000 ms makes batches of about 8\./ }).waitFor();
      await editor.field('policy').selectOption('greedy');
      await now
        .filter({ hasText: /requests\/s: a batch has the items that wait when a worker becomes free\./ })
        .waitFor();
      await editor.cancel();
    });
  });
});

test('the sidebar names other users of Node-RED\u2019s event loop only while that is busy', async () => {
  await session.inEditor(FLOWS, async (editor) => {
    // As text: the compiler would compile this one to an import.
    const hints = await editor.page.evaluate<string[]>(`
      import('/editor/resources/@modelet/node-red-pipeline/sidebar-sections.js').then(({ makeSlowest }) => {
        const known = { requestId: 'r', code: 'ok', stage: null, agoMs: 0, totalMs: 10, transportMs: 10 };
        const others = { gateMs: 0, entranceMs: 0, waitMs: 0, batchMs: 0, runMs: 0, unansweredMs: 0 };
        const loops = [null, { p99Ms: 1, utilization: 0.2 }, { p99Ms: 60, utilization: 0.97 }];
        return loops.map((loop) => {
          const { element, update } = makeSlowest();
          update({ slowest: [{ ...known, ...others }], loop });
          return element.querySelector('.modelet-sb-summary').textContent;
        });
      })`);
    const [unknown = '', idle = '', busy = ''] = hints;
    for (const hint of [unknown, idle]) {
      assert.match(hint, /Encoding and sending between Node-RED, the engine and the workers/);
      assert.doesNotMatch(hint, /event loop/);
    }
    assert.match(busy, /event loop is busy.*HTTP requests and the nodes of all flows/);
  });
});

test('the sidebar shows the share of requests that a stage answered from its cache', async () => {
  const kept = stage('kept', 'return input.n;', 'collector /sums', { cache: '100' });
  await session.inEditor([TAB, runtime(), ...endpoint('/sums', 'kept'), kept], async (editor) => {
    await editor.waitForBadge('kept', READY);
    const sidebar = await SidebarPage.show(editor);
    await sidebar.stage('kept').waitFor();
    assert.equal(await sidebar.stage('kept').getByText(/cache/).count(), 0);
    const shown = sidebar.stage('kept').getByText(/, cache [1-9]\d* %/);
    await until('the share is shown', async () => {
      for (let times = 0; times < 4; times += 1) await session.nodeRed.post('/sums', { n: 1 });
      return (await shown.count()) === 1;
    });
  });
});

test('the sidebar draws stages in the order of their route, and says why the route ends', async () => {
  await session.inEditor(FLOWS, async (editor) => {
    const sidebar = await SidebarPage.show(editor);
    await sidebar.stage('second').waitFor();
    const chains = sidebar.root.locator('.modelet-sb-chain');
    assert.equal(await chains.count(), 3);
    await until('what fails comes first', async () => (await stagesIn(chains.first())).join() === 'broken');
    const whole = chains.filter({ has: editor.page.locator('[data-stage="second"]') });
    assert.deepEqual(await stagesIn(whole), ['first', 'second']);
    assert.match((await whole.locator('.modelet-sb-end').textContent()) ?? '', /^ends there: .*collector/);
  });
});

test('the sidebar writes a way that forks in a line, and draws none of its branches apart', async () => {
  const forked = [
    TAB,
    runtime(),
    stage('front', 'return input;', ['left', 'right']),
    stage('left', 'return input;', 'both'),
    stage('right', 'return input;', 'both'),
    gather('both', 'choose', [], { name: 'both' }),
    node('choose', 'switch', ['more', 'end'], {
      ...{ property: 'payload.left', propertyType: 'msg', checkall: 'true', repair: false, outputs: 2 },
      rules: [{ t: 'eq', v: '1', vt: 'num' }, { t: 'else' }],
    }),
    stage('more', 'return input;', 'end'),
    sink('end'),
  ];
  await session.inEditor(forked, async (editor) => {
    const sidebar = await SidebarPage.show(editor);
    await sidebar.stage('front').waitFor();
    const ways = sidebar.root.locator('.modelet-sb-chain .modelet-sb-way');
    assert.deepEqual(await ways.allTextContents(), ['front → (left | right) → both → one of (more | -)']);
  });
});

test('the sidebar says which endpoints are compiled, and why others are not', async () => {
  await session.inEditor(FLOWS, async (editor) => {
    const sidebar = await SidebarPage.show(editor);
    const endpoints = sidebar.root.locator('.modelet-sb-endpoint');
    await endpoints.first().waitFor();
    assert.deepEqual(await endpoints.allTextContents(), [
      'POST /sumscompiled',
      'GET /asksnot compiled: the HTTP-in node takes GET requests; only POST, PUT and PATCH can be',
    ]);
    await endpoints.last().locator('button').click();
    assert.deepEqual(await editor.page.evaluate(() => RED.view.selection().nodes?.map(({ id }) => id)), ['asks']);
  });
});

test('the sidebar has a sentence for each way in which a stage fails, and a line for each request with the same id', async () => {
  const code = 'if (input.dies) process.kill(process.pid, "SIGKILL"); throw new Error("not today");';
  const own = { runtime: 'failing' };
  const flows = [
    ...[TAB, runtime('failing'), ...endpoint('/fails', 'fails'), stage('fails', code, 'collector /fails', own)],
    // The gravest come first, and the others are folded away together.
    ...[httpIn('lone', '/lone', 'silent'), stage('silent', 'return 1;', 'silent out', { ...own, y: 200 })],
    sink('silent out'),
    stage('broken', 'return 1;', [], { ...own, setup: 'throw new Error("no model");', y: 300 }),
  ];
  await session.inEditor(flows, async (editor) => {
    await editor.waitForBadge('fails', READY);
    const headers = { 'Content-Type': 'application/json', 'X-Request-Id': 'the same' };
    for (const dies of [false, true]) {
      const body = JSON.stringify({ dies });
      const answer = await fetch(`${session.nodeRed.url}/fails`, { method: 'POST', headers, body });
      assert.equal(answer.status, dies ? 503 : 500);
    }
    const sidebar = await SidebarPage.show(editor);
    for (const failure of [/^fails: 1 x modelet_failed: not today/, /^fails: 1 x worker_lost: /])
      await sidebar.verdict(failure, 'error');
    const requests = sidebar.root.locator('.modelet-sb-request');
    await until('both requests are there', async () => (await requests.count()) === 2);
  });
});

test('the sidebar shows names and errors as plain text', async () => {
  await session.inEditor(FLOWS, async (editor) => {
    const sidebar = await SidebarPage.show(editor);
    assert.equal(await sidebar.stage('second').locator('.modelet-sb-name').textContent(), HOSTILE);
    assert.equal(await sidebar.root.locator('.modelet-sb-runtime-head .modelet-sb-name').textContent(), HOSTILE);
    await sidebar.stage('broken').locator('.modelet-sb-error', { hasText: HOSTILE }).waitFor();
    await sidebar.stage('broken').locator('.modelet-sb-why', { hasText: HOSTILE }).waitFor();
    assert.equal(await sidebar.root.locator('img').count(), 0);
    assert.equal(await editor.page.evaluate(() => window.pwned), undefined);
  });
});

test('people of all kinds can read and name what the sidebar has, in light and dark', async () => {
  await session.inEditor(FLOWS, async (editor) => {
    const sidebar = await SidebarPage.show(editor);
    await sidebar.stage('broken').locator('.modelet-sb-error', { hasText: HOSTILE }).waitFor();
    const curve = sidebar.stage('second').getByRole('img', { name: /: mean size of the batches over the last minute/ });
    await curve.waitFor({ state: 'attached' });
    await editor.page.addScriptTag({ path: AXE });
    // All of the editor stands outside of its body, which has no height: to axe, nothing of it can be seen.
    const style = await editor.page.addStyleTag({ content: 'html, body { height: 100% !important }' });
    for (const isDark of NODE_RED === 'node-red-4' ? [false] : [true, false]) {
      await editor.page.evaluate((dark) => document.documentElement.classList.toggle('nr-theme-dark', dark), isDark);
      const { violations, passes } = await editor.page.evaluate(() => axe.run({ include: ['.modelet-sb-root'] }));
      const faults = violations.flatMap(({ id, nodes }) => nodes.map(({ target }) => `${id} of ${target.join(' ')}`));
      assert.deepEqual(faults, []);
      assert.ok(
        passes.some(({ id }) => id === 'color-contrast'),
        'axe sees its texts',
      );
    }
    await style.evaluate((element) => (element as unknown as { remove(): void }).remove());
  });
});

test('a click on a stage in the sidebar selects its node', async () => {
  await session.inEditor(FLOWS, async (editor) => {
    const sidebar = await SidebarPage.show(editor);
    for (const id of ['second', 'first']) {
      await sidebar.stage(id).locator('.modelet-sb-name').click();
      const selected = await editor.page.evaluate(() => RED.view.selection().nodes?.map((node) => node.id));
      assert.deepEqual(selected, [id]);
    }
    await sidebar.stage('instance-within').locator('.modelet-sb-name').click();
    const selected = await editor.page.evaluate(() => RED.view.selection().nodes?.map((node) => node.id));
    assert.deepEqual(selected, ['instance'], 'of a stage in a subflow, the instance');
  });
});

test('the buttons of the sidebar drain a queue and restart workers, and no request fails', async () => {
  await session.inEditor(FLOWS, async (editor) => {
    await whenReady(editor);
    const sidebar = await SidebarPage.show(editor);
    const old = (await stageNow('first')).workers.map(({ pid }) => pid);
    await underLoad(async () => {
      await sidebar
        .stage('first')
        .getByRole('button', { name: /^Restart/ })
        .click();
      await sidebar
        .stage('second')
        .getByRole('button', { name: /^Drain/ })
        .click();
      await editor.page.locator('.red-ui-notification', { hasText: 'The waiting items have left the queue' }).waitFor();
      await until('other workers are shown', async () => {
        const pids = await sidebar.pidsOf('first');
        return pids.length === 2 && pids.every((pid) => pid > 0 && !old.includes(pid));
      });
    });
  });
});

test('the sidebar asks for no views while it is hidden, and asks again once it is shown', async () => {
  await session.inEditor(FLOWS, async (editor) => {
    const views = countViews(editor);
    const other = await EditorPage.open(await editor.page.context().newPage(), session.nodeRed);
    try {
      const othersViews = countViews(other);
      await SidebarPage.show(other);
      const sidebar = await SidebarPage.show(editor);
      await until('this editor is told', () => views() >= 2);
      await sidebar.leave();
      const [from, heard] = [othersViews(), views()];
      await until('the other one is told on', () => othersViews() >= from + 3);
      assert.ok(views() <= heard + 1, 'open requests arrive, and no more');

      const before = views();
      await SidebarPage.show(editor);
      await until('this editor is told again', () => views() > before + 1);
      await hideWindow(editor);
      const [others, own] = [othersViews(), views()];
      await until('the other one is told on', () => othersViews() >= others + 3);
      assert.ok(views() <= own + 1, 'a window that is hidden is told nothing');
      await showWindow(editor);
    } finally {
      await other.close();
    }
  });
});

/** Two chains on one tab, the second in a group, and a third on another tab. */
const APART = [
  TAB,
  { id: 'more', type: 'tab', label: 'more' },
  runtime(),
  ...endpoint('/one', 'one').map((one, index) => ({ ...one, y: 100 + 60 * index })),
  stage('one', 'return input;', 'two', { x: 300 }),
  stage('two', 'return input;', 'collector /one', { x: 500 }),
  {
    id: 'box',
    type: 'group',
    z: 'tab',
    nodes: ['three'],
    name: 'box',
    style: { label: true },
    x: 250,
    y: 250,
    w: 200,
    h: 100,
  },
  stage('three', 'return input;', [], { x: 350, y: 300, g: 'box' }),
  stage('four', 'return input;', [], { x: 300, z: 'more' }),
];

test('the sidebar keeps to the nodes, group or tab that is selected, with the workers of one stage, and leads back', async () => {
  await session.inEditor(APART, async (editor) => {
    const sidebar = await SidebarPage.show(editor);
    const shows = (...ids: string[]): Promise<true> =>
      until(`it shows ${ids}`, async () => (await stagesIn(sidebar.root)).join() === ids.join());
    const back = sidebar.root.getByRole('button', { name: 'Show all' });
    const all = ['one', 'two', 'three', 'four'];
    await shows(...all);
    await editor.node('two').click();
    await shows('two');
    await sidebar.stage('two').locator('.modelet-sb-worker').first().waitFor({ state: 'visible' });
    await sidebar.root.getByText('Selected in the editor: 1 of 4').waitFor();
    await back.click();
    await shows(...all);
    await editor.node('in /one').click();
    await shows('one', 'two');
    const { x, y } = await boxOf(editor.node('box'));
    await editor.page.mouse.click(x + 30, y + 2);
    await shows('three');
    await editor.showTab('more');
    await shows('four');
    // A selection by the sidebar itself takes nothing away.
    await back.click();
    await sidebar.stage('two').locator('.modelet-sb-name').click();
    await shows(...all);
    assert.deepEqual(await editor.page.evaluate(() => RED.view.selection().nodes?.map(({ id }) => id)), ['two']);
  });
});

test('the sidebar opens when a browser deploys its first pipeline, and never again by itself', async () => {
  await session.inEditor(APART, async (editor) => {
    const root = editor.page.locator('.modelet-sb-root');
    const change = async (name: string): Promise<void> => {
      await editor.open('one');
      await editor.fill(editor.field('name'), name);
      await editor.ok();
      await editor.deploy();
    };
    await editor.page.evaluate(() => {
      RED.actions.invoke('core:show-info-tab');
      localStorage.removeItem('modelet-sidebar-seen');
    });
    await root.waitFor({ state: 'hidden' });
    await change('another');
    await root.waitFor({ state: 'visible' });
    await editor.page.evaluate(() => RED.actions.invoke('core:show-info-tab'));
    await root.waitFor({ state: 'hidden' });
    await change('one more');
    await editor.waitForBadge('one', READY);
    assert.equal(await root.isVisible(), false);
  });
});

test('the sidebar offers a new pipeline, an example and the tutorial if no pipeline runs', async () => {
  await session.inEditor([TAB], async (editor) => {
    const sidebar = await SidebarPage.show(editor);
    await sidebar.root.getByText(/No pipeline runs/).waitFor();
    const offered = await sidebar.root.locator('.modelet-sb-beginning').allTextContents();
    assert.deepEqual(offered, ['New pipeline', 'Import an example', 'Tutorial']);
    await sidebar.root.getByRole('button', { name: 'Import an example' }).click();
    await editor.page.locator('#red-ui-clipboard-dialog-import-tab-examples').waitFor();
    await editor.page.locator('#red-ui-clipboard-dialog-cancel').click();
  });
});
