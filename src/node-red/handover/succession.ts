/**
 * A deploy replaces nodes, and messages must not notice: in flows that hold a pipeline, a message goes to the node that
 * bears the id afterwards. Node-RED itself drops what comes to a node that was closed, and what such a node still sends.
 * Other flows stay as Node-RED has them, and between deploys no message passes through anything of this.
 *
 *   moving   nodes send and receive as usual; those that were replaced pass all on to their successors
 *            -> closing (a deploy stops flows) | ended
 *   closing  nodes close, within one turn of the event loop                                  -> paused
 *   paused   flows restart: what is sent and what is delivered waits                          -> moving | ended
 *   ended    no flow runs: what replaced nodes still send is lost                             -> closing | moving
 */
import type { Node, NodeAPI, NodeMessage } from 'node-red';
import type { PipelineMessage } from '../request/messages.ts';
import { FunctionTimers } from './function-timers.ts';
import type { RunningNode, WiredNode } from './running-nodes.ts';
import { isPipelineNode, NO_WAYS, type WaysOut } from './ways-out.ts';

type SuccessionState = 'moving' | 'closing' | 'paused' | 'ended';

/** What becomes of messages that cannot simply go on. */
export interface Custody {
  /** Has it done when flows run again. False if too much waits already. */
  wait(act: () => void): boolean;
  /** The way to an HTTP response is gone from where the message is. */
  stranded(msg: PipelineMessage): void;
  /** No pipeline and no HTTP response gets the message. */
  lost(msg: PipelineMessage): void;
}

/** A node's id, and where ways led from it while it ran. */
interface Place {
  readonly id: string;
  readonly ways: WaysOut;
}

/** The nodes of flows that hold a pipeline, from one deploy to the next. */
interface Generation {
  readonly nodes: ReadonlySet<Node>;
  readonly ways: WaysOut;
}

/** As Node-RED tells its hooks of them. */
interface SendEvent {
  readonly msg: PipelineMessage;
  readonly source: { readonly node: Node; readonly port: number };
  readonly destination: { readonly id: string };
}
interface ReceiveEvent {
  readonly msg: PipelineMessage;
  readonly destination: { readonly node: Node };
}
interface CompleteEvent {
  readonly msg: PipelineMessage;
  readonly error?: unknown;
  readonly node: { readonly node: Node };
}

/** By output: one message, several, or none. */
type Outputs = readonly (PipelineMessage | readonly (PipelineMessage | null)[] | null | undefined)[];

/** In Node-RED's list of hooks. */
const LABEL = 'modelet';

export class Succession {
  readonly #RED: NodeAPI;
  readonly #custody: Custody;
  readonly #timers: FunctionTimers;
  #state: SuccessionState = 'ended';
  #generation: Generation = { nodes: new Set(), ways: NO_WAYS };
  /** The ways before the last deploy. */
  #before: WaysOut = NO_WAYS;
  /** Nodes that run and from which a deploy has taken the way to an HTTP response. */
  #cutOff: ReadonlySet<string> = new Set();
  /** What such nodes send by. */
  readonly #watching: WeakSet<object> = new WeakSet();
  /** Nodes that have sent something as they closed: they drop nothing. */
  readonly #flushing: Set<Node> = new Set();

  constructor(RED: NodeAPI, custody: Custody) {
    this.#RED = RED;
    this.#custody = custody;
    this.#timers = new FunctionTimers(RED);
  }

  /** Flows are about to stop for a deploy. @param isAwaited somebody waits for messages that are under way */
  pause(isAwaited: boolean): void {
    if (!this.#isPaused) this.#hold();
    this.#state = 'closing';
    const { nodes, ways } = this.#generation;
    if (isAwaited) this.#timers.take([...nodes].filter(({ id }) => ways.isPassed(id)));
    // Node-RED begins to close all nodes before it gives up this turn.
    queueMicrotask(() => {
      if (this.#state === 'closing') this.#state = 'paused';
      this.#flushing.clear();
      this.#timers.giveBack();
    });
  }

  /** Flows have started: these are their nodes. What waited is to be let go after this. False if that changes nothing. */
  resume(running: readonly RunningNode[], ways: WaysOut): boolean {
    this.#release();
    this.#state = 'moving';
    const { nodes } = this.#generation;
    this.#before = this.#generation.ways;
    this.#generation = { nodes: new Set(running.map(({ node }) => node)), ways };
    const replaced = [...nodes].filter((node) => this.#bearer(node.id) !== node);
    for (const node of replaced) this.#bequeath(node, this.#before);
    const cutOff = running.filter(({ node: { id } }) => {
      return !ways.canAnswer(id) && (this.#before.canAnswer(id) || this.#cutOff.has(id));
    });
    this.#cutOff = new Set(cutOff.map(({ node }) => node.id));
    for (const { node } of cutOff) this.#watch(node);
    return replaced.length > 0 || cutOff.length > 0;
  }

  /** No flow runs. What waited is to be let go after this, and is lost. */
  end(): void {
    this.#release();
    this.#state = 'ended';
    this.endTimers();
  }

  /** Nobody waits any more for what closed function nodes have begun. */
  endTimers(): void {
    this.#timers.end();
  }

  /** A deploy has taken the way to an HTTP response from the node. */
  isCutOff(id: string): boolean {
    return this.#cutOff.has(id);
  }

  /** The last deploy has left no way to an HTTP response anywhere on a message's ways from a node. */
  isDeadEnd(from: string): boolean {
    if (!this.#before.canAnswer(from)) return false;
    const { ways } = this.#generation;
    const passed = [...this.#before.reachedFrom(from)].filter((id) => this.#bearer(id)?.type !== 'http response');
    return !passed.some((id) => ways.canAnswer(id));
  }

  get #isPaused(): boolean {
    return this.#state === 'closing' || this.#state === 'paused';
  }

  #bearer(id: string): WiredNode | null {
    return this.#RED.nodes.getNode(id) as WiredNode | null;
  }

  #hold(): void {
    const { hooks } = this.#RED as unknown as { hooks: { add(name: string, hook: (event: never) => unknown): void } };
    const { nodes, ways } = this.#generation;
    // A status is of a node that closes, and no message under way.
    const isOurs = (node: Node | undefined): node is Node => !!node && nodes.has(node) && node.type !== 'status';
    const receive = ({ id }: Node, msg: PipelineMessage): void =>
      this.#act([msg], { id, ways }, () => this.#receive({ id, ways }, msg));
    hooks.add(`onSend.${LABEL}`, (events: readonly SendEvent[]) => {
      const source = events[0]?.source.node;
      if (!isOurs(source)) return undefined;
      if (this.#state === 'closing') this.#flushing.add(source);
      const outputs = outputsOf(events);
      this.#act(outputs.flat(), { id: source.id, ways }, () => this.#send(source, ways, outputs));
      return false;
    });
    hooks.add(`onReceive.${LABEL}`, ({ msg, destination: { node } }: ReceiveEvent) => {
      if (!isOurs(node)) return undefined;
      // Nothing is complete that a node drops as it closes.
      const isDropped = this.#state === 'closing' && node.type === 'complete';
      if (!isDropped) receive(node, msg);
      return false;
    });
    hooks.add(`onComplete.${LABEL}`, ({ msg, error, node: { node } }: CompleteEvent) => {
      // A delay, a join and their like are done with what they hold as they close: their successors get it anew.
      const isClosing = this.#state === 'closing' && isOurs(node) && !this.#flushing.has(node);
      if (isClosing && !isPipelineNode(node) && !error) receive(node, msg);
    });
  }

  #release(): void {
    const { hooks } = this.#RED as unknown as { hooks: { remove(name: string): void } };
    if (this.#isPaused) hooks.remove(`*.${LABEL}`);
  }

  /** Now, or when flows run. */
  #act(messages: readonly (PipelineMessage | null | undefined)[], at: Place, act: () => void): void {
    const go = (): void => {
      if (this.#state === 'ended') this.#lose(messages, at);
      else act();
    };
    if (!this.#isPaused) go();
    else if (!this.#custody.wait(go)) this.#lose(messages, at);
  }

  /** A node was replaced or removed. */
  #bequeath(old: WiredNode, ways: WaysOut): void {
    const at = { id: old.id, ways };
    old.send = (sent?: unknown) => {
      const outputs = asOutputs(sent);
      this.#act(outputs.flat(), at, () => this.#send(old, ways, outputs));
    };
    if (old.type === 'status') return;
    old.receive = (msg: PipelineMessage = { _msgid: '' }) => this.#act([msg], at, () => this.#receive(at, msg));
  }

  /** Tells of messages that a node sends which has no way to an HTTP response any more. */
  #watch(node: WiredNode): void {
    const { send } = node;
    if (this.#watching.has(send)) return;
    node.send = (sent?: unknown) => {
      const outputs = asOutputs(sent);
      for (const msg of isPipelineNode(node) ? [outputs[0]].flat() : outputs.flat()) {
        if (msg && this.#cutOff.has(node.id)) this.#custody.stranded(msg);
      }
      send.call(node, sent as NodeMessage);
    };
    this.#watching.add(node.send);
  }

  #receive(at: Place, msg: PipelineMessage): void {
    const bearer = this.#bearer(at.id);
    if (!bearer) {
      this.#lose([msg], at);
      return;
    }
    if (this.isCutOff(at.id)) this.#custody.stranded(msg);
    bearer.receive(msg);
  }

  #send(source: WiredNode, ways: WaysOut, outputs: Outputs): void {
    const bearer = this.#bearer(source.id);
    if (bearer) {
      this.#sendBy(bearer, outputs);
      return;
    }
    // Nobody bears the id: along its wires, as far as they still lead anywhere.
    for (const [output, sent] of outputs.entries()) {
      for (const msg of [sent].flat()) if (msg) this.#follow(source.wires?.[output] ?? [], ways, msg);
    }
  }

  /** @throws what Node-RED throws where it cannot clone a message for a second wire: nobody gets that */
  #sendBy(node: WiredNode, outputs: Outputs): void {
    const messages = outputs.flat().filter((msg) => msg !== null && msg !== undefined);
    const clients = messages.map(({ res }) => ({ res }) as PipelineMessage);
    try {
      node.send(outputs as NodeMessage[]);
    } catch (thrown) {
      for (const client of clients) this.#custody.stranded(client);
      throw thrown;
    }
  }

  #follow(wires: readonly string[], ways: WaysOut, msg: PipelineMessage): void {
    const found = wires.filter((id) => this.#bearer(id));
    if (found.length === 0) for (const id of wires) this.#lose([msg], { id, ways });
    for (const [place, id] of found.entries()) {
      this.#receive({ id, ways }, place === 0 ? msg : this.#RED.util.cloneMessage(msg));
    }
  }

  /** A copy that some node would only have looked at is no loss. */
  #lose(messages: readonly (PipelineMessage | null | undefined)[], { id, ways }: Place): void {
    for (const msg of messages) {
      if (msg && ways.canAnswer(id)) this.#custody.stranded(msg);
      if (msg && ways.leadsOn(id)) this.#custody.lost(msg);
    }
  }
}

/** What a node was told to send, from what Node-RED has made of it: one event for each wire. */
function outputsOf(events: readonly SendEvent[]): PipelineMessage[][] {
  const outputs: PipelineMessage[][] = [];
  const firstWires = new Map<number, string>();
  for (const { msg, source, destination } of events) {
    const { port } = source;
    const first = firstWires.get(port) ?? destination.id;
    firstWires.set(port, first);
    while (outputs.length <= port) outputs.push([]);
    if (destination.id === first) outputs[port]?.push(msg);
  }
  return outputs;
}

function asOutputs(sent: unknown): Outputs {
  if (Array.isArray(sent)) return sent as Outputs;
  return sent !== null && typeof sent === 'object' ? [sent as PipelineMessage] : [];
}
