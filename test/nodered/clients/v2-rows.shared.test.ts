/**
 * Rows of a KServe v2 request at an ONNX model that has proven its batch: each is an item, and the answer is the one of all
 * of them. At Node-RED's server, the engine's listener and the headless runner.
 */
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { gather } from '../../fixtures/drawn.ts';
import { batcher, endpoint, runtime, stage, TAB } from '../../fixtures/flow.ts';
import { folderFor } from '../../fixtures/folder.ts';
import { serveFlows } from '../../fixtures/headless.ts';
import { engineUrl, type FlowNode, useNodeRed } from '../../fixtures/node-red.ts';
import { classifier, type Drawing, digitsModel, doubling, TABLE, writeModel } from '../../fixtures/onnx.ts';
import { until } from '../../fixtures/polling.ts';
import { repositoryRoot } from '../../fixtures/repository.ts';

const red = useNodeRed();

interface Output {
  readonly name: string;
  readonly datatype: string;
  readonly shape: readonly number[];
  readonly data: readonly unknown[];
}

interface Answer {
  readonly status: number;
  readonly outputs: readonly Output[];
  readonly error: string | undefined;
}

const { images } = JSON.parse(readFileSync(join(repositoryRoot, 'assets', 'data', 'digits-test.json'), 'utf8')) as {
  images: readonly { readonly image: readonly number[]; readonly label: number }[];
};
const LABELS = [...'0123456789'];

async function infer(base: string, model: string, inputs: readonly object[], signal?: AbortSignal): Promise<Answer> {
  const answer = await fetch(new URL(`/v2/models/${model}/infer`, base), {
    ...{ method: 'POST', body: JSON.stringify({ inputs }), headers: { 'Content-Type': 'application/json' } },
    ...(signal ? { signal } : {}),
  });
  const { outputs = [], error } = (await answer.json()) as Partial<Answer>;
  return { status: answer.status, outputs, error };
}

/** The images from one of them on. */
function digits(from: number, rows: number): readonly object[] {
  const data = images.slice(from, from + rows).flatMap(({ image }) => image);
  return [{ name: 'image', datatype: 'FP32', shape: [rows, 8, 8], data }];
}

function labelsOf({ outputs }: Answer): unknown {
  return outputs.find(({ name }) => name === 'label')?.data;
}

function expected(from: number, rows: number): string[] {
  return images.slice(from, from + rows).map(({ label }) => String(label));
}

/** A stage that waits for twelve items, and gives its batches to one worker. */
function twelve(): FlowNode[] {
  const init = JSON.stringify({ labels: LABELS, examples: images.slice(0, 2).map(({ image }) => image) });
  return [
    TAB,
    runtime('runtime', { listen: '127.0.0.1:0', v2Path: '/', capacity: 20 }),
    ...endpoint('/twelve', 'batches'),
    batcher('batches', 'digits', { policy: 'oldest', maxBatchSize: 12, maxWaitMs: 60_000 }),
    stage('digits', '', 'collector /twelve', { source: 'onnx', path: digitsModel, init, workers: '1' }),
  ];
}

/** Sends eight rows and four single ones, which only fill a batch together. */
async function shareABatch(url: string): Promise<void> {
  const [eight, ...singles] = await Promise.all([
    infer(url, 'twelve', digits(0, 8)),
    ...[8, 9, 10].map((from) => infer(url, 'twelve', digits(from, 1))),
    fetch(new URL('/twelve', url), {
      ...{ method: 'POST', headers: { 'Content-Type': 'application/json' } },
      body: JSON.stringify(images[11]?.image),
    }),
  ]);
  assert.equal(eight.status, 200, eight.error);
  assert.deepEqual(labelsOf(eight), expected(0, 8));
  const shapes = eight.outputs.map(({ name, datatype, shape }) => [name, datatype, shape]);
  const numbers = [
    ['index', 'FP64', [8]],
    ['score', 'FP64', [8]],
    ['scores', 'FP64', [8, 10]],
  ];
  assert.deepEqual(shapes, [['label', 'BYTES', [8]], ...numbers]);
  const bare = singles.pop() as unknown as Response;
  assert.deepEqual((singles as Answer[]).flatMap(labelsOf), expected(8, 3));
  assert.equal(((await bare.json()) as { label: string }).label, expected(11, 1)[0]);
}

test('the rows of one client share batches with those of others', async () => {
  await red.deployReady(twelve());
  for (const [at, url] of [red.url, await engineUrl(red)].entries()) {
    await shareABatch(url);
    await until('one batch of twelve ran', async () => {
      const found = (await red.snapshot()).runtimes[0]?.stages[0];
      return found?.items === 12 * (at + 1) && found.batches === at + 1;
    });
  }
});

test('so they do in the headless runner', async (t) => {
  const file = join(folderFor(t), 'flows.json');
  writeFileSync(file, JSON.stringify(twelve()));
  const { url } = await serveFlows(t, file);
  await until('the model is ready', async () => (await fetch(new URL('/v2/health/ready', url))).ok);
  await shareABatch(url);
});

test('rows that do not fit are refused together, and a client that leaves takes its rows along', async () => {
  await red.deployReady(twelve());
  const counts = async (): Promise<Record<string, number>> => ({ ...(await red.snapshot()).runtimes[0]?.requests });
  for (const url of [red.url, await engineUrl(red)]) {
    const many = await infer(url, 'twelve', digits(0, 21));
    assert.equal(many.status, 413);
    assert.match(many.error ?? '', /^the request has 21 rows, and at most 20 may wait: send several requests/);
    const before = await counts();
    const leaves = new AbortController();
    const held = infer(url, 'twelve', digits(0, 11), leaves.signal);
    await until('eleven rows wait', async () => (await red.snapshot()).runtimes[0]?.backlog === 11);
    const second = await infer(url, 'twelve', digits(0, 10));
    assert.equal(second.status, 429);
    assert.match(second.error ?? '', /^11 of 20 requests are open: there is no room for 10 rows$/);
    assert.equal((await red.snapshot()).runtimes[0]?.backlog, 11, 'none of them is admitted');
    leaves.abort();
    await assert.rejects(held);
    await until('the rows have gone', async () => {
      const { cancelled, capacity_exceeded } = await counts();
      const { backlog } = (await red.snapshot()).runtimes[0] ?? {};
      const more = [cancelled, capacity_exceeded].map((count = 0, at) => {
        return count - (before[['cancelled', 'capacity_exceeded'][at] as string] ?? 0);
      });
      return backlog === 0 && more.join() === '11,1';
    });
  }
});

type Counts = Readonly<Record<string, number>>;

/** Items of each stage so far, also of those of earlier deploys that bore its name. */
async function itemsOf(): Promise<Counts> {
  const stages = (await red.snapshot()).runtimes[0]?.stages ?? [];
  return Object.fromEntries(stages.map(({ name, items }) => [name, items]));
}

/** Waits until stages have run so many items more. */
async function ran(before: Counts, more: Counts): Promise<void> {
  await until(`items ran: ${JSON.stringify(more)}`, async () => {
    const now = await itemsOf();
    return Object.entries(more).every(([name, count]) => now[name] === (before[name] ?? 0) + count);
  });
}

/** The models of one deploy: each runs rows as items, and beside it as one. */
function pairsOf(folder: string, drawings: Readonly<Record<string, Drawing>>, more: object = {}): FlowNode[] {
  return Object.entries(drawings).flatMap(([name, drawing]) => {
    const path = writeModel(folder, name, drawing);
    return [false, true].flatMap((whole) => {
      const id = whole ? `${name}-whole` : name;
      const init = JSON.stringify({ ...more, ...(whole ? { batch: false } : {}) });
      return [
        ...endpoint(`/${id}`, `batch ${id}`),
        batcher(`batch ${id}`, id),
        stage(id, '', `collector /${id}`, { source: 'onnx', path, init }),
      ];
    });
  });
}

const PAIR: Drawing = {
  inputs: [
    { name: 'a', shape: ['n', 2] },
    { name: 'b', shape: ['n'] },
  ],
  outputs: [
    { name: 'a2', shape: ['n', 2] },
    { name: 'b2', shape: ['n'] },
  ],
  nodes: [
    { operator: 'Add', inputs: ['a', 'a'], output: 'a2' },
    { operator: 'Mul', inputs: ['b', 'b'], output: 'b2' },
  ],
};
const AB = [
  { name: 'a', datatype: 'FP32', shape: [3, 2], data: [1, 2, 3, 4, 5, -0.5] },
  { name: 'b', datatype: 'FP32', shape: [3], data: [7, 8, 9] },
];
const X = { name: 'X', datatype: 'FP32', shape: [3, 2], data: [1, 0, 0, 1, 3, 1] };
const POINTS = { name: 'x', datatype: 'INT64', shape: [4], data: [2, 0, 1, 2] };

test('the answer for rows has the names, types and shapes of the one for the whole', async (t) => {
  const folder = folderFor(t);
  const drawings = { pair: PAIR, classifier: classifier({ zipmap: false }), table: TABLE };
  const inputs: Readonly<Record<string, readonly object[]>> = { pair: AB, classifier: [X], table: [POINTS] };
  for (const more of [{}, { tensors: true }]) {
    const flows = [TAB, runtime('runtime', { listen: '127.0.0.1:0', v2Path: '/' }), ...pairsOf(folder, drawings, more)];
    await red.deployReady(flows);
    const before = await itemsOf();
    for (const url of [red.url, await engineUrl(red)]) {
      for (const [name, asked] of Object.entries(inputs)) {
        const [rows, whole] = [await infer(url, name, asked), await infer(url, `${name}-whole`, asked)];
        assert.equal(rows.status, 200, rows.error);
        assert.deepEqual(rows, whole, name);
        const count = (asked[0] as { shape: number[] }).shape[0];
        assert.ok(rows.outputs.every(({ shape }) => shape[0] === count));
      }
    }
    const singly = { 'pair-whole': 2, 'classifier-whole': 2, 'table-whole': 2 };
    await ran(before, { pair: 6, classifier: 6, table: 8, ...singly });
  }
});

test('an error names its row, and the rows of all inputs must agree', async (t) => {
  const drawings = { pair: PAIR, table: TABLE };
  await red.deployReady([
    ...[TAB, runtime('runtime', { listen: '127.0.0.1:0', v2Path: '/' })],
    ...pairsOf(folderFor(t), drawings),
  ]);
  for (const url of [red.url, await engineUrl(red)]) {
    const wrong = await infer(url, 'table', [{ ...POINTS, data: [2, 0, 7, 1] }]);
    assert.equal(wrong.status, 422);
    assert.match(wrong.error ?? '', /^row 2: the model cannot take the input: an index is out of range/);
    const odd = await infer(url, 'pair', [AB[0] as object, { ...AB[1], shape: [2], data: [1, 2] }]);
    assert.equal(odd.status, 400);
    assert.match(odd.error ?? '', /^the inputs must have the same number of rows: "a" has 3, "b" has 2$/);
    const [right] = (await infer(url, 'table', [{ ...POINTS, shape: [1], data: [1] }])).outputs;
    assert.deepEqual([right?.shape, right?.data], [[1], [20]]);
  }
});

/** y = x - mean(x) over all rows. */
const CENTRED: Drawing = {
  inputs: [{ name: 'x', shape: ['n', 2] }],
  outputs: [{ name: 'y', shape: ['n', 2] }],
  nodes: [
    { operator: 'ReduceMean', inputs: ['x'], output: 'm', attributes: { axes: [0], keepdims: 1 } },
    { operator: 'Sub', inputs: ['x', 'm'], output: 'y' },
  ],
};

test('the rows of a model without a proven batch or a batcher, in front of code, or that emits a list, stay together', async (t) => {
  const folder = folderFor(t);
  await red.deployReady([
    ...[TAB, runtime('runtime', { listen: '127.0.0.1:0', v2Path: '/' })],
    ...endpoint('/centred', 'batches'),
    batcher('batches', 'centred'),
    stage('centred', '', 'collector /centred', { source: 'onnx', path: writeModel(folder, 'centred', CENTRED) }),
    ...endpoint('/lone', 'lone'),
    stage('lone', '', 'collector /lone', { source: 'onnx', path: writeModel(folder, 'lone', TABLE) }),
    // Under another name than before: earlier workers of a stage answer until its new ones are ready.
    ...endpoint('/summed', 'before first'),
    batcher('before first', 'first'),
    stage('first', '', 'before sum', { source: 'onnx', path: writeModel(folder, 'first', TABLE) }),
    batcher('before sum', 'sum'),
    stage('sum', 'return input.reduce((sum, one) => sum + one);', 'collector /summed'),
    ...endpoint('/parted', 'before parted'),
    batcher('before parted', 'parted'),
    stage('parted', '', 'before twice', { source: 'onnx', path: writeModel(folder, 'parted', TABLE), emits: 'list' }),
    batcher('before twice', 'twice'),
    stage('twice', '', 'together', { source: 'onnx', path: writeModel(folder, 'twice', doubling(['batch'])) }),
    gather('together', 'collector /parted', [], { mode: 'list' }),
  ]);
  const before = await itemsOf();
  const x = { name: 'x', datatype: 'FP32', shape: [3, 2], data: [1, 10, 2, 20, 3, 30] };
  for (const url of [red.url, await engineUrl(red)]) {
    const [y] = (await infer(url, 'centred', [x])).outputs;
    assert.deepEqual([y?.name, y?.datatype, y?.shape, y?.data], ['y', 'FP32', [3, 2], [-1, -10, 0, 0, 1, 10]]);
    const sum = await infer(url, 'summed', [POINTS]);
    assert.deepEqual([sum.error, sum.outputs[0]?.data], [undefined, [30 + 10 + 20 + 30]]);
    const parted = await infer(url, 'parted', [POINTS]);
    const [doubled] = parted.outputs;
    assert.deepEqual([parted.error, doubled?.shape, doubled?.data], [undefined, [4], [60, 20, 40, 60]]);
    const lone = await infer(url, 'lone', [POINTS]);
    assert.deepEqual([lone.error, lone.outputs[0]?.data], [undefined, [30, 10, 20, 30]]);
  }
  await ran(before, { centred: 2, first: 2, sum: 2, lone: 2, parted: 2, twice: 8 });
});
