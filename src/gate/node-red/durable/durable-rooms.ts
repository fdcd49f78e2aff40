/** The stores of the durable gates of one Node-RED, by node id. Each store has its own process. */
import { isDeepStrictEqual } from 'node:util';
import type { NodeAPI } from 'node-red';
import { ownFile } from '../../../config/folders.ts';
import { systemClock } from '../../../core/clock.ts';
import type { BrokerPlace } from '../../../core/model.ts';
import { brokerSecrets } from '../../../node-red/deploy/config-nodes.ts';
import type { RequestContext } from '../../../node-red/request/context.ts';
import type { Log } from '../../../observe/log/log.ts';
import type { GateSnapshot, StoreSnapshot } from '../../../observe/views/gate-snapshot.ts';
import type { Machine } from '../../../runtime/service/runtime-pins.ts';
import type { Gate } from '../../gate.ts';
import { QueueClient } from '../../store/client/queue-client.ts';
import type { DeployedGate } from '../gate-deployment.ts';
import type { MessageLeases } from '../message-leases.ts';
import { outletOf, type StorePlace } from './durable-request.ts';
import { DurableRoom } from './durable-room.ts';

export interface RoomsHost {
  readonly context: RequestContext;
  readonly leases: MessageLeases;
  machine(): Machine;
  readonly log: Log;
  onChange(): void;
}

interface StoreAddress {
  /** Path of the file; with a broker, its address and the name of the queue, for people. */
  readonly file: string;
  readonly broker?: BrokerPlace;
}

interface OpenedRoom {
  readonly room: DurableRoom;
  readonly client: QueueClient;
  readonly address: StoreAddress;
  deployed: DeployedGate;
}

/** Shortest time between two log entries with the same message. */
const TOLD_EVERY_MS = 10_000;

export class DurableRooms {
  readonly #host: RoomsHost;
  readonly #opened: Map<string, OpenedRoom> = new Map();
  /** Stores that are being closed, by gate id. */
  readonly #closing: Map<string, Promise<void>> = new Map();
  readonly #told: Map<string, number> = new Map();

  constructor(host: RoomsHost) {
    this.#host = host;
  }

  /** Returns the store of a gate; undefined for a gate that is not durable. */
  place(id: string): StorePlace | undefined {
    const opened = this.#opened.get(id);
    return opened && this.#placeOf(opened);
  }

  /** Opens or reconfigures the store of a durable gate. Closes the store of a gate that is no longer durable. */
  apply(gate: Gate, deployed: DeployedGate): void {
    const opened = this.#opened.get(deployed.id);
    if (deployed.config.store === 'memory') {
      void this.close(deployed.id);
      return;
    }
    const address = addressOfStore(this.#host.context.RED, deployed);
    if (opened && isDeepStrictEqual(opened.address, address)) {
      opened.deployed = deployed;
      opened.room.reconfigure(deployed.config);
      return;
    }
    // Another place has its own items.
    if (opened) void this.close(deployed.id);
    this.#opened.set(deployed.id, this.#open(gate, deployed, address));
  }

  /** Closes a store and gives back its running items. The file stays and is opened again if the gate comes back. */
  close(id: string): Promise<void> {
    const opened = this.#opened.get(id);
    if (!opened) return Promise.resolve();
    this.#opened.delete(id);
    const closed = opened.room.close().catch((error: Error) => this.#tell(opened.deployed, error));
    this.#closing.set(id, closed);
    return closed.then(() => {
      if (this.#closing.get(id) === closed) this.#closing.delete(id);
    });
  }

  /** Resolves when all stores that are being closed are closed. */
  async closed(): Promise<void> {
    await Promise.all(this.#closing.values());
  }

  /** Adds the state of the gate's store to its snapshot. */
  complete(snapshot: GateSnapshot): GateSnapshot {
    const opened = this.#opened.get(snapshot.id);
    if (!opened) return snapshot;
    const { room, client } = opened;
    const { ready = 0, delayed = 0, oldestMs = 0 } = room.stats ?? {};
    const decisions = { ...snapshot.decisions };
    for (const name of Object.keys(decisions) as (keyof typeof decisions)[]) {
      decisions[name] += room.decisions[name] ?? 0;
    }
    const waiting = ready + delayed;
    return {
      ...snapshot,
      ...closedBy(client),
      waiting,
      oldestMs: waiting > 0 ? oldestMs : null,
      decisions,
      store: storeOf(room, client),
    };
  }

  #open(gate: Gate, deployed: DeployedGate, address: StoreAddress): OpenedRoom {
    const { id, config } = deployed;
    const present = (): DeployedGate => this.#opened.get(id)?.deployed ?? deployed;
    const client = new QueueClient({
      ...address,
      limits: config,
      ...this.#host.machine(),
      startAfter: this.#closing.get(id) ?? Promise.resolve(),
      onChange: () => this.#host.onChange(),
      onLog: (record) => this.#logOf(present()).write(record),
    });
    const events = {
      onChange: () => this.#host.onChange(),
      onTrouble: (error: Error) => this.#tell(present(), error),
    };
    const place = (): StorePlace => this.#placeOf(opened);
    const outlet = outletOf(place, present, events);
    const room = new DurableRoom({
      gate,
      queue: client,
      config,
      maxBytes: deployed.limits.maxPayloadBytes,
      clock: systemClock,
      outlet,
    });
    const opened: OpenedRoom = { room, client, address, deployed };
    return opened;
  }

  #placeOf({ room, deployed }: OpenedRoom): StorePlace {
    return {
      context: this.#host.context,
      leases: this.#host.leases,
      room,
      onDropped: (names) => {
        const text = `not stored, as no other process can use it: ${names.map((name) => `msg.${name}`).join(', ')}`;
        this.#tell(deployed, new Error(text));
      },
    };
  }

  #tell(gate: DeployedGate, { message }: Error): void {
    const key = `${gate.id} ${message}`;
    const now = systemClock.now();
    for (const [told, at] of this.#told) if (now - at >= TOLD_EVERY_MS) this.#told.delete(told);
    if (this.#told.has(key)) return;
    this.#told.set(key, now);
    this.#logOf(gate).write({ level: 'warn', message });
  }

  #logOf({ id, name }: DeployedGate): Log {
    return this.#host.log.of({ id, gate: name });
  }
}

/** Shows a gate as closed while its store fails: it then takes and admits nothing, regardless of its budget. */
function closedBy({ error }: QueueClient): Partial<GateSnapshot> {
  return error ? { open: false, why: `closed: ${error.message}` } : {};
}

function storeOf({ stats }: DurableRoom, { file, pid, restarts, error, warning }: QueueClient): StoreSnapshot {
  return {
    file,
    pid,
    restarts,
    error: error?.message ?? null,
    warning,
    running: stats?.leased ?? 0,
    delayed: stats?.delayed ?? 0,
    dead: stats?.dead ?? 0,
    deadLetters: stats?.deadLetters ?? [],
  };
}

function addressOfStore(RED: NodeAPI, { id, broker }: Pick<DeployedGate, 'id' | 'broker'>): StoreAddress {
  // Node-RED's own node ids are safe in a path and in a key; ids in an imported flow may not be.
  const name = encodeURIComponent(id);
  if (!broker) return { file: ownFile(RED.settings, `${name}.sqlite`) };
  const { url, prefix } = broker.config;
  const queue = `gate-${name}`;
  const { secret: _, ...access } = brokerSecrets(RED, broker.id, broker.config);
  return { file: `${url}/${prefix}:${queue}`, broker: { url, prefix, queue, ...access } };
}
