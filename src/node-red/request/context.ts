/**
 * The pipeline as a request sees it. Callers read each member again at every use, because a deploy may change it.
 * `Pipeline` creates the context; the files of requests depend only on this interface.
 */
import type { Node, NodeAPI, NodeStatus } from 'node-red';
import { ModeletError } from '../../core/errors.ts';
import type { Tracing } from '../../observe/export/tracing.ts';
import type { Deployment } from '../deploy/deployment.ts';
import type { GatePort } from '../gate-port.ts';
import type { LiveNodes } from '../live-nodes.ts';
import type { HttpClients } from './http-clients.ts';
import type { PipelineMessage } from './messages.ts';
import type { Sequencers, Turns } from './sequencer.ts';

/** A request in the engine. A deploy may remove the nodes that would send its result on. */
export interface RequestInEngine {
  /** Ends the request at once if a deploy has removed the nodes that would send its result on. */
  endIfStranded(): void;
}

/** What Node-RED's flows do, see handover/lifecycle.ts. */
export type FlowTag = 'stopped' | 'starting' | 'running';

interface BranchFailures {
  /** Takes an error as the outcome of a branch. Returns false if the node cannot gather. */
  failed(id: string, msg: PipelineMessage, error: ModeletError, failing: string): boolean;
}

export interface RequestContext {
  readonly RED: NodeAPI;
  readonly live: LiveNodes;
  readonly clients: HttpClients;
  readonly joins: BranchFailures;
  readonly open: Set<RequestInEngine>;
  readonly sequencers: Sequencers;
  readonly turns: Turns;
  /** Shows a status that code has set. */
  showStatus(node: Node, status: NodeStatus): void;
  /** Whether the flows have stopped for good. A message that a node sends now reaches no other node. */
  isStopped(): boolean;
  /** Whether a deploy has removed every path from a node to an HTTP response. */
  isCutOff(id: string): boolean;
  deployment(): Deployment;
  gates(): GatePort;
  /** Returns what makes spans of requests; null if the user has started no SDK. */
  tracing(): Tracing | null;
  /** Calls `deliver` now, or after the current deploy. */
  whenRunning(deliver: () => void): void;
}

/** The error of a message whose next nodes are gone. */
export function flowsChanged(): ModeletError {
  return new ModeletError('shutting_down', 'the flow was changed or stopped');
}
