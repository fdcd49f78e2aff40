/**
 * Deploys that take away the way to a client's answer. The runtime has no time-out here and nothing that holds a message
 * lets go of it before the end, so each answer is given because of the deploy.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type ClientRequest, createServer, request, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, before, beforeEach, describe, test } from 'node:test';
import { catchNode, dispatchGate, func, httpIn, httpOut, node, runtime, stage, TAB } from '../fixtures/flow.ts';
import { Gate } from '../fixtures/gate.ts';
import { type DeployType, type FlowNode, NodeRed, until } from '../fixtures/node-red.ts';

const CLIENTS = 9;
const TYPES: readonly DeployType[] = ['full', 'flows', 'nodes'];
const HOUR = { pauseType: 'delay', timeout: '1', timeoutUnits: 'hours', outputs: 1 };
const COMMENT: FlowNode = { id: 'another', type: 'tab', label: 'another' };

let nodeRed: NodeRed;
let gate: Gate;
let upstream: Server;
/** Requests that the server has got and does not answer. */
let asked = 0;
const entered = { count: 0 };

before(async () => {
  gate = await Gate.create();
  upstream = createServer(() => {
    asked += 1;
  });
  upstream.listen(0, '127.0.0.1');
  await once(upstream, 'listening');
  nodeRed = await NodeRed.start({ functionGlobalContext: { entered } });
});
after(async () => {
  await gate.open();
  upstream.closeAllConnections();
  upstream.close();
  await nodeRed.stop();
  await gate.remove();
});
beforeEach(async () => {
  await gate.close();
  asked = 0;
  entered.count = 0;
});

function pass(id: string, to: string): FlowNode {
  return stage(id, 'return input;', to);
}

function waiting(code: string): FlowNode {
  return func('holds', `global.get('entered').count += 1; ${code} return msg;`, 'on');
}

function endpointThrough(...nodes: FlowNode[]): FlowNode[] {
  return [
    TAB,
    COMMENT,
    runtime('runtime', { timeoutMs: '0' }),
    httpIn('in', '/answer', 'first'),
    pass('first', 'holds'),
    ...nodes,
    pass('on', 'last'),
    func('last', 'return msg;', 'out'),
    httpOut('out'),
  ];
}

interface Holder {
  readonly name: string;
  readonly node: () => FlowNode;
  readonly holds: () => Promise<boolean> | boolean;
}

const HOLDERS: readonly Holder[] = [
  {
    name: 'in a stage',
    node: () => stage('holds', gate.code(), 'on', { workers: String(CLIENTS) }),
    holds: async () => (await gate.entered()).length === CLIENTS,
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

/** Requests that the first stage is through with. */
async function passed(): Promise<number> {
  const stages = (await nodeRed.snapshot()).runtimes[0]?.stages ?? [];
  return stages.find(({ name }) => name === 'first')?.items ?? 0;
}

type Change = (flows: readonly FlowNode[]) => FlowNode[];

function edited(id: string, properties: object): Change {
  return (flows) => flows.map((one) => (one.id === id ? { ...one, ...properties } : one));
}

const CHANGES: readonly [string, Change][] = [
  ['the HTTP response is deployed away', (flows) => flows.filter(({ id }) => id !== 'out')],
  ['the last wire is deployed away', edited('last', { wires: [[]] })],
  ['the tab is disabled', edited(TAB.id, { disabled: true })],
  ['the tab is deployed away', (flows) => flows.filter(({ id, z }) => id !== TAB.id && z !== TAB.id)],
];

async function codeOf(answer: Response): Promise<string> {
  const { error } = (await answer.json()) as { error?: { code: string } };
  return `${answer.status} ${error?.code}`;
}

describe('a client gets its answer at once', () => {
  for (const type of TYPES) {
    for (const [change, make] of CHANGES) {
      test(`${type}: wherever its message is when ${change}`, async () => {
        for (const { name, node: holder, holds } of HOLDERS) {
          const flows = endpointThrough(holder());
          await nodeRed.deploy([TAB]);
          await nodeRed.deploy(flows);
          await nodeRed.whenReady();
          const answers = Array.from({ length: CLIENTS }, () => nodeRed.post('/answer', { n: 1 }));
          await until(`the messages are ${name}`, holds);
          await nodeRed.deploy(make(flows), type);
          const codes = await Promise.all(answers.map(async (answer) => codeOf(await answer)));
          assert.deepEqual(codes, new Array(CLIENTS).fill('503 shutting_down'), name);
          await gate.close();
          asked = 0;
          entered.count = 0;
        }
      });
    }
  }
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
    await nodeRed.deploy(FLOWS);
    await nodeRed.whenReady();
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

    test(`${type}: it goes on to the stage where the HTTP-in node was deployed away`, async () => {
      const { answer, finish } = await started();
      await nodeRed.deploy(
        FLOWS.filter(({ id }) => id !== 'in'),
        type,
      );
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
