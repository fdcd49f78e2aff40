/**
 * Deploys while clients post to flows of many shapes: whatever nodes a deploy replaces around a pipeline, and whatever
 * these have to do with a message at that moment, each client gets the answer to its own request.
 */
import assert from 'node:assert/strict';
import { Agent, createServer, request, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { after, describe, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { runtime, sink } from '../../fixtures/flow.ts';
import { type DeployType, type FlowNode, useNodeRed } from '../../fixtures/node-red.ts';
import { PATIENCE_MS, until } from '../../fixtures/polling.ts';
import { flowsOf, QUICK_START, SHAPES } from '../../fixtures/shapes.ts';

const IN_FLIGHT = 64;
/** The long form gives all clients to each of a few shapes at once; the short one spreads them over all shapes. */
const LONG = process.env['TEST_FULL'] === '1';
const SHAPES_AT_ONCE = 5;
/** Deploys while clients are spread over all shapes, and while a few shapes have all clients each. */
const DEPLOYS = 4;
const DEPLOYS_OF_FEW = 2;
const PAUSE_MS = 200;
/** The clients of several shapes keep a slow machine busy for minutes. A message that is lost has its answer after this time. */
const LIMIT_MS = 2 * PATIENCE_MS;

interface Endpoint {
  readonly name: string;
  readonly path: string;
  readonly body: (n: number) => object;
  readonly isAnswer: (n: number, body: unknown) => boolean;
}

const IMAGE =
  '{"image":[0,1,11,16,11,0,0,0,0,10,14,11,16,0,0,0,0,14,5,6,15,0,0,0,0,3,1,11,14,3,1,0,0,2,13,16,16,16,9,0,0,2,14,16,5,4,2,0,0,0,11,11,0,0,0,0,0,0,16,3,0,0,0,0]}';

const ENDPOINTS: readonly Endpoint[] = [
  {
    name: 'the quick start',
    path: '/predict/digits',
    body: () => JSON.parse(IMAGE) as object,
    isAnswer: (_, body) => (body as { digit?: unknown }).digit === 7,
  },
  ...SHAPES.map(({ name }, place): Endpoint => {
    const isAnswer = (n: number, body: unknown): boolean => (body as { n?: unknown }).n === 2 * n;
    return { name, path: `/${place}`, body: (n) => ({ n }), isAnswer };
  }),
];

describe('deploys of flows of many shapes', () => {
  const red = useNodeRed({
    // Its hooks would look like those of a deploy.
    settings: { modeletWatchFunctions: false },
    prepare: async () => {
      upstream = createServer((asked, response) => {
        setTimeout(() => {
          response.setHeader('Content-Type', 'application/json');
          asked.pipe(response);
        }, 20 * Math.random());
      });
      // On a busy machine, it would close an idle connection just when Node-RED sends its next request on it.
      upstream.keepAliveTimeout = 0;
      await new Promise<void>((resolve) => upstream.listen(0, '127.0.0.1', resolve));
      const url = `http://127.0.0.1:${(upstream.address() as AddressInfo).port}`;
      const limit = { timeoutMs: String(LIMIT_MS) };
      flows = [
        ...QUICK_START,
        runtime('runtime', limit),
        ...SHAPES.flatMap((shape, place) => flowsOf(shape, place, url)),
      ];
    },
    flows: () => flows,
  });
  let upstream: Server;
  let flows: readonly FlowNode[];
  const agent = new Agent({ keepAlive: true });

  after(async () => {
    agent.destroy();
    upstream.close();
  });

  /** Says where requests are that have not been answered: those that the runtimes have open, and those in queues or runs. */
  async function whereabouts(): Promise<string> {
    const { runtimes } = await red.snapshot();
    const told = runtimes.map(({ id, backlog, lateOutcomes, stages }) => {
      const busy = stages.filter(({ queue, busy }) => queue + busy > 0);
      return { id, backlog, lateOutcomes, stages: busy.map(({ name, queue, busy }) => ({ name, queue, busy })) };
    });
    return JSON.stringify(told);
  }

  /** Resolves with anything that is not the answer, in words. */
  function post({ path, body, isAnswer, name }: Endpoint, n: number): Promise<string[]> {
    return new Promise((resolve) => {
      const wrong = (text: string): void => resolve([`${name}, request ${n}: ${text}`]);
      const headers = { 'Content-Type': 'application/json' };
      const sent = request(`${red.url}${path}`, { agent, method: 'POST', headers }, (response) => {
        const parts: Buffer[] = [];
        response.on('data', (part: Buffer) => parts.push(part));
        response.on('end', () => {
          clearTimeout(patience);
          const text = Buffer.concat(parts).toString();
          const isRight = response.statusCode === 200 && isAnswer(n, JSON.parse(text));
          if (isRight) resolve([]);
          else wrong(`${response.statusCode} ${text}`);
        });
      });
      const patience = setTimeout(
        async () => sent.destroy(new Error(`no answer; ${await whereabouts()}`)),
        LIMIT_MS + PATIENCE_MS,
      );
      sent.on('error', (error) => {
        clearTimeout(patience);
        wrong(error.message);
      });
      sent.end(JSON.stringify(body(n)));
    });
  }

  /** Posts from all clients to the endpoints in turn until `work` is done. Resolves with all that is wrong, in words. */
  async function foundUntil(work: Promise<void>, endpoints: readonly Endpoint[]): Promise<string[]> {
    const wrong: string[] = [];
    let next = 0;
    let working = true;
    const client = async (): Promise<void> => {
      while (working) {
        next += 1;
        wrong.push(...(await post(endpoints[next % endpoints.length] as Endpoint, next)));
      }
    };
    const clients = Array.from({ length: IN_FLIGHT }, client);
    try {
      await work;
      await until('a client has asked twice', () => next > IN_FLIGHT);
    } finally {
      working = false;
    }
    await Promise.all(clients);
    return wrong;
  }

  /** Posts from all clients to each of the endpoints until `work` is done. */
  function foundOfEach(endpoints: readonly Endpoint[], work: Promise<void>): Map<Endpoint, Promise<string[]>> {
    const found = new Map(endpoints.map((endpoint) => [endpoint, foundUntil(work, [endpoint])]));
    // Each test that awaits one gets a failure.
    for (const one of found.values()) one.catch(() => {});
    return found;
  }

  /** Changes something in nodes, so that each is replaced and does the same. */
  function replaced(round: number, isChosen: (place: number) => boolean = () => true): FlowNode[] {
    return flows.map((node, place) => (node['z'] && isChosen(place) ? { ...node, info: `round ${round}` } : node));
  }

  function partlyReplaced(round: number): FlowNode[] {
    return replaced(round, (place) => place % 3 === round % 3);
  }

  /** Wires a node that looks on to nodes of each tab, or takes it away: that replaces none. */
  function rewired(round: number): FlowNode[] {
    if (round % 2 === 0) return [...flows];
    const looksOn = (tab: unknown): string => `looks on in ${tab}`;
    const tabs = flows.filter(({ type }) => type === 'tab').map(({ id }) => id);
    const sinks = tabs.map((id) => ({ ...sink(looksOn(id)), z: id }));
    const wired = flows.map((node) => {
      const wires = (node['wires'] ?? []) as string[][];
      // A batcher has one wire.
      const isFit = wires.length > 0 && !['link out', 'modelet-batcher'].includes(node.type);
      const isWired = isFit && tabs.includes(String(node['z']));
      return isWired ? { ...node, wires: wires.map((to) => [...to, looksOn(node['z'])]) } : node;
    });
    return [...wired, ...sinks];
  }

  async function deployRepeatedly(
    rounds: number,
    type: DeployType,
    make: (round: number) => readonly FlowNode[],
  ): Promise<void> {
    for (let round = 1; round <= rounds; round += 1) {
      await pause(PAUSE_MS);
      await red.deploy(make(round), type);
    }
    await pause(PAUSE_MS);
  }

  /** With these the clients are spread over the shapes in the long form too. */
  const SPREAD: unknown[] = [partlyReplaced, rewired];
  const WAYS: readonly [string, DeployType, (round: number) => readonly FlowNode[]][] = [
    ['a Full deploy of unchanged flows', 'full', () => flows],
    ['Modified flows, with every node replaced', 'flows', replaced],
    ['Modified nodes, with every node replaced', 'nodes', replaced],
    ['Modified nodes, with every third node replaced', 'nodes', partlyReplaced],
    ['Modified flows, with every third node replaced', 'flows', partlyReplaced],
    ['Modified nodes, with other wires', 'nodes', rewired],
    ['a restart of the flows', 'reload', () => flows],
  ];
  for (const [name, type, make] of WAYS) {
    const testName = (shapes: string): string => `${name} answers every client of ${shapes} with its own result`;
    if (!LONG || SPREAD.includes(make)) {
      test(testName('all shapes'), async () => {
        assert.deepEqual(await foundUntil(deployRepeatedly(DEPLOYS, type, make), ENDPOINTS), []);
      });
      continue;
    }
    for (let first = 0; first < ENDPOINTS.length; first += SHAPES_AT_ONCE) {
      const few = ENDPOINTS.slice(first, first + SHAPES_AT_ONCE);
      let found: Map<Endpoint, Promise<string[]>> | null = null;
      for (const endpoint of few) {
        test(testName(endpoint.name), async () => {
          found ??= foundOfEach(few, deployRepeatedly(DEPLOYS_OF_FEW, type, make));
          assert.deepEqual(await found.get(endpoint), []);
        });
      }
    }
  }

  test('between deploys no message passes through a hook', async () => {
    const { hooks } = red.red as unknown as { hooks: { has(name: string): boolean } };
    const isHooked = (): boolean => ['onSend', 'onReceive', 'onComplete'].some((name) => hooks.has(name));
    let wasHooked = false;
    red.red.events.once('flows:stopped', () => {
      wasHooked = isHooked();
    });
    assert.equal(isHooked(), false);
    await red.deploy(flows);
    assert.equal(wasHooked, true);
    await red.whenReady();
    assert.equal(isHooked(), false);
  });
});
