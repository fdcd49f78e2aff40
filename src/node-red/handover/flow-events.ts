/**
 * Listens to Node-RED's events about the stop and start of flows, and queues messages and outcomes that arrive while
 * flows start.
 */
import type { NodeAPI } from 'node-red';
import { asError } from '../../core/errors.ts';
import { logFault } from '../log.ts';
import type { Done } from '../request/messages.ts';

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

/** Most messages that wait for flows to start. Each of them gets an answer; further messages are refused. */
const MOST_WAITING = 10_000;

/** Runs the queued calls in order of arrival when the flows run. */
export class UntilRunning {
  readonly #RED: NodeAPI;
  #waiting: (() => void)[] = [];

  constructor(RED: NodeAPI) {
    this.#RED = RED;
  }

  /** Whether further messages must be refused. */
  get isFull(): boolean {
    return this.#waiting.length >= MOST_WAITING;
  }

  /** Queues a call. @param done called with the error if `act` throws */
  add(act: () => void, done?: Done): void {
    this.#waiting.push(() => this.safely(act, done));
  }

  /** Runs all waiting calls. */
  wake(): void {
    for (const waiting of this.#waiting.splice(0)) waiting();
  }

  /** Runs a call and logs its error. The error must not reach the outcome's channel, Node-RED, or the next call. */
  safely(act: () => void, done?: Done): void {
    try {
      act();
    } catch (thrown) {
      logFault(this.#RED, 'a message could not be delivered', thrown);
      if (done) this.safely(() => done(asError(thrown)));
    }
  }
}
