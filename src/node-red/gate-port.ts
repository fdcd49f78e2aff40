/**
 * All that the rest of this package knows of dispatch gates: a message may hold leases, which end with its request.
 * Gates connect themselves when Node-RED loads the gate node (src/gate/node-red). Without them no message holds a lease.
 */
import type { Node, NodeStatus } from 'node-red';
import type { MessageLimits } from '../config/compile.ts';
import type { ModeletError } from '../core/errors.ts';
import type { Batching } from '../core/model.ts';
import type { Graph } from '../flow/graph.ts';
import type { NodeWarning } from '../flow/names.ts';
import type { MeasuredGate } from '../observe/export/collect.ts';
import type { GateView } from '../observe/views/gate-snapshot.ts';
import type { LiveNodes } from './live-nodes.ts';
import type { Done, PipelineMessage } from './request/messages.ts';

/**
 * The leases of a message while a pipeline or a gate has the message: no deploy can lose it there. Only the first call
 * of either method counts.
 */
export interface LeaseHold {
  /** Lets the message go on with its leases. */
  leave(): void;
  /** Ends them. @param how the request ended, or its error */
  end(how: 'done' | 'cancelled' | ModeletError): void;
}

/** The flows of a deploy. */
export interface FlowFacts {
  readonly graph: Graph;
  readonly live: LiveNodes;
  /** By stage. */
  readonly batching: ReadonlyMap<string, Batching>;
  /** Returns the label of a tab or of a subflow instance. */
  tabName(id: string): string;
}

/** A usable gate of a deploy. */
export interface GateTerms {
  /** Limits of the gate's runtime, or the defaults if it has none. */
  readonly limits: MessageLimits;
  /** Id of the runtime node that the gate belongs to; null: none. */
  readonly runtime: string | null;
  /** Warnings about the settings, in words, for the editor and the log. */
  readonly warnings: readonly string[];
}

/** The gates of a deploy. Nothing changes before `apply`. */
export interface CompiledGates {
  readonly usable: ReadonlyMap<string, GateTerms>;
  /** Why gates cannot be used, by id. */
  readonly invalid: ReadonlyMap<string, string>;
  /** Gates whose names are taken. */
  readonly doubled: readonly NodeWarning[];
  /** Returns, by id, why a gate could not be created. */
  apply(): ReadonlyMap<string, string>;
}

export interface GatePort {
  /** State of all gates, each with the id of its runtime. */
  readonly measured: readonly MeasuredGate[];
  /** Returns the views of the gates of a runtime, and of those that have none; null: of all gates. */
  viewsFor(runtime: string | null): readonly GateView[];
  badge(id: string): NodeStatus | null;
  /** Takes in a message, or carries out its order. Returns false if the node is no usable gate. */
  enter(entry: Node, msg: PipelineMessage, done: Done): boolean;
  /** Records that a pipeline has a message that holds leases. */
  hold(msg: PipelineMessage): LeaseHold;
  /** Ends the leases of a message that has reached a collector, which tells how its request ended. */
  collected(msg: PipelineMessage): void;
  /** Ends the leases of a message that a deploy has lost. */
  lost(msg: PipelineMessage): void;
  /** Call when a runtime has reported its load. */
  loadChanged(): void;
  compile(drawn: FlowFacts): CompiledGates;
  closeAll(error: ModeletError): void;
  /** Resolves when no process of a gate runs any more. */
  closed(): Promise<void>;
}

const NOTHING_HELD: LeaseHold = { leave: () => {}, end: () => {} };

export function holdLeases(gates: GatePort, msg: PipelineMessage): LeaseHold {
  return msg.modelet?.leases ? gates.hold(msg) : NOTHING_HELD;
}

export const NO_GATES: GatePort = {
  measured: [],
  viewsFor: () => [],
  badge: () => null,
  enter: () => false,
  hold: () => NOTHING_HELD,
  collected: () => {},
  lost: () => {},
  loadChanged: () => {},
  compile: () => ({ usable: new Map(), invalid: new Map(), doubled: [], apply: () => new Map() }),
  closeAll: () => {},
  closed: async () => {},
};
