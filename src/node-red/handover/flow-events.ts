/** What Node-RED tells of its flows as a deploy goes by. */
import type { NodeAPI } from 'node-red';

export interface FlowsEvent {
  /** The flows that this is about: a new object with every deploy. */
  readonly config?: object;
  readonly type?: string;
}

interface RuntimeEvent {
  readonly id?: string;
  readonly payload?: { readonly error?: string };
}

export interface FlowsListener {
  stopping(event: FlowsEvent): void;
  started(event: FlowsEvent): void;
  /** Flows that lack a node type or a module are stopped and do not start. */
  failed(): void;
}

export function listenToFlows(RED: NodeAPI, { stopping, started, failed }: FlowsListener): void {
  RED.events.on('flows:stopping', stopping);
  RED.events.on('flows:started', started);
  RED.events.on('runtime-event', (event: RuntimeEvent) => {
    if (event?.id === 'runtime-state' && event.payload?.error !== undefined) failed();
  });
}
