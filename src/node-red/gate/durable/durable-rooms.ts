/** The stores of the durable gates of one Node-RED, by the ids of their nodes. Each has a file and a process. */
import { join } from 'node:path';
import { systemClock } from '../../../core/clock.ts';
import type { Gate } from '../../../gate/gate.ts';
import type { GateSnapshot, StoreSnapshot } from '../../../observe/views/gate-snapshot.ts';
import type { Machine } from '../../../server/runtime-pins.ts';
import { QueueClient } from '../../../store/client/queue-client.ts';
import type { DeployedGate } from '../../deploy/gate-deployment.ts';
import { writeLog } from '../../log.ts';
import type { RequestContext } from '../../request/context.ts';
import { outletOf, type StorePlace } from './durable-request.ts';
import { DurableRoom } from './durable-room.ts';

export interface RoomsHost {
  pipeline(): RequestContext;
  machine(): Machine;
  onChange(): void;
}

interface Opened {
  readonly room: DurableRoom;
  readonly client: QueueClient;
  deployed: DeployedGate;
}

/** The same trouble is told so often. */
const TOLD_EVERY_MS = 10_000;

export class DurableRooms {
  readonly #context: RoomsHost;
  readonly #opened: Map<string, Opened> = new Map();
  /** Files that are being closed. */
  readonly #closing: Map<string, Promise<void>> = new Map();
  readonly #told: Map<string, number> = new Map();

  constructor(context: RoomsHost) {
    this.#context = context;
  }

  /** Where a message for the gate is stored; undefined for a gate that is not durable. */
  place(id: string): StorePlace | undefined {
    const opened = this.#opened.get(id);
    return opened && this.#placeOf(opened);
  }

  /** Opens the store of a durable gate or goes on with it; of any other it closes what there was. */
  apply(gate: Gate, deployed: DeployedGate): void {
    const opened = this.#opened.get(deployed.id);
    if (deployed.config.store === 'memory') {
      void this.close(deployed.id);
    } else if (opened) {
      opened.deployed = deployed;
      opened.room.reconfigure(deployed.config);
    } else {
      this.#opened.set(deployed.id, this.#open(gate, deployed));
    }
  }

  /** Gives back what runs. The file stays: it is opened again when a gate with the id comes back. */
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

  /** Resolves when all that is being closed is. */
  async closed(): Promise<void> {
    await Promise.all(this.#closing.values());
  }

  /** What a gate shows of itself, with what its store knows. */
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

  #open(gate: Gate, deployed: DeployedGate): Opened {
    const { id, config } = deployed;
    const { RED } = this.#context.pipeline();
    const present = (): DeployedGate => this.#opened.get(id)?.deployed ?? deployed;
    const client = new QueueClient({
      // Ids of nodes have no characters that are something else in a path, but imported ones may.
      file: join(RED.settings.userDir ?? process.cwd(), 'modelets', `${encodeURIComponent(id)}.sqlite`),
      limits: config,
      ...this.#context.machine(),
      startAfter: this.#closing.get(id) ?? Promise.resolve(),
      onChange: () => this.#context.onChange(),
      onLog: (record) => writeLog(RED, present(), record),
    });
    const events = {
      onChange: () => this.#context.onChange(),
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
    const opened: Opened = { room, client, deployed };
    return opened;
  }

  #placeOf({ room, deployed }: Opened): StorePlace {
    return {
      context: this.#context.pipeline(),
      room,
      maxBytes: deployed.limits.maxPayloadBytes,
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
    writeLog(this.#context.pipeline().RED, gate, { level: 'warn', message });
  }
}

/** Whatever its budget: a gate without its store takes and admits nothing. */
function closedBy({ error }: QueueClient): Partial<GateSnapshot> {
  return error ? { open: false, why: `closed: ${error.message}` } : {};
}

function storeOf({ stats }: DurableRoom, { file, pid, restarts, error }: QueueClient): StoreSnapshot {
  return {
    file,
    pid,
    restarts,
    error: error?.message ?? null,
    running: stats?.leased ?? 0,
    delayed: stats?.delayed ?? 0,
    dead: stats?.dead ?? 0,
    deadLetters: stats?.deadLetters ?? [],
  };
}
