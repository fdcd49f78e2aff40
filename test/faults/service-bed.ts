/** A service with two stages under load, the second of which may come to harm, and one beside them. */
import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { ModeletError } from '../../src/core/errors.ts';
import { folderFor } from '../fixtures/folder.ts';
import { until } from '../fixtures/polling.ts';
import {
  type Answer,
  type Asked,
  type PlanSpec,
  type ServiceSpec,
  type StageSpec,
  serve,
  type TestService,
} from '../fixtures/service.ts';
import { SkippingClock } from '../fixtures/skipping-clock.ts';
import { BATCH, type Bed, type Fault, type FaultGroup, testFaults } from './fault.ts';
import { Load, type Reply } from './load.ts';
import { measure, type Resources } from './resources.ts';

/** Long enough that most batches are full, short enough for many. */
const RUN_MS = 2;
/** Far more than any request needs, also behind 480 MB on a slow machine: if one expires, a clock is wrong. */
const TIMEOUT_MS = 200_000;
/** At least as long as any interval of the server's log. */
const LONGEST_INTERVAL_MS = 60_000;
const LANES = 12;
const LANES_BESIDE = 4;

export interface ServiceFault extends Fault<ServiceBed> {
  /** Unusual properties of the faulty stage; it may need files in the bed's folder. */
  readonly model?: Partial<StageSpec> | ((folder: string) => Partial<StageSpec>);
  readonly config?: ServiceSpec['config'];
  /** Module that every process of the runtime loads first. */
  readonly preload?: string;
}

export class ServiceBed implements Bed {
  readonly service: TestService;
  /** For the fault's files. */
  readonly folder: string;
  readonly load: Load;
  readonly beside: Load;
  readonly #clock: SkippingClock;
  #asked = 0;

  constructor(service: TestService, folder: string, clock: SkippingClock) {
    this.service = service;
    this.#clock = clock;
    this.folder = folder;
    this.load = new Load(LANES, (n) => this.#reply(n, 'in'));
    this.beside = new Load(LANES_BESIDE, (n) => this.#reply(n, 'beside'));
  }

  /** Deploys the stage at fault with something changed. */
  deploy(model: Partial<StageSpec>): void {
    this.service.apply(planWith(model));
  }

  /** Asks for something beside the load. */
  ask(payload: unknown, entry = 'in', limitMs?: number): Asked {
    this.#asked += 1;
    return this.service.ask(payload, { entry, ...(limitMs ? { limitMs } : {}) });
  }

  /** Asks the stage at fault for something that harms its worker. */
  poison(way: string): Asked {
    return this.ask({ n: -1, way });
  }

  /** Makes a worker of the stage at fault hold its batch, and gives its process id with the request that it holds. */
  async hold(): Promise<{ readonly pid: number; readonly held: Asked }> {
    const held = this.poison('hold');
    const isHolding = ({ message }: { message: string }): boolean => message === 'has come to hold';
    const { worker } = await until('a worker holds a batch', () => this.service.logs.find(isHolding));
    return { pid: this.service.pids('model')[worker as number] as number, held };
  }

  async resources(): Promise<Resources> {
    const { backlog, stages } = this.service.service.snapshot();
    return measure([backlog, ...stages.map(({ queue, busy }) => queue + busy)]);
  }

  skipTime(): void {
    this.#clock.skip(LONGEST_INTERVAL_MS);
  }

  ready(): Promise<unknown> {
    return this.service.ready();
  }

  async assertAllCounted(): Promise<void> {
    const { requests } = this.service.service.snapshot();
    const counted = Object.values(requests).reduce((sum, count) => sum + count, 0);
    assert.equal(counted, this.load.sent + this.beside.sent + this.#asked, 'each request settled exactly once');
    const warnings = this.service.logs.filter(({ message }) => message.includes('Warning:'));
    assert.deepEqual(warnings, [], 'no process warns of itself');
  }

  async #reply(n: number, entry: string): Promise<Reply> {
    try {
      const { code, value } = await this.service.answer({ n }, { entry, timeoutMs: TIMEOUT_MS });
      return { code, n: (value as { n: number } | undefined)?.n };
    } catch (thrown) {
      // Refused at once.
      if (thrown instanceof ModeletError) return { code: thrown.code };
      throw thrown;
    }
  }
}

export function testServiceFaults(group: FaultGroup<ServiceFault>): void {
  testFaults(group, async (t: TestContext, { model = {}, config = {}, preload }: ServiceFault) => {
    if (preload) await preloadIn(t, preload);
    const folder = folderFor(t);
    const clock = new SkippingClock();
    const stages = planWith(typeof model === 'function' ? model(folder) : model);
    const service = await serve(t, { config, clock, ...stages });
    await service.ready();
    return new ServiceBed(service, folder, clock);
  });
}

/** Also in this process, and for good: the server is in it. */
async function preloadIn(t: TestContext, module: string): Promise<void> {
  const before = process.env['NODE_OPTIONS'] ?? '';
  process.env['NODE_OPTIONS'] = `${before} --import=${module}`;
  t.after(() => {
    process.env['NODE_OPTIONS'] = before;
  });
  await import(module);
}

function planWith(model: Partial<StageSpec>): PlanSpec {
  const batch = { maxBatchSize: BATCH };
  return {
    stages: [
      { id: 'prepare', file: 'echo', batch },
      { id: 'model', file: 'die', init: { runMs: RUN_MS }, workers: 2, batch, ...model },
      { id: 'beside', file: 'echo' },
    ],
    routes: { in: ['prepare', 'model'], beside: ['beside'] },
  };
}

/** Checks how a request ended that was meant to fail. */
export async function assertFails(asked: Asked, code: Answer['code'], cause: RegExp): Promise<void> {
  const { error, ...answer } = await asked.answer;
  assert.equal(answer.code, code, error?.message);
  assert.match(error?.message ?? '', cause);
  assert.match((error?.cause as Error | undefined)?.message ?? '', cause, 'the cause comes with it');
}
