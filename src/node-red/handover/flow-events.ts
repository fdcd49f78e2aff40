/** Listens to Node-RED's events about the stop and start of flows. */
import type { NodeAPI } from 'node-red';

export interface FlowsEvent {
  /** The flows' configuration: a new object with every deploy. */
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
  /** Called if the flows cannot start because a node type or a module is missing. */
  failed(): void;
}

export function listenToFlows(RED: NodeAPI, { stopping, started, failed }: FlowsListener): void {
  RED.events.on('flows:stopping', stopping);
  RED.events.on('flows:started', started);
  RED.events.on('runtime-event', (event: RuntimeEvent) => {
    if (event?.id === 'runtime-state' && event.payload?.error !== undefined) failed();
  });
}
