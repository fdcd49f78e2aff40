/** A runtime as Node-RED's side runs it, without Node-RED: a service with a real engine and real workers. */
import { fileURLToPath } from 'node:url';
import { compileRuntime } from '../../src/config/compile.ts';
import { compileStage } from '../../src/config/compile-stage.ts';
import type { PlannedStage } from '../../src/config/stage-definition.ts';
import type { RemotePlace } from '../../src/core/model.ts';
import { itemKeyOf, LONGEST_KEY_BYTES } from '../../src/core/text.ts';
import { Log, recordsTo } from '../../src/observe/log/log.ts';
import type { RuntimeSnapshot } from '../../src/observe/views/snapshot.ts';
import { allowedCpus } from '../../src/process/affinity.ts';
import { probeLauncher } from '../../src/process/parent/launch.ts';
import { Service } from '../../src/runtime/service/service.ts';
import { decodePayload, encodePayload } from '../../src/wire/codec/codec.ts';
import { encodeMeta } from '../../src/wire/frames/metas.ts';
import { repositoryRoot } from '../fixtures/repository.ts';
import { sleep } from './measure.ts';

type Batching = PlannedStage['batching'];

export interface BedStage {
  /** A file of `test/bench/modelets`, without its ending; with `python`, or of an ONNX model, the path of a file. */
  readonly modelet: string;
  /** The interpreter of a stage in Python. */
  readonly python?: string;
  /** What a known model does; `modelet` is its folder. */
  readonly task?: string;
  readonly batching?: Batching;
  readonly init?: object;
  /** Environment of the workers. */
  readonly env?: Readonly<Record<string, string>>;
  /** Default: 1. */
  readonly concurrency?: number;
  readonly isolation?: 'process' | 'thread';
  /** As in the dialog: a number, or a range. Default: one. A stage that may have none is not waited for. */
  readonly workers?: string;
  /** Whether it works on the items of each key in order. */
  readonly isKeyed?: boolean;
  /** Results that it keeps; see `CacheSettings`. */
  readonly cache?: number;
  /** The place at which worker hosts find it; default: it has local workers. */
  readonly remote?: RemotePlace;
}

export interface SendOptions {
  /** Default: 0, no limit. */
  readonly timeoutMs?: number;
  /** Waits where there is no room. Default: true; an HTTP request would be refused. */
  readonly patient?: boolean;
  /** Default: none. */
  readonly key?: string;
}

const READY_MS = 60_000;
const SINGLE: Batching = { policy: 'greedy', maxBatchSize: 1, maxWaitMs: 0 };

export function batchesOf(maxBatchSize: number, policy: Batching['policy'] = 'greedy', maxWaitMs = 0): Batching {
  return { policy, maxBatchSize, maxWaitMs };
}

export class Bed {
  readonly service: Service;
  private constructor(service: Service) {
    this.service = service;
  }

  /** Starts a runtime with one route per entry and waits until all its workers are ready. */
  static async start(routes: Readonly<Record<string, readonly BedStage[]>>): Promise<Bed> {
    const cpus = allowedCpus();
    const machine = { allowedCpus: cpus, launcher: await probeLauncher(cpus) };
    const host = { onChange: () => {}, onDescribed: () => {}, log: Log.to(recordsTo(() => {})) };
    const bed = new Bed(new Service('bench', compileRuntime({ name: 'bench' }), machine, host));
    bed.service.start();
    const planned = Object.entries(routes).map(([entry, stages]) => ({
      entry,
      stages: stages.map((stage, index) => plan(`${entry}-${index + 1}`, stage)),
    }));
    bed.service.apply(
      planned.flatMap(({ stages }) => stages),
      planned.map(({ entry, stages }) => ({ entry, stages: stages.map(({ id }) => id) })),
    );
    const sleeping = planned.flatMap(({ stages }) => stages).filter(({ scaling }) => scaling?.min === 0);
    await bed.#whenReady(new Set(sleeping.map(({ id }) => id)));
    return bed;
  }

  async #whenReady(sleeping: ReadonlySet<string>): Promise<void> {
    const giveUpAt = performance.now() + READY_MS;
    const isReady = ({ id, ready, workers }: RuntimeSnapshot['stages'][number]): boolean =>
      sleeping.has(id) || (ready > 0 && ready === workers.length);
    while (!this.snapshot().stages.every(isReady)) {
      if (performance.now() > giveUpAt) throw new Error(`not ready in time: ${JSON.stringify(this.snapshot().stages)}`);
      await sleep(10);
    }
  }

  snapshot(): RuntimeSnapshot {
    return this.service.snapshot();
  }

  get enginePid(): number {
    return this.snapshot().engine.pid as number;
  }

  /** Pids of the workers of a route's stages. */
  workerPids(entry: string): number[] {
    const own = this.snapshot().stages.filter((stage) => stage.id.startsWith(`${entry}-`));
    return own.flatMap((stage) => stage.workers.flatMap(({ pid }) => pid ?? []));
  }

  /** Encodes, submits and decodes a message like a pipeline node. `settled` gets the result or an Error. */
  send(entry: string, value: unknown, settled: (result: unknown) => void, options: SendOptions = {}): void {
    const { timeoutMs = 0, patient = true } = options;
    const key = itemKeyOf(options.key);
    this.service.desk.submit({
      entry,
      requestId: '',
      gateMs: 0,
      payload: encodePayload(value, { blame: 'invalid_input', maxBytes: this.service.config.maxPayloadBytes }),
      deadline: this.service.desk.deadlineFor(timeoutMs),
      priority: 0,
      patient,
      group: 0,
      key: key?.hash ?? 0,
      meta: key && encodeMeta({ key: key.text }, LONGEST_KEY_BYTES),
      onSettled: ({ outcome }) => settled(outcome.ok ? decodePayload(outcome.value) : outcome.error),
    });
  }

  request(entry: string, value: unknown): Promise<unknown> {
    return new Promise((resolve, reject) =>
      this.send(entry, value, (result) => (result instanceof Error ? reject(result) : resolve(result))),
    );
  }

  close(): Promise<void> {
    return this.service.close(false);
  }
}

function sourceOf({ modelet, python, task }: BedStage): object {
  if (task !== undefined) return { source: 'task', task, model: modelet };
  if (python !== undefined) return { source: 'python', path: modelet, python, predict: 'batch' };
  if (modelet.endsWith('.onnx')) return { source: 'onnx', path: modelet };
  return { source: 'file', path: fileURLToPath(new URL(`./modelets/${modelet}.js`, import.meta.url)) };
}

function plan(id: string, stage: BedStage): PlannedStage {
  const { init = {}, env = {}, isolation = 'process', concurrency = 1, workers = '1', isKeyed = false } = stage;
  const keyBy = isKeyed ? 'key' : '';
  const settings = { init: JSON.stringify(init), env: JSON.stringify(env), isolation, concurrency, workers, keyBy };
  const raw = { name: id, runtime: 'bench', ...sourceOf(stage), ...settings };
  const { versions: _none, ...config } = compileStage(raw, (file) => file);
  const cache = { entries: stage.cache ?? 0, maxBytes: config.cacheMb * 2 ** 20, ttlMs: 0 };
  const modelet = { ...config, requireFrom: repositoryRoot };
  return {
    ...config,
    id,
    name: id,
    modelet,
    batching: stage.batching ?? SINGLE,
    overflow: 'refuse',
    requestTimeoutMs: 30_000,
    cache,
    remote: stage.remote ?? null,
  };
}
