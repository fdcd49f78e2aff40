/** Mistakes that fail requests: each is named in the sidebar until it has been read. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { RuntimeSnapshot } from '../../../src/observe/views/snapshot.ts';
import { READY } from '../../fixtures/badges.ts';
import { endpoint, httpIn, httpOut, runtime, stage, TAB } from '../../fixtures/flow.ts';
import { freePort } from '../../fixtures/free-port.ts';
import { until } from '../../fixtures/polling.ts';
import { kill9 } from '../../fixtures/processes.ts';
import { boxOf, type EditorPage } from '../editor-page.ts';
import { sharedSession } from '../session.ts';
import { SidebarPage } from '../sidebar-page.ts';

declare const RED: { readonly actions: { invoke(action: string): void } };

const session = sharedSession();

const CODE = `if (!('n' in input)) throw Object.assign(new Error('n is missing'), { code: 'invalid_input' });
if (input.n === 'function') return () => 1;
return input.n.toFixed(1);`;
const FLOWS = [
  TAB,
  runtime('runtime', { maxPayloadMb: '1' }),
  httpIn('in', '/fix', 'fix'),
  stage('fix', CODE, 'out', { x: 300, y: 200 }),
  httpOut('out'),
];

/** A request that is answered, by endpoint. */
const GOOD = { '/fix': { n: 1 } };

function post(body: string, type = 'application/json'): Promise<Response> {
  return fetch(`${session.nodeRed.url}/fix`, { method: 'POST', headers: { 'Content-Type': type }, body });
}

async function pidOf(id: string): Promise<number> {
  const response = await fetch(`${session.nodeRed.editorUrl}modelets/snapshot`);
  const { runtimes } = (await response.json()) as { runtimes: RuntimeSnapshot[] };
  return runtimes.flatMap(({ stages }) => stages).find((one) => one.id === id)?.workers[0]?.pid ?? 0;
}

/** The debug sidebar has the place of an error in its head, and one click shows the whole message with the stack. */
async function expectInDebug(editor: EditorPage, place: RegExp, text: RegExp): Promise<void> {
  await editor.page.evaluate(() => RED.actions.invoke('core:show-debug-tab'));
  const message = editor.page.locator('.red-ui-debug-msg-level-20', {
    has: editor.page.locator('.red-ui-debug-msg-topic', { hasText: place }),
  });
  await message.locator('.red-ui-debug-msg-payload .red-ui-debug-msg-row').click();
  const [line = '', ...frames] = String(await message.locator('pre').textContent()).split('\n');
  assert.match(line, text);
  assert.ok(line.endsWith('(Predict:3:16)'), line);
  assert.equal(frames[0], '    at fix: Predict:3:16');
}

/** The dialog underlines the line that failed and says why, until the code changes. */
async function expectMark(editor: EditorPage, id: string, text: RegExp): Promise<void> {
  await editor.open(id);
  const code = editor.page.locator('#modelet-stage-code');
  const mark = code.locator('.squiggly-error');
  await mark.first().waitFor();
  await code.locator('.modelet-bad', { hasText: text }).waitFor();
  // The editor draws lines and marks anew, and not at once.
  await until('it is under the third line', async () => {
    const [line, marked] = await Promise.all([boxOf(code.locator('.view-line').nth(2)), boxOf(mark.first())]);
    return Math.abs(line.y + line.height - (marked.y + marked.height)) < 3;
  });
  await editor.typeCode('code', 'return input.n;');
  await mark.first().waitFor({ state: 'detached' });
  assert.equal(await code.locator('.modelet-bad').count(), 0);
  await editor.cancel();
}

test('failures are named by stage, code and message until they have been seen, and refused input is not red', async () => {
  await session.inEditor(FLOWS, async (editor) => {
    await editor.waitForBadge('fix', READY);
    const sidebar = await SidebarPage.show(editor);
    const seen = sidebar.root.getByRole('button', { name: 'Seen', exact: true });
    await sidebar.allIsWell(session.nodeRed.url, GOOD);
    for (let n = 0; n < 3; n += 1) assert.equal((await post('{}')).status, 422);
    await sidebar.verdict(/^fix: 3 x invalid_input: n is missing/, 'note');
    assert.equal(await sidebar.root.locator('.modelet-sb-figure[data-kind="bad"]').count(), 0);

    assert.equal((await post('{"n":"a typo"}')).status, 500);
    await sidebar.verdict(
      /^fix: 1 x modelet_failed: TypeError: input\.n\.toFixed is not a function \(Predict:3:\d+\)$/,
      'error',
    );
    await sidebar.verdict(/^fix: 3 x invalid_input/, 'note');
    await expectInDebug(editor, /^Predict:3:\d+ /, /^modelet_failed: TypeError: input\.n\.toFixed is not a function/);
    await expectMark(editor, 'fix', /failed here: fix: 1 x modelet_failed: TypeError: .* \(Predict:3:16\)$/);
    await SidebarPage.show(editor);
    await seen.click();
    // A failure that has been read is no news, but only an answer shows that it is over.
    await sidebar.verdict(
      /^fix: the last request ended with modelet_failed, and no request was answered since: TypeError/,
      'note',
    );
    assert.equal((await post('{"n":1}')).status, 200);
    await sidebar.allIsWell(session.nodeRed.url, GOOD);

    assert.equal((await post('{"n":"function"}')).status, 500);
    await sidebar.verdict(/^fix: 1 x modelet_failed: .*function/, 'error');
    assert.equal((await post('{"n":')).status, 400);
    await sidebar.verdict(/^(fix: )?1 x bad_request: /, 'note');
    assert.equal((await post('n=1', 'application/pdf')).status, 415);
    assert.equal((await post(JSON.stringify({ n: 'x'.repeat(2 ** 20) }))).status, 413);
    await sidebar.verdict(/^(fix: )?1 x unsupported_media: /, 'note');
    await sidebar.verdict(/^(fix: )?1 x payload_too_large: /, 'note');
    // A machine with much to do has others: Node-RED may be busy, and items may wait.
    const folded = sidebar.root.locator('.modelet-sb-more .modelet-sb-finding[data-kind="note"]');
    assert.ok((await folded.count()) >= 2 && !(await folded.last().isVisible()));
    await sidebar.root.getByText(/^\d+ more$/).click();
    await folded.last().waitFor();
    assert.equal((await post('{"n":1}')).status, 200);
    await seen.click();
    await sidebar.allIsWell(session.nodeRed.url, GOOD);
  });
});

test('a killed worker is told by the name of its stage, with the cause, after it has been replaced', async () => {
  await session.inEditor(FLOWS, async (editor) => {
    await editor.waitForBadge('fix', READY);
    const sidebar = await SidebarPage.show(editor);
    kill9(await pidOf('fix'));
    await sidebar.verdict(/^fix: worker 0 died (just now|[\d.]+ (m?s|min) ago): .*SIGKILL/, 'slow');
    await editor.waitForDebug(/fix\/worker 0msg : string\[\d+\]"died: was killed by SIGKILL"/);
    await editor.waitForBadge('fix', READY);
    await sidebar.root.getByRole('button', { name: 'Seen', exact: true }).click();
    await sidebar.allIsWell(session.nodeRed.url, GOOD);
  });
});

test('a broker that cannot be reached is told with its address, without the password', async () => {
  const port = await freePort();
  const flows = [
    TAB,
    {
      id: 'broker',
      type: 'modelet-broker',
      name: 'queue server',
      url: `redis://127.0.0.1:${port}`,
      credentials: { username: 'me', password: 'not told', secret: 'for the hosts of tests' },
    },
    runtime('runtime', { broker: 'broker' }),
    ...endpoint('/far', 'far'),
    stage('far', 'return input;', 'collector /far', { placement: 'remote' }),
  ];
  await session.inEditor(flows, async (editor) => {
    const sidebar = await SidebarPage.show(editor);
    await editor.waitForBadge('far', /^the broker is unreachable/);
    await sidebar.verdict(
      new RegExp(`^far: the broker is unreachable\\s+redis://127\\.0\\.0\\.1:${port}.*ECONNREFUSED`),
      'error',
    );
    await editor.waitForDebug(/the broker is unreachable: redis:\/\/127\.0\.0\.1:/);
    assert.doesNotMatch((await sidebar.root.textContent()) ?? '', /not told/);
    await editor.assertNoDebug(/not told/);
  });
});
