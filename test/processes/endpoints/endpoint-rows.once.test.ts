/** Rows of a body among other requests: they hold up no other client, and a worker that dies takes only those it had. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { inlineStage, listenAtEngine, serveEndpoint, type TestEndpoint } from '../../fixtures/endpoint.ts';
import { folderFor } from '../../fixtures/folder.ts';
import { until } from '../../fixtures/polling.ts';
import { callsIn, release } from '../../fixtures/service.ts';

const HEADERS = { 'Content-Type': 'application/json' };

function post({ url }: TestEndpoint, value: unknown, signal?: AbortSignal): Promise<Response> {
  const body = JSON.stringify(value);
  return fetch(url, { method: 'POST', headers: HEADERS, body, ...(signal ? { signal } : {}) });
}

function names(held: string): string[] {
  return [held, ...Array.from({ length: 39 }, (_, row) => `${held.slice(4)}${row}`)];
}

test('a request alone waits for one batch of the rows that came before, and a client that leaves takes its rows along', async (t) => {
  const folder = folderFor(t);
  const gate = { id: 'gate', file: 'gate', init: { folder }, predict: 'batch', batch: { maxBatchSize: 4 } } as const;
  const endpoint = await listenAtEngine(t, { stages: [gate] }, { maxRows: 40 });
  const backlogOf = (count: number): Promise<unknown> =>
    until(`${count} requests are open`, () => endpoint.service.service.snapshot().backlog === count);
  const many = post(endpoint, names('held-a'));
  await backlogOf(40);
  const single = post(endpoint, 'single');
  await backlogOf(41);
  release(folder, 'held-a');
  const results = (await (await many).json()) as { readonly result: { readonly input: string } }[];
  assert.deepEqual(
    results.map(({ result }) => result.input),
    names('held-a'),
  );
  assert.equal(((await (await single).json()) as { readonly input: string }).input, 'single');
  const place = callsIn(folder).flat().indexOf('single');
  assert.ok(place < 12, `the single request ran as number ${place} of 41`);

  await backlogOf(0);
  const leaves = new AbortController();
  const left = post(endpoint, names('held-b'), leaves.signal);
  await backlogOf(40);
  leaves.abort();
  await assert.rejects(left);
  await backlogOf(0);
  release(folder, 'held-b');
  await (await post(endpoint, 'last')).json();
  assert.ok(!callsIn(folder).flat().includes('-b38'), 'rows that had not begun do not run');
});

test('of 500 rows, a killed worker takes only those that it had', async (t) => {
  const code = "if (input.row === 100) process.kill(process.pid, 'SIGKILL'); return input;";
  const stage = inlineStage('deadly', code, { workers: 2, batch: { maxBatchSize: 8 } });
  const endpoint = await serveEndpoint(t, { stages: [stage] }, { maxRows: 500 });
  const body = JSON.stringify(Array.from({ length: 500 }, (_, row) => ({ row })));
  const headers = { ...HEADERS, Accept: 'application/x-ndjson' };
  const answer = await fetch(endpoint.url, { method: 'POST', headers, body });
  const lines = (await answer.text())
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Line);
  const { done } = lines.pop() as Line;
  assert.deepEqual(
    lines.map(({ index }) => index).sort((a, b) => a - b),
    [...lines.keys()],
  );
  assert.equal(lines.length, 500, 'each row is answered once');
  const failed = lines.filter(({ error }) => error);
  for (const { index, result, error } of lines) {
    if (error) assert.equal(error.code, 'worker_lost');
    else assert.deepEqual(result, { row: index }, 'and by its own result');
  }
  assert.deepEqual(done, { rows: 500, failed: failed.length });
  assert.ok(failed.some(({ index }) => index === 100));
  assert.ok(failed.length <= 8, `${failed.length} rows were lost`);
});

interface Line {
  readonly index: number;
  readonly result?: unknown;
  readonly error?: { readonly code: string };
  readonly done?: unknown;
}
