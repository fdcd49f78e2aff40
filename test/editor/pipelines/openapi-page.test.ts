/** The page of the endpoints in a browser shows them and sends requests, and loads nothing from other servers. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Locator, Page } from 'playwright-core';
import { endpoint, runtime, stage, TAB } from '../../fixtures/flow.ts';
import { sharedSession } from '../session.ts';

declare const window: { pwned?: number };

const session = sharedSession();

const HOSTILE = '<img src="data:," onerror="window.pwned = 1"><script>window.pwned = 1</script>';

function flows(name: string): readonly object[] {
  const sum = {
    type: 'object',
    required: ['n'],
    properties: { n: { type: 'integer', minimum: 5 } },
    description: name,
  };
  return [
    { ...TAB, label: name, info: name },
    runtime('runtime', { name, publicPath: '/ops' }),
    ...endpoint('/sums', 'sums').map((node) => ({ ...node, name, info: name })),
    stage('sums', 'return { sum: input.n + 1 };', 'collector /sums', { inputSchema: JSON.stringify(sum) }),
    ...endpoint('/halves', 'halves'),
    stage('halves', 'return { half: input / 2 };', 'collector /halves', {
      inputSchema: '{"type":"number","minimum":8}',
    }),
  ];
}

interface Opened {
  readonly page: Page;
  /** Errors and warnings of the console, and exceptions. */
  readonly problems: string[];
  /** Servers that the page has sent requests to. */
  readonly servers: Set<string>;
}

async function open(page: Page, address: string): Promise<Opened> {
  const opened = { page, problems: [] as string[], servers: new Set<string>() };
  page.on('console', (message) => {
    if (message.type() === 'error') opened.problems.push(message.text());
  });
  page.on('pageerror', (error) => opened.problems.push(error.message));
  page.on('request', (request) => {
    if (!request.url().startsWith('data:')) opened.servers.add(new URL(request.url()).origin);
  });
  await page.goto(address);
  return opened;
}

/** Sends the request that the page suggests, and returns the answer's status and body as they are shown. */
async function execute(operation: Locator): Promise<{ readonly status: string; readonly body: string }> {
  await operation.locator('.opblock-summary-control').click();
  await operation.getByRole('button', { name: 'Execute' }).click();
  const answer = operation.locator('.live-responses-table .response');
  const [status, body] = [answer.locator('.response-col_status'), answer.locator('.highlight-code code').first()];
  return { status: (await status.textContent()) ?? '', body: (await body.textContent()) ?? '' };
}

test('the page of the endpoints sends requests that fit their schemas, and needs no other server', async () => {
  await session.inEditor(flows('harmless'), async (editor) => {
    for (const address of [`${session.nodeRed.editorUrl}modelets/openapi`, `${session.nodeRed.url}/ops/openapi`]) {
      const { page, problems, servers } = await open(await editor.page.context().newPage(), address);
      const sum = await execute(page.locator('[id$="-post_sums"]'));
      assert.deepEqual(sum, { status: '200', body: '{\n  "sum": 6\n}' });
      // Node-RED takes no bare number as application/json.
      const half = await execute(page.locator('[id$="-post_halves"]'));
      assert.deepEqual(half, { status: '200', body: '{\n  "half": 4\n}' });
      assert.deepEqual([problems, [...servers]], [[], [session.nodeRed.url]]);
      await page.close();
    }
  });
});

test('the page of the endpoints runs no code from names and descriptions', async () => {
  await session.inEditor(flows(HOSTILE), async (editor) => {
    const { page, servers } = await open(await editor.page.context().newPage(), `${session.nodeRed.url}/ops/openapi`);
    assert.equal((await execute(page.locator('[id$="-post_sums"]'))).status, '200');
    assert.ok((await page.getByText('<script>').count()) > 0, 'names are text');
    assert.equal(await page.evaluate(() => window.pwned), undefined);
    assert.deepEqual([...servers], [session.nodeRed.url]);
    await page.close();
  });
});
