/** The examples with a dispatch gate, deployed as they are shipped, do what their comments say. */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { MockGateway } from '../../fixtures/mock-gateway.ts';
import { type FlowNode, useNodeRed } from '../../fixtures/node-red.ts';
import { until } from '../../fixtures/polling.ts';
import { Prometheus, promtool, WITHOUT_PROMETHEUS } from '../../fixtures/prometheus.ts';
import { repositoryRoot } from '../../fixtures/repository.ts';
import { NO_SQLITE } from '../../store/bed.ts';

const folder = join(repositoryRoot, 'examples');

const red = useNodeRed();

async function readExample(title: string): Promise<FlowNode[]> {
  return JSON.parse(await readFile(join(folder, `${title}.json`), 'utf8')) as FlowNode[];
}

function idOf(flow: readonly FlowNode[], name: string): string {
  const found = flow.filter((node) => node['name'] === name && node.type !== 'modelet-runtime');
  assert.equal(found.length, 1, name);
  return (found[0] as FlowNode).id;
}

describe('examples: dispatch gate for batch work', () => {
  let flow: FlowNode[];
  before(async () => {
    flow = await readExample('Dispatch gate for batch work');
    await red.deployReady(flow);
  });

  test('500 images wait in the gate, no more than 24 run at a time, and a request passes them', async () => {
    const gate = idOf(flow, 'batch work');
    const done = red.inputs(idOf(flow, 'count'));
    const most: number[] = [];
    await until('the gate is open', async () => (await red.gate(gate)).open);
    await red.press(idOf(flow, '500 images'));
    const image = Array.from({ length: 64 }, () => 0);
    const response = await red.post('/examples/gated/digits', { image });
    assert.equal(response.status, 200);
    assert.ok('digit' in ((await response.json()) as object));
    await until('all are done', async () => {
      most.push((await red.gate(gate)).inFlight);
      return done.length === 500;
    });
    assert.ok(Math.max(...most) <= 24, `${Math.max(...most)} at work`);
    const { decisions, lost } = await red.gate(gate);
    assert.equal(decisions.admitted + decisions.admitted_late, 500);
    assert.ok(decisions.admitted_late > 400, JSON.stringify(decisions));
    assert.equal(lost, 0);
  });

  test('the buttons send orders to the gate', async () => {
    const gate = idOf(flow, 'batch work');
    const turnedAway = red.inputs(idOf(flow, 'turned away'));
    await red.post(`/admin/inject/${idOf(flow, 'close')}`, {});
    await until('it is closed', async () => (await red.gate(gate)).control === 'close');
    await red.press(idOf(flow, '500 images'));
    await until('all wait', async () => (await red.gate(gate)).waiting === 500);
    await red.post(`/admin/inject/${idOf(flow, 'drop')}`, {});
    await until('all are turned away', () => turnedAway.length === 500);
    await red.post(`/admin/inject/${idOf(flow, 'auto')}`, {});
    await until('it is open', async () => (await red.gate(gate)).open);
  });
});

describe('examples: dispatch gate before an inference server', () => {
  let gateway: MockGateway;
  let flow: FlowNode[];
  before(async () => {
    gateway = await MockGateway.start({ 'token-ms': 1 });
    flow = (await readExample('Dispatch gate before an inference server')).map(
      (node) => JSON.parse(JSON.stringify(node).replaceAll('http://127.0.0.1:8000', gateway.url)) as FlowNode,
    );
    await red.deploy(flow);
  });
  after(() => gateway.stop());

  test('the server refuses none of 40 questions, and each gets an answer', async () => {
    const gate = idOf(flow, 'inference server');
    const shown = red.inputs(idOf(flow, 'answers'));
    await until('the gate is open', async () => (await red.gate(gate)).open);
    await red.press(idOf(flow, '40 questions'));
    await until('all are answered', () => shown.length === 40);
    assert.deepEqual({ ...(shown.at(-1)?.payload as object) }, { 200: 40 });
    assert.match(await gateway.metrics(), /gateway_requests_total\{code="429"\} 0\n/);
    const { inFlight, lost } = await red.gate(gate);
    assert.deepEqual([inFlight, lost], [0, 0]);
  });

  test('a question over HTTP gets the answer of the server', async () => {
    const response = await red.post('/examples/chat', { prompt: 'hello' });
    assert.equal(response.status, 200);
    const { choices } = (await response.json()) as { choices: { message: { content: string } }[] };
    assert.ok((choices[0]?.message.content.length ?? 0) > 0);
  });

  test('the gate sends nothing while the server is away, and the badge says why', async () => {
    await gateway.stop();
    const gate = idOf(flow, 'inference server');
    await until('the gate is closed', async () => !(await red.gate(gate)).open);
    await until('the badge says so', () => /^closed: /.test(red.badges.get(gate)?.text ?? ''));
    red.send(idOf(flow, 'as OpenAI has it'), { payload: { prompt: 'anybody?' } });
    await until('it waits', async () => (await red.gate(gate)).waiting === 1);
  });
});

describe('examples: dispatch gate by PromQL', { skip: WITHOUT_PROMETHEUS }, () => {
  test('the server refuses none of 40 questions, and each gets an answer', async (t) => {
    const gateway = await MockGateway.start({ 'token-ms': 1 });
    t.after(() => gateway.stop());
    const prometheus = await Prometheus.start({ gateway: `${gateway.url}/metrics` });
    t.after(() => prometheus.stop());
    const flow = (await readExample('Dispatch gate by PromQL')).map((node) => {
      const text = JSON.stringify(node).replaceAll('http://127.0.0.1:8000', gateway.url);
      return JSON.parse(text.replaceAll('http://127.0.0.1:9090', prometheus.url)) as FlowNode;
    });
    await red.deploy(flow);
    const gate = idOf(flow, 'inference server');
    const shown = red.inputs(idOf(flow, 'answers'));
    await until('the gate is open', async () => (await red.gate(gate)).open);
    await red.press(idOf(flow, '40 questions'));
    const most: number[] = [];
    await until('all are answered', async () => {
      most.push((await red.gate(gate)).inFlight);
      return shown.length === 40;
    });
    assert.deepEqual({ ...(shown.at(-1)?.payload as object) }, { 200: 40 });
    // max_SYS x (1 - B) = 8 x 0.9
    assert.ok(Math.max(...most) <= 7, `${Math.max(...most)} at a time`);
    assert.match(await gateway.metrics(), /gateway_requests_total\{code="429"\} 0\n/);
  });

  test('promtool accepts its configuration of Prometheus', () => {
    assert.equal(promtool(['check', 'config', join(repositoryRoot, 'assets', 'monitoring', 'mock-gateway.yml')]), '');
  });
});

describe('examples: asynchronous endpoint', { skip: NO_SQLITE }, () => {
  before(async () => red.deployReady(await readExample('Asynchronous endpoint')));

  test('answers 202 with the address of the result, which is there when the work is done', async () => {
    const posted = await red.post('/examples/jobs', { text: 'to be or not to be' });
    assert.equal(posted.status, 202);
    const { id } = (await posted.json()) as { id: string };
    const address = `${red.url}${posted.headers.get('location')}`;
    assert.equal((await fetch(address)).status, 202);
    const result = await until('it is done', async () => {
      const response = await fetch(address);
      return response.status === 200 && response.json();
    });
    assert.deepEqual(result, { id, state: 'done', result: { words: 6 } });
  });

  test('shows below "accepted" that the job of its button is on disk', async () => {
    const flow = await readExample('Asynchronous endpoint');
    const [button = '', accepted = ''] = ['a text', 'accepted'].map(
      (wanted) => flow.find(({ name }) => name === wanted)?.id,
    );
    await red.press(button);
    await until('it shows it', () => red.badges.get(accepted)?.text);
    assert.equal(red.badges.get(accepted)?.text, 'pending');
  });

  test('answers 422 for invalid work, and 410 for work that was cancelled before it began', async () => {
    const ids: string[] = [];
    for (const text of ['one', 'two', 'three', '']) {
      const response = await red.post('/examples/jobs', { text });
      ids.push(((await response.json()) as { id: string }).id);
    }
    const [, , third, empty] = ids;
    const cancelled = await fetch(`${red.url}/examples/jobs/${third}`, { method: 'DELETE' });
    assert.deepEqual(await cancelled.json(), { id: third, state: 'cancelled' });
    assert.equal((await fetch(`${red.url}/examples/jobs/${third}`)).status, 410);
    const refused = await until('the empty one has failed', async () => {
      const response = await fetch(`${red.url}/examples/jobs/${empty}`);
      return response.status === 422 && response.json();
    });
    assert.deepEqual(refused, {
      id: empty,
      state: 'failed',
      error: { code: 'invalid_input', message: 'text is missing' },
    });
  });
});
