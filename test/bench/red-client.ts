/** The benchmark's hold on a Node-RED that runs in a separate process. */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { RuntimeSnapshot } from '../../src/observe/views/snapshot.ts';
import type { FlowNode } from '../fixtures/node-red.ts';
import { sleep } from './measure.ts';
import type { Call, Drive, Driven } from './red-process.ts';

const ENTRY = fileURLToPath(new URL('./red-process.js', import.meta.url));
const READY_MS = 30_000;

export class RedProcess {
  readonly #child: ChildProcess;
  readonly #ended: Promise<never>;
  #url = '';

  private constructor(child: ChildProcess) {
    this.#child = child;
    this.#ended = once(child, 'exit').then(() => {
      throw new Error('Node-RED ended');
    });
    this.#ended.catch(() => {});
  }

  static async start(): Promise<RedProcess> {
    const red = new RedProcess(fork(ENTRY, { stdio: ['ignore', 'ignore', 'inherit', 'ipc'] }));
    red.#url = (await red.#answer()) as string;
    return red;
  }

  get url(): string {
    return this.#url;
  }

  get pid(): number {
    return this.#child.pid as number;
  }

  /** Deploys flows and waits until all workers of all stages are ready. */
  async deploy(flows: readonly FlowNode[]): Promise<void> {
    await this.#call({ deploy: flows });
    const giveUpAt = performance.now() + READY_MS;
    for (;;) {
      const runtimes = await this.#runtimes();
      const stages = runtimes.flatMap((runtime) => runtime.stages);
      if (stages.length > 0 && stages.every((stage) => stage.ready > 0)) return;
      if (performance.now() > giveUpAt) throw new Error(`stages are not ready: ${JSON.stringify(runtimes)}`);
      await sleep(50);
    }
  }

  drive(load: Drive): Promise<Driven> {
    return this.#call({ drive: load }) as Promise<Driven>;
  }

  async stop(): Promise<void> {
    await this.#call({ stop: true });
    const exited = once(this.#child, 'exit');
    this.#child.disconnect();
    await exited;
  }

  async #runtimes(): Promise<readonly RuntimeSnapshot[]> {
    const response = await fetch(`${this.#url}/admin/modelets/snapshot`);
    return ((await response.json()) as { runtimes: RuntimeSnapshot[] }).runtimes;
  }

  #call(call: Call): Promise<unknown> {
    this.#child.send(call);
    return this.#answer();
  }

  async #answer(): Promise<unknown> {
    const [message] = (await Promise.race([once(this.#child, 'message'), this.#ended])) as [
      { result?: unknown; error?: string },
    ];
    if (message.error !== undefined) throw new Error(message.error);
    return message.result;
  }
}
