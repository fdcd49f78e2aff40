/** A Node-RED in a separate process, with two-stage requests over HTTP and others beside them. */
import assert from 'node:assert/strict';
import { request } from 'node:http';
import { after, before } from 'node:test';
import { batcher, endpoint, func, runtime, stage, TAB } from '../fixtures/flow.ts';
import type { FlowNode } from '../fixtures/node-red.ts';
import { NodeRedProcess } from '../fixtures/node-red-process.ts';
import { until } from '../fixtures/polling.ts';
import { allGone, killStarted } from '../fixtures/processes.ts';
import { BATCH, type Bed, type Fault, type FaultGroup, testFaults } from './fault.ts';
import { Load, type Reply } from './load.ts';
import { measure, type Resources } from './resources.ts';

const LANES = 8;
const LANES_BESIDE = 2;
/** More than a request takes on a busy machine behind 50,000 others. */
const TIMEOUT_MS = 600_000;
/** Longer than the runtime takes to answer what has expired. */
const ANSWER_MS = 2 * TIMEOUT_MS;
/** A server of Node.js closes a connection from which it has read no head for so long, also if it was too busy to read. */
const UNREAD_MS = 60_000;

export type NodeRedFault = Fault<NodeRedBed>;

/** `version` changes the code of the second stage. */
export function pipelineFlows(version = 0): FlowNode[] {
  return [
    TAB,
    runtime('runtime', { timeoutMs: String(TIMEOUT_MS) }),
    ...endpoint('/model', 'prepare'),
    stage('prepare', 'return input;', 'batch'),
    batcher('batch', 'model', { maxBatchSize: BATCH }),
    stage('model', `return { ...input, version: ${version} };`, 'collector /model', { workers: '2' }),
    ...endpoint('/beside', 'alone'),
    stage('alone', 'return input;', 'collector /beside'),
  ];
}

/** The event elsewhere in the flow that a post to `url` causes. */
export function elsewhere(url: string, code: string): FlowNode[] {
  return [...endpoint(url, `func ${url}`), func(`func ${url}`, `${code}\nreturn msg;`, `collector ${url}`)];
}

/** Counts, where `clientsThatLeave` is in the flow, the requests whose clients may not wait for their answers. */
export const LEFT = 'left';

/** A second way into the pipeline, for clients that do not tell how their requests ended. */
export function clientsThatLeave(): FlowNode[] {
  const [httpIn] = endpoint('/left', 'count');
  const code = `flow.set('${LEFT}', (flow.get('${LEFT}') ?? 0) + 1);\nreturn msg;`;
  return [httpIn as FlowNode, func('count', code, 'prepare')];
}

type Counts = Readonly<Record<string, number>>;

/** The counts of a Node-RED since its start. */
interface Tally {
  /** Requests that have settled, by how they ended. */
  readonly settled: Counts;
  /** Requests, settled or on their way, whose clients do not report an outcome. */
  readonly left: number;
}

export class NodeRedBed implements Bed {
  readonly red: NodeRedProcess;
  readonly load: Load;
  readonly beside: Load;
  /** Before the load, in the life of this Node-RED; null where it has been started anew. */
  #before: Tally | null;
  readonly #noted: Record<string, number> = {};

  private constructor(red: NodeRedProcess, before: Tally) {
    this.red = red;
    this.#before = before;
    this.load = new Load(LANES, (n) => this.post('/model', { n }));
    this.beside = new Load(LANES_BESIDE, (n) => this.post('/beside', { n }));
  }

  /** With its own load; the Node-RED may have served before. */
  static async on(red: NodeRedProcess): Promise<NodeRedBed> {
    return new NodeRedBed(red, await tallyOf(red));
  }

  /** Starts Node-RED again after it has ended, as a service manager would. */
  async startAgain(): Promise<void> {
    this.#before = null;
    await this.red.start();
  }

  async resources(): Promise<Resources> {
    const { runtimes } = await this.red.snapshot();
    return measure(
      runtimes.flatMap(({ backlog, stages }) => [backlog, ...stages.map(({ queue, busy }) => queue + busy)]),
    );
  }

  ready(): Promise<unknown> {
    return this.red.whenReady();
  }

  /** Requests that the fault itself has sent, by how they ended. */
  note(code: string, requests = 1): void {
    this.#noted[code] = (this.#noted[code] ?? 0) + requests;
  }

  async assertAllCounted(): Promise<void> {
    if (this.#before === null) return;
    const seen = sum([this.load.counts, this.beside.counts, this.#noted, this.#before.settled]);
    const leftBefore = this.#before.left;
    // No event tells when the last request whose sender did not wait has been noticed.
    const { settled, left } = await until('each request has settled', async () => {
      const tally = await tallyOf(this.red);
      return total(tally.settled) >= total(seen) + tally.left - leftBefore && tally;
    });
    const untold = left - leftBefore;
    assert.equal(total(settled), total(seen) + untold, 'each request settled exactly once');
    for (const [code, count] of Object.entries(seen)) {
      const found = settled[code] ?? 0;
      assert.ok(found >= count && found <= count + untold, `${code}: clients saw ${count}, it counted ${found}`);
    }
  }

  /**
   * One request, on a separate connection, and how it ended: `connection lost` where no answer came. A connection
   * that is kept may be closed by the server just when the next request is sent. Posts anew what was never read.
   */
  post(path: string, body: object): Promise<Reply> {
    const startedAt = performance.now();
    return new Promise((resolve) => {
      const headers = { 'Content-Type': 'application/json' };
      const options = { method: 'POST', agent: false, headers, timeout: ANSWER_MS };
      const sent = request(`${this.red.url}${path}`, options, (response) => {
        let text = '';
        response.on('data', (chunk) => {
          text += chunk;
        });
        response.on('error', () => resolve({ code: 'connection lost' }));
        response.on('end', () => resolve(replyOf(response.statusCode, text)));
      });
      sent.on('timeout', () => sent.destroy(new Error('no answer')));
      sent.on('error', ({ message }) => {
        if (message === 'no answer') resolve({ code: message });
        else if (performance.now() - startedAt >= UNREAD_MS) resolve(this.post(path, body));
        else resolve({ code: 'connection lost' });
      });
      sent.end(JSON.stringify(body));
    });
  }
}

function replyOf(status: number | undefined, text: string): Reply {
  try {
    const { n, error } = JSON.parse(text) as { n?: number; error?: { code: string } };
    return { code: status === 200 ? 'ok' : (error?.code ?? `status ${status}`), n };
  } catch {
    return { code: `status ${status}` };
  }
}

/** Requests that the runtime has settled since Node-RED was started. */
export async function settledIn(red: NodeRedProcess): Promise<number> {
  return total((await tallyOf(red)).settled);
}

async function tallyOf(red: NodeRedProcess): Promise<Tally> {
  const { runtimes } = await red.snapshot();
  return { settled: sum(runtimes.map(({ requests }) => requests)), left: await red.counted(TAB.id, LEFT) };
}

function sum(counts: readonly Counts[]): Counts {
  const sums: Record<string, number> = {};
  for (const [code, count] of counts.flatMap(Object.entries<number>)) sums[code] = (sums[code] ?? 0) + count;
  return sums;
}

function total(counts: Counts): number {
  return Object.values(counts).reduce((all, count) => all + count, 0);
}

/** With one Node-RED for all groups: each fault leaves it as it was, or started again. */
export function testNodeRedFaults(groups: readonly FaultGroup<NodeRedFault>[], flows: readonly FlowNode[]): void {
  let red: NodeRedProcess;
  before(async () => {
    red = await NodeRedProcess.start([...pipelineFlows(), ...flows]);
  });
  after(async () => {
    try {
      await red.end();
      await allGone();
    } finally {
      killStarted();
    }
  });
  for (const group of groups) testFaults(group, () => NodeRedBed.on(red));
}
