/**
 * Deploys that take away the way to a client's answer. The runtime has no time-out here and nothing that holds a message
 * lets go of it before the end, so each answer is given because of the deploy.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type ClientRequest, createServer, request, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, beforeEach, describe, test } from 'node:test';
import {
  catchNode,
  collector,
  dispatchGate,
  func,
  httpIn,
  httpOut,
  node,
  runtime,
  stage,
  TAB,
} from '../../fixtures/flow.ts';
import { useGate } from '../../fixtures/gate.ts';
import { type DeployType, type FlowNode, useNodeRed } from '../../fixtures/node-red.ts';
import { until } from '../../fixtures/polling.ts';

const CLIENTS = 9;
const TYPES: readonly DeployType[] = ['full', 'flows', 'nodes'];
const HOUR = { pauseType: 'delay', timeout: '1', timeoutUnits: 'hours', outputs: 1 };
const COMMENT: FlowNode = { id: 'another', type: 'tab', label: 'another' };

let upstream: Server;
/** Requests that the server has got and does not answer. */
let asked = 0;
const entered: { count: number; release?: (() => void) | undefined } = { count: 0 };

// Before Node-RED stops, which waits for what is held.
after(() => gate.open());
const nodeRed = useNodeRed({
  settings: { functionGlobalContext: { entered } },
  prepare: async () => {
    upstream = createServer(() => {
      asked += 1;
    });
    upstream.listen(0, '127.0.0.1');
    await once(upstream, 'listening');
  },
});
const gate = useGate();
after(() => {
  upstream.closeAllConnections();
  upstream.close();
});
beforeEach(() => {
  asked = 0;
  entered.count = 0;
  entered.release = undefined;
});

function pass(id: string, to: string | readonly string[]): FlowNode {
  return stage(id, 'return input;', to, { isolation: 'thread', workers: '1' });
}

function waiting(code: string): FlowNode {
  return func('holds', `global.get('entered').count += 1; ${code} return msg;`, 'on');
}

interface Holder {
  readonly name: string;
  readonly node: () => FlowNode;
  /** Whether all messages are there. */
  readonly holds: () => Promise<boolean> | boolean;
}

const HOLDERS: readonly Holder[] = [
  {
    name: 'in a stage',
    node: () => stage('holds', gate.code(), 'on'),
    holds: async () => (await nodeRed.snapshot()).runtimes[0]?.backlog === CLIENTS && (await gate.entered()).length > 0,
  },
  {
    name: 'in a closed gate',
    node: () => dispatchGate('holds', 'on', [], { maxSys: '0' }),
    holds: async () => (await nodeRed.gate('holds')).waiting === CLIENTS,
  },
  {
    name: 'in a delay',
    node: () => node('holds', 'delay', ['on'], HOUR),
    holds: async () => (await passed()) === CLIENTS,
  },
  {
    name: 'in a function that waits for a timer',
    node: () => waiting('await new Promise((resolve) => setTimeout(resolve, 3_600_000));'),
    holds: () => entered.count === CLIENTS,
  },
  {
    name: 'in a function that waits for something else',
    node: () => waiting('await new Promise(() => {});'),
    holds: () => entered.count === CLIENTS,
  },
  {
    name: 'at a server that is asked',
    node: () => {
      const url = `http://127.0.0.1:${(upstream.address() as AddressInfo).port}`;
      return node('holds', 'http request', ['on'], { method: 'POST', ret: 'obj', paytoqs: 'ignore', url, headers: [] });
    },
    holds: () => asked === CLIENTS,
  },
];

function endpointThrough({ node: holder }: Holder): FlowNode[] {
  return [
    TAB,
    COMMENT,
    runtime('runtime', { timeoutMs: '0' }),
    httpIn('in', '/answer', 'first'),
    pass('first', 'holds'),
    holder(),
    pass('on', 'last'),
    func('last', 'return msg;', 'out'),
    httpOut('out'),
  ];
}

/** Requests that the first stage is through with. */
async function passed(): Promise<number> {
  const stages = (await nodeRed.snapshot()).runtimes[0]?.stages ?? [];
  return stages.find(({ name }) => name === 'first')?.items ?? 0;
}

type Change = (flows: readonly FlowNode[]) => FlowNode[];

function edited(id: string, properties: object): Change {
  return (flows) => flows.map((one) => (one.id === id ? { ...one, ...properties } : one));
}

function without(gone: string): Change {
  return (flows) => flows.filter(({ id }) => id !== gone);
}

const CHANGES: readonly [string, Change][] = [
  ['the HTTP response is deployed away', without('out')],
  ['the last wire is deployed away', edited('last', { wires: [[]] })],
  ['the tab is disabled', edited(TAB.id, { disabled: true })],
  ['the tab is deployed away', (flows) => flows.filter(({ id, z }) => id !== TAB.id && z !== TAB.id)],
];

async function codeOf(answer: Response): Promise<string> {
  const { error } = (await answer.json()) as { error?: { code: string } };
  return `${answer.status} ${error?.code}`;
}

describe('a client gets its answer at once', () => {
  for (const holder of HOLDERS) {
    test(`when its message is ${holder.name}, however its way is deployed away`, async () => {
      const flows = endpointThrough(holder);
      for (const [round, [change, make]] of CHANGES.entries()) {
        await nodeRed.deploy([TAB]);
        await gate.close();
        asked = 0;
        entered.count = 0;
        await nodeRed.deployReady(flows);
        const answers = Array.from({ length: CLIENTS }, () => nodeRed.post('/answer', { n: 1 }));
        await until(`the messages are ${holder.name}`, holder.holds);
        // Each of them by another kind of deploy for each holder.
        const type = TYPES[(round + HOLDERS.indexOf(holder)) % TYPES.length];
        await nodeRed.deploy(make(flows), type);
        const codes = await Promise.all(answers.map(async (answer) => codeOf(await answer)));
        assert.deepEqual(codes, new Array(CLIENTS).fill('503 shutting_down'), `${change}, ${type}`);
      }
    });
  }
});

describe('a result that waits for an earlier one', () => {
  const flows = (results: readonly FlowNode[]): FlowNode[] => [
    ...[TAB, runtime('runtime', { timeoutMs: '0' }), httpIn('in', '/answer', 'holds'), httpOut('out')],
    stage('holds', `if (input.n > 1) return input; ${gate.code()}`, results[0]?.id ?? 'out', { workers: '2' }),
    ...results,
  ];

  for (const type of TYPES) {
    test(`${type}: its client hears at once that the collector was deployed away`, async () => {
      await nodeRed.deploy([TAB]);
      await gate.close();
      await nodeRed.deployReady(flows([collector('collects', 'out', [], { order: 'arrival' })]));
      const collected = nodeRed.inputs('collects');
      const first = nodeRed.post('/answer', { n: 1 });
      await until('the first is at work', async () => (await gate.entered()).length === 1);
      const second = nodeRed.post('/answer', { n: 2 });
      await until('the second waits at the collector', () => collected.length === 1);
      await nodeRed.deploy(flows([]), type);
      assert.equal(await codeOf(await second), '503 shutting_down');
      await gate.open();
      assert.equal((await first).status, 200);
    });
  }
});

describe('a deploy that takes away only some ways', () => {
  /** Two branches, in one of which a function lets go of a message when `release` is called. */
  const branches = (): FlowNode[] => [
    TAB,
    runtime('runtime', { timeoutMs: '0' }),
    httpIn('in', '/answer', 'first'),
    pass('first', ['holds', 'other']),
    func('other', 'if (msg.payload.n === 2) return msg;', 'other out'),
    httpOut('other out'),
    func('holds', `await new Promise((resolve) => { global.get('entered').release = resolve; }); return msg;`, 'out'),
    httpOut('out'),
    // No part of the pipeline, on the same tab.
    httpIn('aside', '/aside', 'waits'),
    func('waits', `global.get('entered').count += 1; await new Promise(() => {}); return msg;`, 'aside out'),
    httpOut('aside out'),
  ];

  async function held(): Promise<{ answer: Promise<Response> }> {
    await nodeRed.deploy([TAB]);
    await nodeRed.deployReady(branches());
    const answer = nodeRed.post('/answer', { n: 1 });
    await until('the message is held', () => entered.release !== undefined);
    return { answer };
  }

  for (const [change, make] of [
    ['its wire', edited('holds', { wires: [[]] })],
    ['its response', without('out')],
    ['its function and its response', (flows) => without('out')(without('holds')(flows))],
  ] as [string, Change][]) {
    for (const type of TYPES) {
      test(`${type}: a client hears as its message moves that ${change} was deployed away`, async () => {
        const { answer } = await held();
        await nodeRed.deploy(make(branches()), type);
        await nodeRed.deploy([...make(branches()), COMMENT], type);
        entered.release?.();
        assert.equal(await codeOf(await answer), '503 shutting_down');
      });
    }
  }

  test('a client of another endpoint of the tab hears at once that its response was deployed away', async () => {
    await nodeRed.deploy([TAB]);
    await nodeRed.deploy(branches());
    const answer = nodeRed.post('/aside', {});
    await until('the message is held', () => entered.count === 1);
    await nodeRed.deploy(without('aside out')(branches()), 'nodes');
    assert.equal(await codeOf(await answer), '503 shutting_down');
  });

  test('a function that begins messages by itself ends with its deploy, even if clients wait', async () => {
    const beats: number[] = [];
    Object.assign(entered, { beats });
    const flows = (version: number): FlowNode[] => {
      const initialize = `const beat = () => {
        global.get('entered').beats.push(${version});
        node.send({ payload: 1 });
        setTimeout(beat, 2);
      };
      beat();`;
      return [...branches(), { ...func('source', '', 'first'), initialize }];
    };
    await nodeRed.deploy([TAB]);
    await nodeRed.deployReady(flows(1));
    const answer = nodeRed.post('/aside', {});
    await until('a client waits', () => entered.count === 1);
    await nodeRed.deploy(flows(2));
    const old = beats.filter((version) => version === 1).length;
    await until('the new one works', () => beats.filter((version) => version === 2).length > 50);
    assert.equal(beats.filter((version) => version === 1).length, old);
    await nodeRed.deploy([TAB]);
    assert.equal((await answer).status, 503);
  });
});

describe('a body that is still arriving', () => {
  const FLOWS: FlowNode[] = [
    TAB,
    COMMENT,
    runtime('runtime', { timeoutMs: '0' }),
    httpIn('in', '/answer', 'first'),
    pass('first', 'out'),
    httpOut('out'),
    catchNode('catch', 'out'),
  ];

  /** Sends half of a body; resolves when Node-RED is reading it. */
  async function begin(): Promise<{ client: ClientRequest; answer: Promise<string>; finish: () => void }> {
    const body = JSON.stringify({ n: 1 });
    const headers = { 'Content-Type': 'application/json', 'Content-Length': body.length, Expect: '100-continue' };
    const client = request(`${nodeRed.url}/answer`, { method: 'POST', headers, agent: false });
    const answer = new Promise<string>((resolve, reject) => {
      client.on('error', reject);
      client.on('response', (response) => {
        let text = '';
        response.on('data', (part) => {
          text += part;
        });
        response.on('end', () => resolve(`${response.statusCode} ${text}`));
      });
    });
    client.flushHeaders();
    await once(client, 'continue');
    client.write(body.slice(0, 3));
    return { client, answer, finish: () => client.end(body.slice(3)) };
  }

  async function started(): Promise<ReturnType<typeof begin>> {
    await nodeRed.deploy([TAB]);
    await nodeRed.deployReady(FLOWS);
    return await begin();
  }

  for (const type of TYPES) {
    test(`${type}: its client hears at once that the tab was disabled`, async () => {
      const { answer, client } = await started();
      await nodeRed.deploy(edited(TAB.id, { disabled: true })(FLOWS), type);
      assert.match(await answer, /^503 .*shutting_down/);
      client.destroy();
    });

    test(`${type}: it goes to the HTTP-in node that has taken the place of the old`, async () => {
      const { answer, finish } = await started();
      await nodeRed.deploy(edited('in', { name: 'new' })(FLOWS), type);
      finish();
      assert.equal(await answer, '200 {"n":1}');
    });

    test(`${type}: it goes on to the stage if the HTTP-in node was deployed away`, async () => {
      const { answer, finish } = await started();
      await nodeRed.deploy(without('in')(FLOWS), type);
      finish();
      assert.equal(await answer, '200 {"n":1}');
    });

    test(`${type}: its client hears at once that the stage was disabled`, async () => {
      const { answer, client } = await started();
      await nodeRed.deploy(edited('first', { d: true })(FLOWS), type);
      assert.match(await answer, /^503 .*shutting_down/);
      client.destroy();
    });
  }
});
