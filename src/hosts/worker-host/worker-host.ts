/**
 * A worker host: runs the remote stages of one runtime without Node-RED, with the engine, pools, batching and pins that
 * Node-RED uses. It learns from the registry which stages there are, and reports there how it serves them.
 */
import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { BrokerLink } from '../../broker/broker-link.ts';
import { compileRuntime } from '../../config/compile.ts';
import type { ModelSettings } from '../../config/folders.ts';
import type { PlannedStage } from '../../config/stage-definition.ts';
import { atLatest, type Clock, systemClock } from '../../core/clock.ts';
import { asError } from '../../core/errors.ts';
import type { LogRecord, RemotePlace } from '../../core/model.ts';
import type { Log } from '../../observe/log/log.ts';
import type { Machine } from '../../runtime/service/runtime-pins.ts';
import { DRAIN_MS, Service } from '../../runtime/service/service.ts';
import { BATCH_LEASES } from '../batch-queue.ts';
import { type HostReport, readPublished, type ServedStage } from '../entries.ts';
import { queueOf } from '../keyed-hosts.ts';
import { HEARTBEAT_MS, type HostMessage, type RegistryEntries, RemoteRegistry } from '../registry.ts';
import { HostModels } from './host-models.ts';
import { HostedStage, type HostedWay } from './hosted-stage.ts';
import { type HostRules, installed } from './installed-stage.ts';

export interface HostSpec extends HostRules {
  readonly place: RemotePlace;
  /** Whether the host downloads the known models of its stages. */
  readonly install: boolean;
}

interface StageAtHost {
  /** The entry that the stage was read from. */
  entry: string;
  planned: PlannedStage;
  /** One for each of its queues: that of all hosts, and of a stage with keys that of this host. */
  readonly hosted: readonly HostedStage[];
  /** Time of the server at which this host began to serve it. */
  readonly since: number;
  /** Time at which its entry was last seen. */
  seenAt: number;
}

/** Time for which a stage is served after its entry has gone, in ms: the broker may have been away. */
const GRACE_MS = 10_000;

export class RemoteWorkerHost {
  readonly #spec: HostSpec;
  readonly #log: Log;
  readonly #clock: Clock;
  readonly #id: string = randomUUID().slice(0, 8);
  readonly #service: Service;
  readonly #models: HostModels;
  readonly #stages: Map<string, StageAtHost> = new Map();
  /** The ways through several stages that batches have taken: keys of stages, by the name of the entry. */
  readonly #rows: Map<string, readonly string[]> = new Map();
  /** Keys of the stages that are being installed: to read the file of a large model takes long. */
  readonly #installing: Set<string> = new Set();
  /** Why this host does not serve stages that it could, by their keys. */
  readonly #declined: Map<string, string> = new Map();
  /** Names of the stages whose refusal was logged. */
  readonly #told: Set<string> = new Set();
  /** `draining`: batches at hand are answered, and reports say so. */
  #state: 'serving' | 'draining' | 'ended' = 'serving';
  #registry: RemoteRegistry | null = null;

  constructor(spec: HostSpec, machine: Machine, log: Log, clock: Clock = systemClock) {
    this.#spec = spec;
    this.#log = log;
    this.#clock = clock;
    this.#models = new HostModels({ modelets: modelSettings(process.env) }, spec.install, log, clock);
    const config = compileRuntime({ name: spec.place.runtime, capacity: 100_000 });
    this.#service = new Service('host', config, machine, { onChange: () => {}, onDescribed: () => {}, log });
  }

  /** Serves until `drain`. Rejects if the packages of a broker are missing. */
  async run(): Promise<void> {
    const { place } = this.#spec;
    const link = await this.#link('registry');
    const registry = new RemoteRegistry(link, place, this.#clock);
    this.#registry = registry;
    const unsubscribe = registry.subscribe(this.#id, (message) => this.#hear(message));
    this.#service.start();
    this.#log.write({ level: 'info', message: `host ${this.#id} waits for stages of the runtime ${place.runtime}` });
    while (this.#state !== 'ended') {
      await this.#heartbeat(registry).catch((thrown: unknown) => {
        this.#log.write({ level: 'warn', message: asError(thrown).message });
      });
      await new Promise<void>((resolve) => this.#clock.at(this.#clock.now() + HEARTBEAT_MS, resolve));
    }
    unsubscribe();
    await link.close();
  }

  /** Claims no more batches, answers those at hand, and ends all processes. */
  async drain(): Promise<void> {
    this.#state = 'draining';
    if (this.#registry) void this.#renew(this.#registry).catch(() => {});
    const drained = [...this.#stages.values()].flatMap(({ hosted }) => hosted.map((one) => one.drain()));
    await atLatest(this.#clock, this.#clock.now() + DRAIN_MS, Promise.all(drained));
    await this.#service.close(true);
    this.#state = 'ended';
    // It stays, and grows old: the runtime reads there what the modelets have counted last.
    if (this.#registry) await this.#renew(this.#registry).catch(() => {});
  }

  async #heartbeat(registry: RemoteRegistry): Promise<void> {
    const { fresh } = await this.#renew(registry);
    if (this.#state !== 'serving') return;
    const now = this.#clock.now();
    for (const [key, entry] of fresh) {
      const stage = this.#stages.get(key);
      if (stage) stage.seenAt = now;
      if (stage?.entry !== entry) void this.#install(key, entry, registry);
    }
    for (const key of this.#declined.keys()) if (!fresh.has(key)) this.#declined.delete(key);
    this.#endUnseen(now);
  }

  async #install(key: string, entry: string, registry: RemoteRegistry): Promise<void> {
    if (this.#installing.has(key)) return;
    this.#installing.add(key);
    try {
      const planned = await installed(readPublished(entry, this.#spec.secret), this.#spec, this.#models);
      if (planned) await this.#place(key, planned, entry, registry);
      this.#declined.delete(key);
    } catch (thrown) {
      this.#decline(key, asError(thrown).message);
    } finally {
      this.#installing.delete(key);
    }
  }

  #decline(key: string, reason: string): void {
    this.#declined.set(key, reason);
    if (this.#told.has(key)) return;
    this.#told.add(key);
    this.#log.write({ level: 'error', message: `does not serve stage ${key}: ${reason}` });
  }

  #endUnseen(now: number): void {
    const unseen = [...this.#stages].filter(([, { seenAt }]) => now - seenAt >= GRACE_MS);
    for (const [key, stage] of unseen) {
      this.#stages.delete(key);
      for (const one of stage.hosted) void one.drain();
      this.#log.write({ level: 'info', message: `stage ${stage.planned.name} is no longer served`, fields: { key } });
    }
    if (unseen.length > 0) this.#apply();
  }

  #renew(registry: RemoteRegistry): Promise<RegistryEntries> {
    const own = () => ({ kind: 'hosts', name: this.#id, text: JSON.stringify(this.#report()) }) as const;
    return registry.renew(own, 'stages');
  }

  /** Begins to serve a stage, or takes over what has changed besides its modelet. */
  async #place(key: string, planned: PlannedStage, entry: string, registry: RemoteRegistry): Promise<void> {
    const present = this.#stages.get(key);
    if (present) {
      Object.assign(present, { planned, entry });
      if (this.#state === 'serving') this.#apply();
      return;
    }
    const queues = planned.modelet.keyBy === '' ? [queueOf(key)] : [queueOf(key), queueOf(key, this.#id)];
    const links = await Promise.all(queues.map((queue) => this.#link(queue)));
    if (this.#state !== 'serving') {
      for (const link of links) await link.close();
      return;
    }
    const spec = {
      ...{ key, places: placesOf(planned), host: this.#id, registry, service: this.#service },
      wayOf: (row: readonly string[]) => this.#wayOf(key, row),
      onLog: (record: LogRecord) => this.#log.write(record),
    };
    const hosted = links.map((link) => new HostedStage({ ...spec, link }));
    const now = this.#clock.now();
    this.#stages.set(key, { entry, planned, hosted, since: registry.toServer(now), seenAt: now });
    this.#apply();
    for (const one of hosted) one.start();
    this.#log.write({ level: 'info', message: `serves stage ${planned.name}`, fields: { key } });
  }

  #apply(): void {
    const stages = [...this.#stages.values()].map(({ planned }) => planned);
    for (const [entry, row] of this.#rows) if (!row.every((key) => this.#stages.has(key))) this.#rows.delete(entry);
    const rows = [...stages.map(({ id }) => [id, [id]] as const), ...this.#rows];
    this.#service.apply(
      stages,
      rows.map(([entry, row]) => ({ entry, stages: row, forEngine: true })),
    );
  }

  /** The way through a stage and as many of the following ones as this host serves. */
  #wayOf(first: string, following: readonly string[]): HostedWay {
    const missing = following.findIndex((key) => !this.#stages.has(key));
    const further = missing < 0 ? following : following.slice(0, missing);
    const row = [first, ...further];
    const entry = row.join(' > ');
    if (further.length > 0 && !this.#rows.has(entry)) {
      this.#rows.set(entry, row);
      this.#apply();
    }
    const stages = row.flatMap((key) => this.#stages.get(key)?.planned ?? []);
    const [batching] = stages.map((stage) => stage.batching);
    return {
      entry,
      itemsAhead: stages.slice(1).reduce((sum, stage) => sum + placesOf(stage) * stage.batching.maxBatchSize, 0),
      waits: (items) => batching !== undefined && batching.maxWaitMs > 0 && items < batching.maxBatchSize,
    };
  }

  #hear(message: HostMessage): void {
    for (const one of this.#stages.get(message.stage)?.hosted ?? []) one.receive(message);
  }

  #report(): HostReport {
    const stages: Record<string, ServedStage> = {};
    for (const [key, error] of this.#declined) {
      stages[key] = { workers: [], pinWarnings: [], description: null, error, own: null };
    }
    for (const { id, workers, pinWarnings, doesNotStart, reading, keys } of this.#service.snapshot().stages) {
      const error = doesNotStart
        ? (workers.find((worker) => worker.error !== null)?.error ?? 'it does not start')
        : null;
      const since = this.#stages.get(id)?.since;
      const lost = { dropped: reading.ownDropped, keysLost: keys?.lost ?? 0 };
      const own = since === undefined ? null : { since, counts: reading.own, ...lost };
      stages[id] = { workers, pinWarnings, description: this.#service.description(id), error, own };
    }
    return { host: hostname(), pid: process.pid, isLeaving: this.#state !== 'serving', stages };
  }

  #link(queue: string): Promise<BrokerLink> {
    const onSetup = (record: LogRecord): void => this.#log.write(record);
    return BrokerLink.open({ ...this.#spec.place, queue }, BATCH_LEASES, onSetup, this.#clock);
  }
}

function modelSettings({ MODELET_HUB: hubs = '', MODELET_MODELS: folder = '' }: NodeJS.ProcessEnv): ModelSettings {
  return {
    hub: hubs.split(',').filter((address) => address !== ''),
    ...(folder === '' ? {} : { modelFolder: folder }),
  };
}

/** Batches that a stage's workers run at a time. */
function placesOf({ modelet }: PlannedStage): number {
  return modelet.workers.length * modelet.concurrency;
}
