/** A Node-RED in a process of its own, with two-stage requests over HTTP and others beside them. */
import assert from 'node:assert/strict';
import { request } from 'node:http';
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

/** What happens elsewhere in the flow when somebody posts to `/elsewhere`. */
export function elsewhere(code: string): FlowNode[] {
  return [...endpoint('/elsewhere', 'elsewhere'), func('elsewhere', `${code}\nreturn msg;`, 'collector /elsewhere')];
}

export class NodeRedBed implements Bed {
  readonly red: NodeRedProcess;
  readonly load: Load;
  readonly beside: Load;
  /** Its counts began anew. */
  #startedAgain = false;

  constructor(red: NodeRedProcess) {
    this.red = red;
    this.load = new Load(LANES, (n) => this.post('/model', { n }));
    this.beside = new Load(LANES_BESIDE, (n) => this.post('/beside', { n }));
  }

  /** Starts Node-RED again after it has ended, as a service manager would. */
  async startAgain(): Promise<void> {
    this.#startedAgain = true;
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
    if (this.#startedAgain) return;
    const { runtimes } = await this.red.snapshot();
    const counts = runtimes.flatMap(({ requests }) => Object.values(requests));
    const counted = counts.reduce((sum, count) => sum + count, 0);
    assert.equal(counted, this.load.sent + this.beside.sent, 'each request settled exactly once');
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

export function testNodeRedFaults(group: FaultGroup<NodeRedFault & { readonly flows?: readonly FlowNode[] }>): void {
  testFaults(group, async (t, { flows = [] }) => {
    const red = await NodeRedProcess.start([...pipelineFlows(), ...flows]);
    t.after(async () => {
      try {
        await red.end();
        await allGone();
      } finally {
        killStarted();
      }
    });
    return new NodeRedBed(red);
  });
}
