/**
 * Keeps messages alive when a deploy replaces nodes: in flows that contain a pipeline, a message goes to the node that
 * has the id after the deploy. Node-RED itself drops messages to a closed node and messages that a closed node sends.
 * Other flows behave as usual in Node-RED. Between deploys, no message between running nodes passes through this code.
 *
 *   moving   nodes send and receive as usual; replaced nodes pass all messages on to their successors
 *            -> closing (a deploy stops flows) | ended
 *   closing  nodes close, within one turn of the event loop                                  -> paused
 *   paused   flows restart; sent and delivered messages wait                                  -> moving | ended
 *   ended    no flow runs; messages that replaced nodes still send are lost                   -> closing | moving
 */
import type { Node, NodeAPI, NodeMessage } from 'node-red';
import { isPipelineNode } from '../../flow/graph.ts';
import { type WaysOut, waysOut } from '../../flow/ways-out.ts';
import type { LiveFlowNode, RunningLive } from '../live-nodes.ts';
import type { PipelineMessage } from '../request/messages.ts';

type HandoverState = 'moving' | 'closing' | 'paused' | 'ended';

/** Callbacks for messages that cannot continue at once. */
export interface HandoverHost {
  /** Calls `act` when flows run again. Returns false if too many calls wait already. */
  wait(act: () => void): boolean;
  /** Called if no path leads from the message's place to an HTTP response any more. */
  stranded(msg: PipelineMessage): void;
  /** Called if neither a pipeline nor an HTTP response will get the message. */
  lost(msg: PipelineMessage): void;
}

/** A node's id, and the paths of the flows while the node ran. */
interface NodePlace {
  readonly id: string;
  readonly ways: WaysOut;
}

/** The nodes of flows that contain a pipeline, from one deploy to the next. */
interface FlowGeneration {
  readonly nodes: ReadonlySet<Node>;
  readonly ways: WaysOut;
}

/** The events that Node-RED passes to its hooks. */
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

/** One message, several or none, by output. */
type SentOutputs = readonly (PipelineMessage | readonly (PipelineMessage | null)[] | null | undefined)[];

const NO_WAYS = waysOut(new Map());

/** Label of these hooks in Node-RED's list. */
const LABEL = 'modelet';

export class Handover {
  readonly #RED: NodeAPI;
  readonly #host: HandoverHost;
  #state: HandoverState = 'ended';
  #generation: FlowGeneration = { nodes: new Set(), ways: NO_WAYS };
  /** The paths before the last deploy. */
  #before: WaysOut = NO_WAYS;
  /** Ids of running nodes whose last path to an HTTP response a deploy has removed. */
  #cutOff: ReadonlySet<string> = new Set();
  /** The `send` functions that `#watch` has installed. */
  readonly #watching: WeakSet<object> = new WeakSet();
  /** Nodes that sent messages while closing. They drop no messages. */
  readonly #flushing: Set<Node> = new Set();

  constructor(RED: NodeAPI, host: HandoverHost) {
    this.#RED = RED;
    this.#host = host;
  }

  /** Call before a deploy stops flows. */
  pause(): void {
    if (!this.#isPaused) this.#hold();
    this.#state = 'closing';
    // Node-RED begins to close all nodes before the microtasks of this turn run.
    queueMicrotask(() => {
      if (this.#state === 'closing') this.#state = 'paused';
      this.#flushing.clear();
    });
  }

  /**
   * Call when flows have started; release waiting messages after it. Returns whether the deploy replaced a node or cut
   * one off from its HTTP responses.
   * @param running nodes of the new flows
   */
  resume(running: readonly RunningLive[], ways: WaysOut): boolean {
    this.#release();
    this.#state = 'moving';
    const { nodes } = this.#generation;
    this.#before = this.#generation.ways;
    this.#generation = { nodes: new Set(running.map(({ node }) => node)), ways };
    const replaced = [...nodes].filter((node) => this.#bearer(node.id) !== node);
    for (const node of replaced) this.#redirect(node, this.#before);
    const cutOff = running.filter(({ node: { id } }) => {
      return !ways.canAnswer(id) && (this.#before.canAnswer(id) || this.#cutOff.has(id));
    });
    this.#cutOff = new Set(cutOff.map(({ node }) => node.id));
    for (const { node } of cutOff) this.#watch(node);
    return replaced.length > 0 || cutOff.length > 0;
  }

  /** Call when no flow runs. Release waiting messages after it; they are lost. */
  end(): void {
    this.#release();
    this.#state = 'ended';
  }

  /** Whether a deploy has removed every path from the node to an HTTP response. */
  isCutOff(id: string): boolean {
    return this.#cutOff.has(id);
  }

  /** Whether the last deploy left no path to an HTTP response from any node that a message from this node may reach. */
  isDeadEnd(from: string): boolean {
    if (!this.#before.canAnswer(from)) return false;
    const { ways } = this.#generation;
    const passed = [...this.#before.reachedFrom(from)].filter((id) => !isResponse(this.#bearer(id)));
    return !passed.some((id) => ways.canAnswer(id));
  }

  get #isPaused(): boolean {
    return this.#state === 'closing' || this.#state === 'paused';
  }

  #bearer(id: string): LiveFlowNode | null {
    return this.#RED.nodes.getNode(id) as LiveFlowNode | null;
  }

  #hold(): void {
    const { hooks } = this.#RED as unknown as { hooks: { add(name: string, hook: (event: never) => unknown): void } };
    const { nodes, ways } = this.#generation;
    // Status nodes are excluded: a status of a closing node is not a message in progress.
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
      // A closing node reports the messages that it drops as complete. Complete nodes must not see these.
      const isDropped = this.#state === 'closing' && node.type === 'complete';
      if (!isDropped) receive(node, msg);
      return false;
    });
    hooks.add(`onComplete.${LABEL}`, ({ msg, error, node: { node } }: CompleteEvent) => {
      // Delay, join and similar nodes complete the messages that they hold when they close. Their successors get them.
      const isClosing = this.#state === 'closing' && isOurs(node) && !this.#flushing.has(node);
      if (isClosing && !isPipelineNode(node) && !error) receive(node, msg);
    });
  }

  #release(): void {
    const { hooks } = this.#RED as unknown as { hooks: { remove(name: string): void } };
    if (this.#isPaused) hooks.remove(`*.${LABEL}`);
  }

  /** Calls `act` now, or when flows run again. The messages are lost if no flow runs or too many calls wait. */
  #act(messages: readonly (PipelineMessage | null | undefined)[], at: NodePlace, act: () => void): void {
    const go = (): void => {
      if (this.#state === 'ended') this.#lose(messages, at);
      else act();
    };
    if (!this.#isPaused) go();
    else if (!this.#host.wait(go)) this.#lose(messages, at);
  }

  /** Redirects the messages of a replaced or removed node. */
  #redirect(old: LiveFlowNode, ways: WaysOut): void {
    const at = { id: old.id, ways };
    old.send = (sent?: unknown) => {
      const outputs = asOutputs(sent);
      this.#act(outputs.flat(), at, () => this.#send(old, ways, outputs));
    };
    if (old.type === 'status') return;
    old.receive = (msg: PipelineMessage = { _msgid: '' }) => this.#act([msg], at, () => this.#receive(at, msg));
  }

  /** Reports messages from a node that has no path to an HTTP response any more. */
  #watch(node: LiveFlowNode): void {
    const { send } = node;
    if (this.#watching.has(send)) return;
    node.send = (sent?: unknown) => {
      const outputs = asOutputs(sent);
      for (const msg of isPipelineNode(node) ? [outputs[0]].flat() : outputs.flat()) {
        if (msg && this.#cutOff.has(node.id)) this.#host.stranded(msg);
      }
      send.call(node, sent as NodeMessage);
    };
    this.#watching.add(node.send);
  }

  #receive(at: NodePlace, msg: PipelineMessage): void {
    const bearer = this.#bearer(at.id);
    if (!bearer) {
      this.#lose([msg], at);
      return;
    }
    if (this.isCutOff(at.id)) this.#host.stranded(msg);
    bearer.receive(msg);
  }

  #send(source: LiveFlowNode, ways: WaysOut, outputs: SentOutputs): void {
    const bearer = this.#bearer(source.id);
    if (bearer) {
      this.#sendBy(bearer, outputs);
      return;
    }
    // No node has the id any more: send along the old wires whose targets still run.
    for (const [output, sent] of outputs.entries()) {
      for (const msg of [sent].flat()) if (msg) this.#follow(source.wires?.[output] ?? [], ways, msg);
    }
  }

  /**
   * Sends from a node. If Node-RED cannot clone a message for a second wire, reports all messages as stranded.
   * @throws the error of Node-RED
   */
  #sendBy(node: LiveFlowNode, outputs: SentOutputs): void {
    const messages = outputs.flat().filter((msg) => msg !== null && msg !== undefined);
    const clients = messages.map(({ res }) => ({ res }) as PipelineMessage);
    try {
      node.send(outputs as NodeMessage[]);
    } catch (thrown) {
      for (const client of clients) this.#host.stranded(client);
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

  /** Reports messages as stranded or lost. A copy that leads to no response and no pipeline is not a loss. */
  #lose(messages: readonly (PipelineMessage | null | undefined)[], { id, ways }: NodePlace): void {
    for (const msg of messages) {
      if (msg && ways.canAnswer(id)) this.#host.stranded(msg);
      if (msg && ways.leadsOn(id)) this.#host.lost(msg);
    }
  }
}

/** Restores the outputs that a node sent from Node-RED's events, which are one for each wire. */
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

function asOutputs(sent: unknown): SentOutputs {
  if (Array.isArray(sent)) return sent as SentOutputs;
  return sent !== null && typeof sent === 'object' ? [sent as PipelineMessage] : [];
}

function isResponse(node: LiveFlowNode | null): boolean {
  return node?.type === 'http response' || node?.type === 'modelet-stream';
}
