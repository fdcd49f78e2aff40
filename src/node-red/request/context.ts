/**
 * The pipeline as one request sees it. Each member is asked anew when it is needed: a deploy may come in between.
 * An interface of its own: the files of a request and of a gate need it, and the composition root makes it.
 */
import type { NodeAPI } from 'node-red';
import type { Tracing } from '../../observe/export/tracing.ts';
import type { Deployment } from '../deploy/deployment.ts';
import type { LiveNodes } from '../live-nodes.ts';
import type { HttpClients } from './http-clients.ts';
import type { Leases } from './leases.ts';
import type { Sequencer } from './sequencer.ts';

/** A request that may lose its way out in a deploy. */
export interface OpenRequest {
  /** Ends the request at once if a deploy has removed its way out. */
  endIfStranded(): void;
}

export interface RequestContext {
  readonly RED: NodeAPI;
  readonly live: LiveNodes;
  readonly clients: HttpClients;
  readonly leases: Leases;
  readonly tracing: Tracing;
  /** Requests in the engine. */
  readonly open: Set<OpenRequest>;
  /** Sequencers of the collectors right behind a stage that keep the order of arrival. */
  sequencers(stage: string): readonly Sequencer[];
  /** Whether the flows have stopped for good: a message that a node sends now reaches nobody. */
  isStopped(): boolean;
  /** Whether a deploy has taken the way to an HTTP response from a node. */
  isCutOff(id: string): boolean;
  deployment(): Deployment;
  /** Calls `deliver` now, or after the deploy that is under way. */
  whenRunning(deliver: () => void): void;
}
