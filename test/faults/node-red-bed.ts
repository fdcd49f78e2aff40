/** A Node-RED in a process of its own, with two-stage requests over HTTP and others beside them. */
import assert from 'node:assert/strict';
import { request } from 'node:http';
import { after, before } from 'node:test';
import { batcher, endpoint, func, runtime, stage, TAB } from '../fixtures/flow.ts';
import type { FlowNode } from '../fixtures/node-red.ts';
import { NodeRedProcess } from '../fixtures/node-red-process.ts';
import { allGone, killStarted } from '../fixtures/processes.ts';
import { BATCH, type Bed, type Fault, type FaultGroup, testFaults } from './fault.ts';
import { Load, type Reply } from './load.ts';
import { measure, type Resources } from './resources.ts';

const LANES = 8;
const LANES_BESIDE = 2;
/** Longer than the runtime takes to answer what has expired. */
const ANSWER_MS = 60_000;

export type NodeRedFault = Fault<NodeRedBed>;

/** `version` changes the code of the second stage. */
export function pipelineFlows(version = 0): FlowNode[] {
  return [
    TAB,
    runtime(),
    ...endpoint('/model', 'prepare'),
    stage('prepare', 'return input;', 'batch'),
    batcher('batch', 'model', { maxBatchSize: BATCH }),
    stage('model', `return { ...input, version: ${version} };`, 'collector /model', { workers: '2' }),
    ...endpoint('/beside', 'alone'),
    stage('alone', 'return input;', 'collector /beside'),
  ];
}

/** What happens elsewhere in the flow when somebody posts to `url`. */
export function elsewhere(url: string, code: string): FlowNode[] {
  return [...endpoint(url, `func ${url}`), func(`func ${url}`, `${code}\nreturn msg;`, `collector ${url}`)];
}

export class NodeRedBed implements Bed {
  readonly red: NodeRedProcess;
  readonly load: Load;
  readonly beside: Load;
  /** What had settled before, in the life of this Node-RED; null where it has been started anew. */
  #settledBefore: number | null;

  private constructor(red: NodeRedProcess, settledBefore: number) {
    this.red = red;
    this.#settledBefore = settledBefore;
    this.load = new Load(LANES, (n) => this.post('/model', { n }));
    this.beside = new Load(LANES_BESIDE, (n) => this.post('/beside', { n }));
  }

  /** With load of its own; the Node-RED may have served before. */
  static async on(red: NodeRedProcess): Promise<NodeRedBed> {
    return new NodeRedBed(red, await settledIn(red));
  }

  /** Starts Node-RED again after it has ended, as a service manager would. */
  async startAgain(): Promise<void> {
    this.#settledBefore = null;
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

  async assertAllCounted(): Promise<void> {
    if (this.#settledBefore === null) return;
    const settled = (await settledIn(this.red)) - this.#settledBefore;
    assert.equal(settled, this.load.sent + this.beside.sent, 'each request settled exactly once');
  }

  /**
   * One request, on a connection of its own, and how it ended: `connection lost` where no answer came. A connection
   * that is kept may be closed by the server just when the next request is sent.
   */
  post(path: string, body: object): Promise<Reply> {
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
      sent.on('error', ({ message }) => resolve({ code: message === 'no answer' ? message : 'connection lost' }));
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
  const { runtimes } = await red.snapshot();
  return runtimes.flatMap(({ requests }) => Object.values(requests)).reduce((sum, count) => sum + count, 0);
}

/** With one Node-RED for all: each fault leaves it as it was, or started again. */
export function testNodeRedFaults(group: FaultGroup<NodeRedFault>, flows: readonly FlowNode[]): void {
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
  testFaults(group, () => NodeRedBed.on(red));
}
