/**
 * The gates of one Node-RED, by node id. Gates survive deploys: a gate keeps its waiting and admitted requests as long
 * as the deploy still contains a node with its id.
 */
import type { Node, NodeStatus } from 'node-red';
import { systemClock } from '../../core/clock.ts';
import { ModeletError } from '../../core/errors.ts';
import type { StageLoad } from '../../core/model.ts';
import type { CompiledGates, FlowFacts, GatePort, LeaseHold } from '../../node-red/gate-port.ts';
import { logFault } from '../../node-red/log.ts';
import { refuse } from '../../node-red/request/error-exit.ts';
import type { Done, PipelineMessage } from '../../node-red/request/messages.ts';
import type { MeasuredGate } from '../../observe/export/collect.ts';
import type { GateSnapshot, GateView } from '../../observe/views/gate-snapshot.ts';
import type { Service } from '../../runtime/service/service.ts';
import { Gate, type GateOrder, type Supply } from '../gate.ts';
import type { Credentials as SourceCredentials } from '../source.ts';
import { isStoreOrder, obey } from './durable/durable-answers.ts';
import { type StorePlace, storeMessage } from './durable/durable-request.ts';
import { DurableRooms, type RoomsHost } from './durable/durable-rooms.ts';
import { gateBadge, withElsewhere } from './gate-badge.ts';
import { type DeployedGate, deployGates, membersOf } from './gate-deployment.ts';
import { GateRequest, type OpenGate } from './gate-request.ts';
import { makeSource, type SourceHost, sourceKey } from './gate-sources.ts';
import { endOfMessage, MessageLeases } from './message-leases.ts';

/** The pipeline, as gates need it. */
export interface GatesHost extends Omit<RoomsHost, 'leases'> {
  /** Returns the service of a runtime node, or undefined while none runs. */
  service(runtime: string): Service | undefined;
}

interface RunningGate {
  readonly gate: Gate;
  deployed: DeployedGate;
  readonly supply: Supply;
  /** `sourceKey` of the settings that the supply was created from; '' for members. */
  readonly key: string;
}

export const GATE_ORDERS: readonly GateOrder[] = ['open', 'close', 'auto', 'flush', 'drop'];

function isOrder(order: unknown): order is GateOrder {
  return GATE_ORDERS.includes(order as GateOrder);
}

export class Gates implements GatePort {
  readonly #around: GatesHost;
  readonly #leases: MessageLeases = new MessageLeases();
  /** Stores of the durable gates. */
  readonly rooms: DurableRooms;
  readonly #hosts: Map<string, RunningGate> = new Map();
  /** Callbacks of sources that watch the load. */
  readonly #watchers: Set<() => void> = new Set();
  /** Node instances whose warnings have been logged. */
  readonly #warned: WeakSet<object> = new WeakSet();

  constructor(around: GatesHost) {
    this.#around = around;
    this.rooms = new DurableRooms({ ...around, leases: this.#leases });
  }

  #get(id: string): OpenGate | undefined {
    const host = this.#hosts.get(id);
    if (!host) return undefined;
    const { gate, deployed } = host;
    const count = (error: ModeletError): void => this.#serviceOf(deployed)?.desk.countRefused(error);
    return { gate, deployed, leases: this.#leases, count };
  }

  hold(msg: PipelineMessage): LeaseHold {
    return this.#leases.enter(msg);
  }

  collected(msg: PipelineMessage): void {
    this.#leases.end(msg, endOfMessage(msg));
  }

  lost(msg: PipelineMessage): void {
    this.#leases.end(msg, { kind: 'lost' });
  }

  /** Takes in a request, in memory or on disk, or carries out the order in `msg.gate`. */
  enter(entry: Node, msg: PipelineMessage, done: Done): boolean {
    const gate = this.#get(entry.id);
    if (!gate) return false;
    const place = this.rooms.place(entry.id);
    if (msg['gate'] !== undefined) this.#obey(entry, msg, done, place);
    else if (place) storeMessage(place, entry, gate, msg, done);
    else new GateRequest(this.#around.context, entry, gate, msg, done).begin();
    return true;
  }

  #obey(entry: Node, msg: PipelineMessage, done: Done, place: StorePlace | undefined): void {
    const order = msg['gate'];
    const { context } = this.#around;
    if (place && isStoreOrder(order)) {
      obey(context, entry, place.room, order, msg, done);
      return;
    }
    const error = this.order(entry.id, order);
    if (error) refuse(context, entry, msg, done, error);
    else done();
  }

  /** Carries out an order. Returns the error if the gate cannot do so, else null. */
  order(id: string, order: unknown): ModeletError | null {
    const gate = this.#hosts.get(id)?.gate;
    if (!gate) return new ModeletError('config_invalid', 'the gate cannot be used as it is configured');
    if (!isOrder(order)) {
      return new ModeletError('invalid_input', `msg.gate must be one of ${GATE_ORDERS.join(', ')}`);
    }
    const room = this.rooms.place(id)?.room;
    if (room && (order === 'flush' || order === 'drop')) this.#quietly(room[order]());
    else gate.control(order);
    return null;
  }

  get measured(): MeasuredGate[] {
    return [...this.#hosts.values()].map((host) => ({
      snapshot: this.#snapshotOf(host),
      runtime: host.deployed.runtime,
    }));
  }

  viewsFor(runtime: string | null): GateView[] {
    const seen = [...this.#hosts].filter(
      ([, { deployed }]) => runtime === null || (deployed.runtime ?? runtime) === runtime,
    );
    return seen.flatMap(([id]) => this.view(id) ?? []);
  }

  /** Returns the view of a gate; undefined if the gate is not deployed or unusable. */
  view(id: string): GateView | undefined {
    const host = this.#hosts.get(id);
    if (!host) return undefined;
    const snapshot = this.#snapshotOf(host);
    const { stage, warnings } = host.deployed;
    const name = stage && (this.#around.context.deployment().nodes.get(stage)?.name ?? stage);
    const more = [snapshot.source.rare, snapshot.store?.warning ?? null].filter((warning) => warning !== null);
    return { ...snapshot, stage: name, warnings: [...warnings, ...more] };
  }

  badge(id: string): NodeStatus | null {
    const host = this.#hosts.get(id);
    return host ? withElsewhere(gateBadge(this.#snapshotOf(host)), host.deployed.elsewhere) : null;
  }

  #snapshotOf({ gate }: RunningGate): GateSnapshot {
    return this.rooms.complete(gate.snapshot());
  }

  compile(drawn: FlowFacts): CompiledGates {
    const { gates, invalid, doubled } = deployGates(drawn);
    return { usable: gates, invalid, doubled, apply: () => this.#apply(gates) };
  }

  /** Applies the gates of a deploy. Returns, by id, why a gate could not be created. */
  #apply(deployed: ReadonlyMap<string, DeployedGate>): Map<string, string> {
    const invalid = new Map<string, string>();
    for (const gate of membersFirst(deployed)) {
      try {
        this.#hosts.set(gate.id, this.#host(gate));
        this.#warn(gate);
      } catch (thrown) {
        invalid.set(gate.id, (thrown as Error).message);
      }
    }
    const gone = [...this.#hosts.keys()].filter((id) => !deployed.has(id) || invalid.has(id));
    this.#close(gone, new ModeletError('shutting_down', 'the gate was removed'));
    return invalid;
  }

  closeAll(error: ModeletError): void {
    this.#close([...this.#hosts.keys()], error);
  }

  closed(): Promise<void> {
    return this.rooms.closed();
  }

  /** Notifies sources that a runtime has reported its load. */
  loadChanged(): void {
    for (const changed of [...this.#watchers]) changed();
  }

  /** Returns the load of a stage as its runtime last reported it; null before the first report. */
  #loadOf({ runtime, stage }: Pick<DeployedGate, 'runtime' | 'stage'>): StageLoad | null {
    const service = runtime === null ? undefined : this.#around.service(runtime);
    return stage === null ? null : (service?.load(stage) ?? null);
  }

  /** Returns the host for the source of a gate. @param otherwise the load that counts while the gate is not deployed */
  sourceHost(id: string, otherwise: Pick<DeployedGate, 'runtime' | 'stage'>): SourceHost {
    return {
      RED: this.#around.context.RED,
      node: () => this.#around.context.live.get(id)?.node,
      readLoad: () => this.#loadOf(this.#hosts.get(id)?.deployed ?? otherwise),
      watchLoad: (changed) => {
        this.#watchers.add(changed);
        return () => this.#watchers.delete(changed);
      },
    };
  }

  /** Reconfigures the existing gate, or creates it. @throws ModeletError `config_invalid`. */
  #host(deployed: DeployedGate): RunningGate {
    const { id, name, config } = deployed;
    const known = this.#hosts.get(id);
    const { supply, key } = this.#supply(deployed, known);
    const { gate } = known ?? { gate: this.#make(deployed, supply) };
    if (known) this.#quietly(gate.reconfigure(config, supply, name));
    this.rooms.apply(gate, deployed);
    return { gate, deployed, supply, key };
  }

  #make({ id, name, config }: DeployedGate, source: Supply): Gate {
    const place = (): DeployedGate | undefined => this.#hosts.get(id)?.deployed;
    const gate = new Gate({
      id,
      name,
      config,
      source,
      clock: systemClock,
      ready: () => readyOf(place(), (deployed) => this.#loadOf(deployed)),
      onChange: () => this.#around.onChange(),
      onThrown: (error) => logFault(this.#around.context.RED, 'a callback of a gate threw', error),
    });
    gate.admission.onEnded((_, lease) => this.#leases.forget(lease.id));
    return gate;
  }

  #supply(deployed: DeployedGate, known: RunningGate | undefined): Pick<RunningGate, 'supply' | 'key'> {
    const { RED, live } = this.#around.context;
    const { id, config } = deployed;
    const members = membersOf(config).map((member) => this.#hosts.get(member)?.gate.admission);
    if (members.length > 0) {
      const present = members.filter((member) => member !== undefined);
      if (present.length < members.length) throw new ModeletError('config_invalid', 'a member cannot be used');
      const before = known && 'members' in known.supply ? known.supply.members : [];
      const same = before.length === present.length && present.every((member, index) => member === before[index]);
      return { supply: known && same ? known.supply : { members: present }, key: '' };
    }
    const credentials = (live.get(id)?.node.credentials ?? {}) as SourceCredentials;
    const key = sourceKey(RED, config, credentials);
    if (known?.key === key) return known;
    return { supply: makeSource(this.sourceHost(id, deployed), config, credentials), key };
  }

  #serviceOf({ runtime }: DeployedGate): Service | undefined {
    return runtime === null ? undefined : this.#around.service(runtime);
  }

  #warn({ id, warnings }: DeployedGate): void {
    const node = this.#around.context.live.get(id)?.node;
    if (!node || this.#warned.has(node)) return;
    this.#warned.add(node);
    for (const warning of warnings) node.warn(warning);
  }

  #close(ids: readonly string[], error: ModeletError): void {
    for (const id of ids) {
      const host = this.#hosts.get(id);
      this.#hosts.delete(id);
      if (!host) continue;
      // Close the store first, so that it gives its claims back instead of ending them.
      this.#quietly(this.rooms.close(id));
      this.#quietly(host.gate.close(error));
    }
  }

  #quietly(work: Promise<void>): void {
    work.catch((thrown: unknown) =>
      logFault(this.#around.context.RED, 'a gate failed to carry out an order or a deploy', thrown),
    );
  }
}

/** Returns the number of ready workers. A gate without a stage counts as one worker. */
function readyOf(deployed: DeployedGate | undefined, loadOf: (deployed: DeployedGate) => StageLoad | null): number {
  if (!deployed) return 0;
  return deployed.stage === null ? 1 : (loadOf(deployed)?.ready ?? 0);
}

/** Orders gates so that members come before their composites. The gates must contain no cycle. */
function membersFirst(deployed: ReadonlyMap<string, DeployedGate>): DeployedGate[] {
  const ordered = new Set<DeployedGate>();
  const add = (gate: DeployedGate): void => {
    for (const member of membersOf(gate.config)) {
      const found = deployed.get(member);
      if (found && !ordered.has(found)) add(found);
    }
    ordered.add(gate);
  };
  for (const gate of deployed.values()) add(gate);
  return [...ordered];
}
