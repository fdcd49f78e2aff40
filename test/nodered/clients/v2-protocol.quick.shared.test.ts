/**
 * Compiled endpoints as models of the KServe v2 protocol, at Node-RED's server, the engine's listener and the headless runner.
 * Shows: way KServe.
 */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { deflateSync, gzipSync } from 'node:zlib';
import { batcher, endpoint, func, httpIn, keysNode, runtime, stage, TAB } from '../../fixtures/flow.ts';
import { serveFlows } from '../../fixtures/headless.ts';
import { engineUrl, type FlowNode, useNodeRed } from '../../fixtures/node-red.ts';
import { NodeRedProcess } from '../../fixtures/node-red-process.ts';
import { until } from '../../fixtures/polling.ts';

const red = useNodeRed();

/** Doubles the input x, repeats the input t, and says what it got. */
const CODE = `
  if (input.fail) throw Object.assign(new Error('no thanks'), { code: 'invalid_input' });
  const { x, t } = input;
  const double = { ...x, data: x.data.map((value) => value * 2) };
  return { double, ...(t ? { t } : {}), form: [x.data.constructor.name, x.type, String(x.dims)] };`;

const FOUND = {
  type: 'object',
  properties: {
    labels: { type: 'array', items: { type: 'string' } },
    boxes: { type: 'array', items: { type: 'array', minItems: 4, maxItems: 4, items: { type: 'number' } } },
  },
};

function flows(properties: Readonly<Record<string, unknown>>): FlowNode[] {
  return [
    TAB,
    runtime('runtime', { listen: '127.0.0.1:0', ...properties }),
    ...endpoint('/double', 'double'),
    stage('double', CODE, 'collector /double'),
    ...endpoint('/lone/mean', 'mean'),
    stage(
      'mean',
      'return input.x.data.reduce((sum, value) => sum + value) / input.x.data.length;',
      'collector /lone/mean',
      { outputSchema: '{"type": "number"}' },
    ),
    ...endpoint('/found', 'found'),
    stage('found', 'return input.x.data[0] ? {} : { labels: [], boxes: [] };', 'collector /found', {
      outputSchema: JSON.stringify(FOUND),
    }),
    // Goes through the flow, so it is no model.
    httpIn('in', '/through', 'pass'),
    func('pass', 'return msg;', 'double'),
  ];
}

const AS_JSON: Readonly<Record<string, string>> = { 'Content-Type': 'application/json' };
const X = { name: 'x', shape: [1, 2], datatype: 'FP32', data: [1.5, 2.5] };

async function ask(
  base: string,
  path: string,
  body?: unknown,
  headers = AS_JSON,
): Promise<{ status: number; json: unknown }> {
  const sent = Buffer.isBuffer(body) ? new Uint8Array(body) : JSON.stringify(body);
  const answer = await fetch(new URL(path, base), body === undefined ? {} : { method: 'POST', body: sent, headers });
  // KServe's SDK knows JSON only by this type.
  if (path.includes('/v2')) assert.equal(answer.headers.get('content-type'), 'application/json');
  return { status: answer.status, json: await answer.json() };
}

/** The hosts of one deploy. */
async function hosts(): Promise<readonly (readonly [name: string, url: string])[]> {
  return [
    ['Node-RED', red.url],
    ['the engine', await engineUrl(red)],
  ];
}

test('a model takes and gives JSON tensors', async () => {
  await red.deployReady(flows({ v2Path: '/' }));
  for (const [host, url] of await hosts()) {
    const asked = { id: 'mine', inputs: [X, { name: 't', shape: [2], datatype: 'BYTES', data: ['a', 'é'] }] };
    assert.deepEqual(
      await ask(url, '/v2/models/double/infer', asked),
      {
        status: 200,
        json: {
          id: 'mine',
          model_name: 'double',
          model_version: '1',
          outputs: [
            { name: 'double', datatype: 'FP32', shape: [1, 2], data: [3, 5] },
            { name: 't', datatype: 'BYTES', shape: [2], data: ['a', 'é'] },
            { name: 'form', datatype: 'BYTES', shape: [3], data: ['Float32Array', 'float32', '1,2'] },
          ],
        },
      },
      host,
    );
    const lone = await ask(url, '/v2/models/lone/mean/versions/1/infer', { inputs: [X] });
    const output = { name: 'output', datatype: 'FP64', shape: [1], data: [2] };
    assert.deepEqual(lone.json, { model_name: 'lone/mean', model_version: '1', outputs: [output] }, host);
    for (const [coding, packed] of [
      ['gzip', gzipSync],
      ['deflate', deflateSync],
    ] as const) {
      const body = packed(JSON.stringify({ inputs: [X], outputs: [{ name: 'double' }] }));
      const { json } = await ask(url, '/v2/models/double/infer', body, { 'Content-Encoding': coding });
      assert.deepEqual((json as { outputs: object }).outputs, [
        { name: 'double', datatype: 'FP32', shape: [1, 2], data: [3, 5] },
      ]);
    }
  }
});

// The requests are those that tritonclient 2.73.0 for Python has sent, byte for byte, for
//   infer('double', [x, t], request_id='r1') and infer('double', [x], outputs=[InferRequestedOutput('double')])
// It sends no Content-Type. It reads the bytes of the outputs behind the JSON, in the order of the JSON.
test('the bytes of tensors stand behind the JSON, as tritonclient sends and reads them', async () => {
  await red.deployReady(flows({ v2Path: '/triton' }));
  const json =
    '{"id":"r1","inputs":[{"name":"x","shape":[1,2],"datatype":"FP32","parameters":{"binary_data_size":8}},{"name":"t","shape":[2],"datatype":"BYTES","parameters":{"binary_data_size":12}}],"parameters":{"binary_data_output":true}}';
  const tensors = Buffer.from('\x00\x00\xc0?\x00\x00 @\x01\x00\x00\x00a\x03\x00\x00\x00bcd', 'latin1');
  const chosen =
    '{"inputs":[{"name":"x","shape":[1,2],"datatype":"FP32","parameters":{"binary_data_size":8}}],"outputs":[{"name":"double","parameters":{"binary_data":true}}]}';
  for (const [host, url] of await hosts()) {
    const all = await askInBinary(url, json, tensors, {});
    assert.deepEqual(
      all.head,
      {
        id: 'r1',
        model_name: 'double',
        model_version: '1',
        outputs: [
          { name: 'double', datatype: 'FP32', shape: [1, 2], parameters: { binary_data_size: 8 } },
          { name: 't', datatype: 'BYTES', shape: [2], parameters: { binary_data_size: 12 } },
          { name: 'form', datatype: 'BYTES', shape: [3], parameters: { binary_data_size: 12 + 12 + 7 + 3 } },
        ],
      },
      host,
    );
    assert.deepEqual([all.bytes.readFloatLE(0), all.bytes.readFloatLE(4)], [3, 5]);
    assert.deepEqual(all.bytes.subarray(8, 20), tensors.subarray(8));
    const one = await askInBinary(url, chosen, tensors.subarray(0, 8), { 'Content-Encoding': 'gzip' });
    assert.equal(one.bytes.length, 8);
  }
});

async function askInBinary(
  base: string,
  json: string,
  tensors: Buffer,
  headers: Readonly<Record<string, string>>,
): Promise<{ head: object; bytes: Buffer }> {
  const whole = Buffer.concat([Buffer.from(json), tensors]);
  const answer = await fetch(new URL('/triton/v2/models/double/infer', base), {
    method: 'POST',
    headers: { ...headers, 'Inference-Header-Content-Length': String(json.length) },
    body: new Uint8Array('Content-Encoding' in headers ? gzipSync(whole) : whole),
  });
  const bytes = Buffer.from(await answer.arrayBuffer());
  assert.equal(answer.status, 200, bytes.toString());
  const length = Number(answer.headers.get('Inference-Header-Content-Length'));
  return { head: JSON.parse(bytes.subarray(0, length).toString()) as object, bytes: bytes.subarray(length) };
}

test('the server and its models tell what they are, and whether they are ready', async () => {
  await red.deployReady(flows({ v2Path: '/' }));
  for (const [host, url] of await hosts()) {
    const server = (await ask(url, '/v2')).json as { name: string; extensions: string[] };
    assert.deepEqual([server.name, server.extensions], ['modelet', ['binary_tensor_data', 'sequence']], host);
    assert.deepEqual(await ask(url, '/v2/health/live'), { status: 200, json: { live: true } }, host);
    await until('all models are ready', async () => (await ask(url, '/v2/health/ready')).status === 200);
    assert.deepEqual((await ask(url, '/v2/models/double/versions/1/ready')).json, { name: 'double', ready: true });
    const { platform: _, ...model } = (await ask(url, '/v2/models/lone%2Fmean')).json as Record<string, unknown>;
    const outputs = [{ name: 'output', datatype: 'FP64', shape: [1] }];
    assert.deepEqual(model, { name: 'lone/mean', versions: ['1'], inputs: [], outputs }, host);
  }
});

test('outputs without elements have the type and the rank that the model promises', async () => {
  await red.deployReady(flows({ v2Path: '/' }));
  for (const [host, url] of await hosts()) {
    const { outputs } = (await ask(url, '/v2/models/found')).json as { outputs: object[] };
    assert.deepEqual(
      outputs,
      [
        { name: 'labels', datatype: 'BYTES', shape: [-1] },
        { name: 'boxes', datatype: 'FP64', shape: [-1, 4] },
      ],
      host,
    );
    const nothing = await ask(url, '/v2/models/found/infer', { inputs: [{ ...X, data: [0, 0] }] });
    assert.deepEqual((nothing.json as { outputs: object[] }).outputs, [
      { name: 'labels', datatype: 'BYTES', shape: [0], data: [] },
      { name: 'boxes', datatype: 'FP64', shape: [0, 4], data: [] },
    ]);
    const broken = await ask(url, '/v2/models/found/infer', { inputs: [X] });
    const error = 'the result lacks outputs that the model promises: "labels", "boxes"';
    assert.deepEqual(broken, { status: 500, json: { error } }, host);
  }
});

test('an ONNX stage tells its inputs and outputs, takes them by name, and gives them so', async () => {
  const path = '@modelet/node-red-pipeline/assets/models/digits.onnx';
  const onnx = { source: 'onnx', path };
  await red.deployReady([
    ...flows({ v2Path: '/' }),
    ...endpoint('/digits', 'batches'),
    batcher('batches', 'digits'),
    stage('digits', '', 'collector /digits', { ...onnx, init: '{"tensors": true}' }),
    ...endpoint('/plain', 'plain'),
    stage('plain', '', 'collector /plain', onnx),
  ]);
  const image = { name: 'image', datatype: 'FP32', shape: [-1, 8, 8] };
  for (const [host, url] of await hosts()) {
    for (const model of ['digits', 'plain']) {
      const { inputs, outputs } = (await ask(url, `/v2/models/${model}`)).json as Record<string, unknown>;
      assert.deepEqual([inputs, outputs], [[image], [{ name: 'scores', datatype: 'FP32', shape: [-1, 10] }]], host);
      for (const shape of [
        [1, 8, 8],
        [2, 8, 8],
        [8, 8],
      ]) {
        const rows = shape.length === 3 ? shape[0] : 1;
        const asked = { inputs: [{ ...image, shape, data: Array((rows as number) * 64).fill(0.5) }] };
        const { json } = await ask(url, `/v2/models/${model}/infer`, asked);
        const [output] = (json as { outputs: { name: string; datatype: string; shape: number[] }[] }).outputs;
        assert.deepEqual([output?.name, output?.datatype, output?.shape], ['scores', 'FP32', [rows, 10]], host);
      }
    }
  }
});

test('an ONNX stage with labels gives one for each row', async () => {
  const path = '@modelet/node-red-pipeline/assets/models/digits.onnx';
  const init = JSON.stringify({ labels: [...'0123456789'] });
  await red.deployReady([
    ...flows({ v2Path: '/' }),
    ...endpoint('/labelled', 'labelled'),
    stage('labelled', '', 'collector /labelled', { source: 'onnx', path, init }),
  ]);
  for (const [host, url] of await hosts()) {
    for (const rows of [1, 3]) {
      const image = { name: 'image', datatype: 'FP32', shape: [rows, 8, 8], data: Array(rows * 64).fill(0.5) };
      const { json } = await ask(url, '/v2/models/labelled/infer', { inputs: [image] });
      const { outputs } = json as { outputs: { name: string; datatype: string; shape: number[] }[] };
      const shapes = outputs.map(({ name, datatype, shape }) => [name, datatype, shape]);
      const scores = ['scores', 'FP64', rows === 1 ? [10] : [rows, 10]];
      const expected = [['label', 'BYTES', [rows]], ['index', 'FP64', [rows]], ['score', 'FP64', [rows]], scores];
      assert.deepEqual(shapes, expected, host);
    }
  }
});

test('a model whose workers cannot start is not ready', async () => {
  const broken = stage('broken', CODE, 'collector /broken', { setup: 'throw new Error("no");' });
  await red.deploy([...flows({ v2Path: '/' }), ...endpoint('/broken', 'broken'), broken]);
  for (const [host, url] of await hosts()) {
    await until('the other model is ready', async () => (await ask(url, '/v2/models/lone/mean/ready')).status === 200);
    const found = { status: 503, json: { name: 'broken', ready: false } };
    assert.deepEqual(await ask(url, '/v2/models/broken/ready'), found, host);
    assert.deepEqual(await ask(url, '/v2/health/ready'), { status: 503, json: { ready: false } }, host);
  }
});

test('an error has its status and one text', async () => {
  await red.deployReady(flows({ v2Path: '/' }));
  const refused: readonly (readonly [status: number, path: string, body: unknown, text: RegExp])[] = [
    [404, 'nothing/infer', { inputs: [X] }, /no model "nothing"/],
    [404, 'through/infer', { inputs: [X] }, /no model "through"/],
    [404, 'double/versions/2/infer', { inputs: [X] }, /of version "2"/],
    [404, 'double/stats', {}, /the extension "stats" of the model "double" is not supported/],
    [404, 'lone/mean/versions/1/trace/setting', {}, /"trace\/setting" of the model "lone\/mean" is not supported/],
    [404, '../repository/index', {}, /the extension "repository" is not supported/],
    [404, 'stats', {}, /the extension "models\/stats" is not supported/],
    [405, 'double/ready', { inputs: [X] }, /takes GET/],
    [400, 'double/infer', Buffer.from('{'), /not valid JSON/],
    [400, 'double/infer', { inputs: [] }, /at least one tensor/],
    [
      400,
      'double/infer',
      { inputs: [{ ...X, shape: [3] }] },
      /input "x": shape \[3\] has 3 elements, but the data has 2/,
    ],
    [
      400,
      'double/infer',
      { inputs: [{ ...X, datatype: 'FP8' }] },
      /input "x" needs one of these as its datatype: BOOL,/,
    ],
    [400, 'double/infer', { inputs: [X], outputs: [{ name: 'y' }] }, /no output "y"; the outputs are "double", "form"/],
    [400, 'double/infer', { inputs: [X], parameters: { sequence_id: 4 } }, /sequences are not supported, because/],
    [422, 'double/infer', { inputs: [{ ...X, name: 'fail' }] }, /^no thanks$/],
    [500, 'double/infer', { inputs: [{ ...X, name: 'y' }] }, /undefined/],
  ];
  for (const [host, url] of await hosts()) {
    for (const [status, path, body, text] of refused) {
      const answer = await ask(url, `/v2/models/${path}`, body);
      const { error, ...rest } = answer.json as { error: string };
      assert.deepEqual([answer.status, rest], [status, {}], `${host}: ${path}: ${error}`);
      assert.match(error, text);
    }
  }
});

test('a hook that comes after the deploy takes no request from a model', async (t) => {
  await red.deployReady(flows({ v2Path: '/' }));
  const { hooks } = red.red as unknown as {
    hooks: { add(name: string, hook: () => void): void; remove(name: string): void };
  };
  hooks.add('onReceive.test', () => {});
  t.after(() => hooks.remove('onReceive.test'));
  const { endpoints } = await red.snapshot();
  assert.ok(
    endpoints.every(({ reason }) => reason !== null),
    'requests go through the flow now',
  );
  assert.equal((await ask(red.url, '/v2/models/double/infer', { inputs: [X] })).status, 200);
});

test('without the setting, a deploy serves no model any more', async () => {
  await red.deployReady(flows({ v2Path: '/' }));
  const before = (await red.snapshot()).runtimes[0]?.engine.pid;
  await red.deploy(flows({}));
  for (const [host, url] of await hosts()) {
    assert.equal((await fetch(new URL('/v2', url))).status, 404, host);
    assert.equal((await fetch(new URL('/v2/models/double/infer', url), { method: 'POST' })).status, 404, host);
  }
  assert.equal((await red.snapshot()).runtimes[0]?.engine.pid, before, 'the engine goes on');
});

test('the headless runner serves the same models', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'modelet-v2-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const file = join(folder, 'flows.json');
  writeFileSync(file, JSON.stringify(flows({ v2Path: '/' })));
  const { url } = await serveFlows(t, file);
  const { status, json } = await ask(url, '/v2/models/lone/mean/infer', { inputs: [X] });
  assert.deepEqual([status, (json as { outputs: [{ data: number[] }] }).outputs[0].data], [200, [2]]);
});

test('a model takes a JSON body that the application of the editor has parsed', async (t) => {
  // HTTP-in nodes below the editor's root: every request passes the editor's application first.
  const adminAuth = { type: 'credentials', users: [], default: { permissions: '*' } };
  const process = await NodeRedProcess.start(flows({ v2Path: '/' }), { httpNodeRoot: '/admin', adminAuth });
  t.after(() => process.end());
  for (const headers of [AS_JSON, {}]) {
    const { status, json } = await ask(process.url, '/admin/v2/models/lone/mean/infer', { inputs: [X] }, headers);
    assert.deepEqual([status, (json as { outputs: [{ data: number[] }] }).outputs[0].data], [200, [2]]);
  }
  assert.equal((await ask(process.url, '/admin/v2/models/double/infer', { inputs: [] })).status, 400);
  // The editor's parser takes objects and arrays only; this value reaches the modelet, which wants another one.
  const { json } = await ask(process.url, '/admin/lone/mean', 5);
  assert.equal((json as { error: { code: string } }).error.code, 'modelet_failed');
});

test('nothing is served below the root of the editor in front of its login', async (t) => {
  const process = await NodeRedProcess.start(flows({ v2Path: '/admin' }));
  t.after(() => process.end());
  assert.equal((await fetch(`${process.url}/admin/v2`)).status, 404);
  assert.equal((await ask(process.url, '/double', { x: { data: [1] } })).status, 200, 'the endpoint itself is served');
});

test('a model asks for the same keys as its endpoint, except whether it is ready', async () => {
  await red.deployReady([...flows({ v2Path: '/', keys: 'keys' }), keysNode('keys', [{ name: 'app', key: 'the-key' }])]);
  for (const [name, url] of await hosts()) {
    const asked = { inputs: [X] };
    const statuses = async (headers: Readonly<Record<string, string>>): Promise<number[]> => {
      const infer = await ask(url, '/v2/models/double/infer', asked, { ...AS_JSON, ...headers });
      const about = await fetch(new URL('/v2/models/double', url), { headers });
      const ready = await fetch(new URL('/v2/models/double/ready', url), { headers });
      return [infer.status, about.status, ready.status];
    };
    assert.deepEqual(await statuses({}), [401, 401, 200], name);
    assert.deepEqual(await statuses({ 'X-API-Key': 'the-key' }), [200, 200, 200], name);
  }
});
