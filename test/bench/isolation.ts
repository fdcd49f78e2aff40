/**
 * Part h: people who wait for answers share an inference gateway with batch work. How long do they wait while batch
 * work is away, comes as it likes, or comes through a dispatch gate; and how much of what they leave does it use?
 */
import { Agent, request } from 'node:http';
import { compileGate } from '../../src/config/compile-gate.ts';
import { systemClock } from '../../src/core/clock.ts';
import { ModeletError } from '../../src/core/errors.ts';
import { Gate } from '../../src/gate/gate.ts';
import { createSource } from '../../src/gate/sources/create.ts';
import { MockGateway } from '../fixtures/mock-gateway.ts';
import { SERVICES } from '../fixtures/sources.ts';
import { interleave, medianOf, percentile, sleep } from './measure.ts';
import { atLeast, atMost, figure, type Part, type PartResult, ratio } from './report.ts';

const SERVERS = 8;
const PER_SERVER = 8;
const SLOTS = SERVERS * PER_SERVER;
const SERVICE_MS = 500;
/** Share of the slots that the interactive requests take on average. */
const INTERACTIVE = 0.4;
const GAP_MS = SERVICE_MS / (SLOTS * INTERACTIVE);
const SENDERS = 128;
const BASELINE = 0.05;
const WARM_UP_MS = 2000;
/** How often the gate scrapes the gateway. */
const INTERVAL_MS = 50;
/** Time after which a scrape shows the present state: it lacks requests on their way. */
const LAG_MS = 20;

interface Isolated {
  readonly p50: number;
  readonly p95: number;
  readonly batchPerSecond: number;
  /** The share of slot time that batch work used, of the time that interactive requests left. */
  readonly spareUsed: number;
}

interface Batch {
  /** Requests that are done. */
  done(): number;
  /** Begins nothing new; resolves when nothing is in flight any more. */
  stop(): Promise<void>;
}

export const isolation: Part = {
  letter: 'h',
  title: 'isolation of interactive requests',
  async run({ rounds, seconds }) {
    const flags = { servers: SERVERS, 'max-concurrency': PER_SERVER, queue: 10_000 };
    const gateway = await MockGateway.start({ ...flags, 'first-token-ms': SERVICE_MS });
    try {
      const ms = Math.round(seconds * 16) * SERVICE_MS;
      const measure = (batch: (client: Client) => Batch) => () => share(new Client(gateway.url), batch, ms);
      return tell(
        await interleave(Math.max(2, rounds - 2), {
          alone: measure(noBatch),
          ungated: measure(ungated),
          gated: measure(gated),
        }),
      );
    } finally {
      await gateway.stop();
    }
  },
};

/** Requests to the gateway over connections that are kept. */
class Client {
  readonly url: string;
  readonly #agent = new Agent({ keepAlive: true });

  constructor(url: string) {
    this.url = url;
  }

  /** Resolves when one completion is there. */
  complete(): Promise<void> {
    return new Promise((resolve, reject) => {
      const sent = request(`${this.url}/v1/completions`, { method: 'POST', agent: this.#agent }, (response) => {
        if (response.statusCode !== 200) reject(new Error(`HTTP ${response.statusCode}`));
        response.on('end', resolve).on('error', reject).resume();
      });
      sent.on('error', reject).end('{"max_tokens":1}');
    });
  }

  close(): void {
    this.#agent.destroy();
  }
}

/** Interactive requests beside batch work, for so long after a warm-up. */
async function share(client: Client, start: (client: Client) => Batch, ms: number): Promise<Isolated> {
  const batch = start(client);
  const warmUp = await interactive(client, WARM_UP_MS);
  const before = batch.done();
  const open = await interactive(client, ms);
  const done = batch.done() - before;
  await Promise.all(warmUp);
  const latencies = await Promise.all(open);
  await batch.stop();
  client.close();
  return {
    p50: percentile(latencies, 50),
    p95: percentile(latencies, 95),
    batchPerSecond: (done * 1000) / ms,
    spareUsed: (done * SERVICE_MS) / (SLOTS * ms - latencies.length * SERVICE_MS),
  };
}

/** Sends requests at random times for so long, however many are open; what is returned are their latencies to come. */
async function interactive(client: Client, ms: number): Promise<Promise<number>[]> {
  const latencies: Promise<number>[] = [];
  const random = randomNumbers();
  const end = performance.now() + ms;
  for (let due = performance.now(); due < end; due += -Math.log(1 - random()) * GAP_MS) {
    if (due > performance.now()) await sleep(due - performance.now());
    // From the time it was due: a late sender makes a client wait, too.
    latencies.push(client.complete().then(() => performance.now() - due));
  }
  return latencies;
}

/** From 0 to 1, and the same in every run: all subjects see the same arrivals. */
function randomNumbers(): () => number {
  let state = 1;
  return () => {
    // Park and Miller's generator.
    state = (state * 48_271) % 0x7fff_ffff;
    return state / 0x7fff_ffff;
  };
}

function noBatch(): Batch {
  return { done: () => 0, stop: () => Promise.resolve() };
}

/** Senders that each send the next request when they have an answer. */
function ungated(client: Pick<Client, 'complete'>): Batch {
  let done = 0;
  let stopped = false;
  const send = async (): Promise<void> => {
    while (!stopped) {
      await client.complete();
      done += 1;
    }
  };
  const senders = Array.from({ length: SENDERS }, send);
  return {
    done: () => done,
    stop: async () => {
      stopped = true;
      await Promise.all(senders);
    },
  };
}

/** The same senders, each of which waits at a gate that scrapes the gateway. */
function gated(client: Client): Batch {
  const config = compileGate({
    source: 'scrape',
    url: `${client.url}/metrics`,
    metric: 'gateway_saturation',
    maxSys: String(SLOTS),
    baseline: BASELINE,
    intervalMs: INTERVAL_MS,
    lagMs: LAG_MS,
  });
  const source = createSource(config, SERVICES);
  const gate = new Gate({ id: 'g', name: 'g', config, source, clock: systemClock, ready: () => 0, onChange: () => {} });
  const admission = (): Promise<string> =>
    new Promise((resolve, reject) => {
      const admitted = ({ id }: { readonly id: string }): void => resolve(id);
      gate.ask({ cost: 1, priority: 0, deadline: Number.POSITIVE_INFINITY, admitted, refused: reject });
    });
  const through: Pick<Client, 'complete'> = {
    complete: async () => {
      const lease = await admission();
      await client.complete();
      gate.end(lease, { kind: 'done' });
    },
  };
  const batch = ungated(through);
  return {
    done: batch.done,
    stop: async () => {
      // Waiting callers pass, and see that it is over.
      gate.control('open');
      await batch.stop();
      await gate.close(new ModeletError('shutting_down', 'the round is over'));
    },
  };
}

function tell(results: Readonly<Record<'alone' | 'ungated' | 'gated', readonly Isolated[]>>): PartResult {
  const of = (name: keyof typeof results, read: (result: Isolated) => number): number => medianOf(results[name], read);
  const p95 = (name: keyof typeof results): number => of(name, (result) => result.p95);
  const spareUsed = (name: keyof typeof results): number => of(name, (result) => result.spareUsed) * 100;
  const row = (what: string, name: keyof typeof results): string[] => [
    what,
    figure(of(name, ({ p50 }) => p50)),
    figure(p95(name)),
    ratio(p95(name) / p95('alone')),
    figure(of(name, ({ batchPerSecond }) => batchPerSecond)),
    figure(spareUsed(name)),
  ];
  return {
    tables: [
      {
        title: `h. Interactive requests at an inference gateway with ${SLOTS} slots, ${SERVICE_MS} ms each`,
        columns: ['batch work', 'p50 ms', 'p95 ms', 'of alone', 'batch done/s', 'spare capacity used %'],
        rows: [
          row('none', 'alone'),
          row(`${SENDERS} senders`, 'ungated'),
          row(`${SENDERS} senders behind a gate`, 'gated'),
        ],
        notes: [
          `Interactive requests come at random and take ${INTERACTIVE * 100} % of the slots on average. The gate scrapes the`,
          `gateway's saturation every ${INTERVAL_MS} ms and keeps ${BASELINE * 100} % free. Over 100 %: batch work`,
          'has taken slots from interactive requests, which then wait.',
        ],
      },
    ],
    budgets: [
      atMost({
        what: 'interactive p95 beside batch work behind a gate, of alone',
        value: p95('gated') / p95('alone'),
        limit: 1.5,
        unit: 'x',
        gates: true,
      }),
      atLeast({
        what: 'spare capacity that batch work behind a gate uses',
        value: spareUsed('gated'),
        limit: 80,
        unit: ' %',
        gates: true,
      }),
    ],
  };
}
