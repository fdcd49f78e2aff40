/**
 * Entry: worker hosts without an engine, so that one machine can hold many. Each has the connections, the report and the
 * hosted stage of `modelet worker`; in the place of a worker, a timer answers one item after the other. Arguments: address
 * of the server, name of the runtime, secret, number of hosts, ms that an item takes.
 */
import { BrokerLink } from '../../src/broker/broker-link.ts';
import type { RemotePlace, WorkerStatus } from '../../src/core/model.ts';
import { BATCH_LEASES } from '../../src/hosts/batch-queue.ts';
import { type HostReport, readPublished } from '../../src/hosts/entries.ts';
import { HEARTBEAT_MS, RemoteRegistry } from '../../src/hosts/registry.ts';
import { HostedStage, type HostedStageSpec } from '../../src/hosts/worker-host/hosted-stage.ts';
import type { SubmitRequest } from '../../src/runtime/desk/desk.ts';
import { sleep } from './measure.ts';

const [, , url = '', runtime = '', secret = '', count = '', itemMs = ''] = process.argv;
const place: RemotePlace = { url, prefix: 'modelet', username: '', password: '', tls: null, runtime, secret };
const WORKER: WorkerStatus = {
  ...{ index: 0, pid: null, state: 'ready', cpus: null, busy: false, running: 0, restarts: 0 },
  ...{ error: null, rssBytes: null, cpuMs: null, gauges: {} },
};

/** One worker that sleeps for each item. */
function sleeper(ms: number): HostedStageSpec['service'] {
  let freeAt = 0;
  let requests = 0;
  return {
    desk: {
      submit({ payload, onSettled }: SubmitRequest): number {
        freeAt = Math.max(freeAt, performance.now()) + ms;
        setTimeout(
          () => onSettled({ outcome: { ok: true, value: payload }, timings: [], gathered: null }),
          freeAt - performance.now(),
        );
        requests += 1;
        return requests;
      },
      abandon(): void {},
    },
    actOnStage(): void {},
    check: () => Promise.resolve([]),
  };
}

async function open(queue: string): Promise<BrokerLink> {
  return BrokerLink.open({ ...place, queue }, BATCH_LEASES, () => {});
}

async function serve(host: string): Promise<void> {
  const registry = new RemoteRegistry(await open('registry'), place);
  let { fresh } = await registry.renew(() => null, 'stages');
  for (; fresh.size === 0; { fresh } = await registry.renew(() => null, 'stages')) await sleep(HEARTBEAT_MS / 10);
  const [published = ''] = fresh.values();
  const { key } = readPublished(published, secret);
  const link = await open(`stage-${key}`);
  const stage = new HostedStage({
    ...{ key, places: 1, host, link, registry, service: sleeper(Number(itemMs)) },
    wayOf: () => ({ entry: key, itemsAhead: 0, waits: () => false }),
    onLog: ({ message }) => process.stderr.write(`${message}\n`),
  });
  registry.subscribe(host, (message) => stage.receive(message));
  stage.start();
  const served = { workers: [WORKER], pinWarnings: [], description: null, error: null, own: null };
  const report: HostReport = { host, pid: process.pid, isLeaving: false, stages: { [key]: served } };
  for (;;) {
    await registry.renew(() => ({ kind: 'hosts', name: host, text: JSON.stringify(report) }), 'stages');
    await sleep(HEARTBEAT_MS);
  }
}

await Promise.all(Array.from({ length: Number(count) }, (_, index) => serve(`simulated-${process.pid}-${index}`)));
