/** The sidebar "modelets": its figures and buttons, and that it costs nothing while it is hidden. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { RuntimeSnapshot, StageSnapshot } from '../../../src/observe/views/snapshot.ts';
import { READY } from '../../fixtures/badges.ts';
import { gather } from '../../fixtures/drawn.ts';
import { batcher, endpoint, httpIn, node, runtime, sink, stage, TAB } from '../../fixtures/flow.ts';
import { until } from '../../fixtures/polling.ts';
import { EditorPage } from '../editor-page.ts';
import { sharedSession } from '../session.ts';
import { SidebarPage } from '../sidebar-page.ts';

declare const RED: {
  readonly settings: Record<string, unknown>;
  readonly nodes: { node(id: string): Record<string, unknown> };
  readonly view: { selection(): { readonly nodes?: readonly { readonly id: string }[] } };
};
declare const document: { dispatchEvent(event: Event): void };
declare const window: { pwned?: number };

const session = sharedSession();

const HOSTILE = '<img src="x" onerror="window.pwned = 1">';
const FLOWS = [
  TAB,
  { ...runtime(), name: HOSTILE },
  ...endpoint('/sums', 'first'),
  { ...httpIn('asks', '/asks', 'first'), method: 'get' },
  stage('first', 'return input;', 'batch', { workers: '2', cpus: '0', y: 200 }),
  batcher('batch', 'second', { maxBatchSize: 8, policy: 'oldest', maxWaitMs: 20, y: 300 }),
  stage('second', 'return input.map((one) => one.n + 1);', 'collector /sums', {
    predict: 'batch',
    name: HOSTILE,
    y: 400,
  }),
  { id: 'box', type: 'subflow', name: 'box', in: [], out: [] },
  { ...stage('within', 'return 1;', []), z: 'box' },
  { id: 'instance', type: 'subflow:box', z: 'tab', x: 100, y: 600, wires: [] },
  stage('broken', 'return 1;', [], { setup: `throw new Error('${HOSTILE}');`, y: 500 }),
];

async function stageNow(id: string): Promise<StageSnapshot> {
  const response = await fetch(`${session.nodeRed.editorUrl}modelets/snapshot`);
  const { runtimes } = (await response.json()) as { runtimes: RuntimeSnapshot[] };
  const found = runtimes.flatMap(({ stages }) => stages).find((one) => one.id === id);
  assert.ok(found, `stage ${id} runs`);
  return found;
}

/** Keeps requests coming while `work` looks; each must be answered rightly. */
async function underLoad(work: () => Promise<void>): Promise<void> {
  let isOver = false;
  const ask = async (): Promise<void> => {
    for (let n = 0; !isOver; n += 1) {
      const response = await session.nodeRed.post('/sums', { n });
      assert.equal(await response.json(), n + 1);
    }
  };
  const load = Promise.all(Array.from({ length: 4 }, ask));
  try {
    await work();
  } finally {
    isOver = true;
    await load;
  }
}

async function whenReady(editor: EditorPage): Promise<void> {
  await editor.waitForBadge('first', READY);
  await editor.waitForBadge('second', READY);
}

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
    Object.defineProperty(document, 'visibilityState', { value: 'hidden' });
    document.dispatchEvent(new Event('visibilitychange'));
  });
}

test('the sidebar shows stages, workers and rates while requests come', async () => {
  await session.inNewEditor(FLOWS, async (editor) => {
    await whenReady(editor);
    const sidebar = await SidebarPage.show(editor);
    const drawn = await sidebar.stage('second').elementHandle();
    await underLoad(async () => {
      assert.ok((await sidebar.rateOf('first')) > 0);
      assert.ok((await sidebar.rateOf('second')) > 0);
      await sidebar.figure('req/s').filter({ hasText: /[1-9]/ }).waitFor();
      await sidebar.figure('p99').filter({ hasText: /\d/ }).waitFor();
      assert.equal(await sidebar.figure('err/s').textContent(), '0');
      await sidebar
        .stage('second')
        .getByText(/^[\d.]+ of 8$/)
        .waitFor();
      // Under the line that is drawn, also after a while.
      const line = sidebar.stage('second').locator('path').last();
      await until(
        'the curve has several points',
        async () => ((await line.getAttribute('d')) ?? '').split('L').length > 3,
      );
    });
    const pids = (await stageNow('first')).workers.map(({ pid }) => pid);
    assert.deepEqual(await sidebar.pidsOf('first'), pids);
    assert.equal(await sidebar.root.locator('.modelet-sb-request').count(), 20);
    await sidebar.root.getByText(/event loop: \d+ % busy/).waitFor();
    await sidebar.root.getByText(/^\d+ % of their time: /).waitFor();
    assert.doesNotMatch(await sidebar.root.innerHTML(), /other nodes/, 'the load is its own');
    await sidebar.stage('broken').locator('.modelet-sb-why').waitFor();
    const verdict = sidebar.root.locator('.modelet-sb-verdict-text');
    await verdict.filter({ hasText: /^broken: does not start: / }).waitFor();
    await sidebar.root.locator('.modelet-sb-verdict-slowest', { hasText: /^Slowest stage .*: .*runs \d/ }).waitFor();
    await verdict.click();
    assert.deepEqual(await editor.page.evaluate(() => RED.view.selection().nodes?.map(({ id }) => id)), ['broken']);
    const opened = editor.page.waitForEvent('popup');
    await sidebar.root.locator('a.modelet-sb-api').click();
    const page = await opened;
    await page.locator('[data-path="/sums"]').waitFor();
    await page.close();
    // A link does not carry the token of an account that has logged in.
    await editor.page.evaluate(() => {
      RED.settings['user'] = { username: 'somebody', permissions: '*' };
    });
    await sidebar.root.locator('a.modelet-sb-api').waitFor({ state: 'hidden' });
    await editor.page.evaluate(() => {
      RED.nodes.node('runtime')['publicPath'] = '/ops/';
    });
    await sidebar.root.locator('a.modelet-sb-api[href="/ops/openapi"]').waitFor();
    // Updated in place, and within the sidebar's width.
    assert.equal(await sidebar.stage('second').evaluate((now, before) => now === before, drawn), true);
    assert.ok(await sidebar.root.evaluate(({ scrollWidth, clientWidth }) => scrollWidth <= clientWidth));
  });
});

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
      await now.filter({ hasText: /requests\/s: a batch has what waits when a worker gets free\./ }).waitFor();
      await editor.cancel();
    });
  });
});

test('the sidebar names other users of Node-RED\u2019s event loop only while that is busy', async () => {
  await session.inEditor(FLOWS, async (editor) => {
    // As text: the compiler would make an import of its own of this one.
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
    const stages = chains.first().locator('[data-stage]');
    const ids = await stages.evaluateAll((found) => found.map((one) => one.getAttribute('data-stage')));
    assert.deepEqual(ids, ['first', 'second']);
    assert.match((await chains.first().locator('.modelet-sb-end').textContent()) ?? '', /^ends there: .*collector/);
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
  await session.inNewEditor(FLOWS, async (editor) => {
    const views = countViews(editor);
    const other = await EditorPage.open(editor.page.context(), session.nodeRed);
    try {
      const othersViews = countViews(other);
      await SidebarPage.show(other);
      const sidebar = await SidebarPage.show(editor);
      await until('this editor is told', () => views() >= 2);
      await sidebar.leave();
      const [from, heard] = [othersViews(), views()];
      await until('the other one is told on', () => othersViews() >= from + 3);
      assert.ok(views() <= heard + 1, 'what was under way arrives, and no more');

      const before = views();
      await SidebarPage.show(editor);
      await until('this editor is told again', () => views() > before + 1);
      await hideWindow(editor);
      const [others, own] = [othersViews(), views()];
      await until('the other one is told on', () => othersViews() >= others + 3);
      assert.ok(views() <= own + 1, 'a window that is hidden is told nothing');
    } finally {
      await other.close();
    }
  });
});

test('the sidebar offers to import an example if no pipeline runs', async () => {
  await session.inEditor([TAB], async (editor) => {
    const sidebar = await SidebarPage.show(editor);
    await sidebar.root.getByText(/No pipeline runs/).waitFor();
    await sidebar.root.getByRole('button', { name: 'Import an example' }).click();
    await editor.page.locator('#red-ui-clipboard-dialog-import-tab-examples').waitFor();
  });
});
