/** Entry: a Node-RED in a separate process, driven by its parent over IPC. Started by red-client.ts. */
import { performance } from 'node:perf_hooks';
import { type FlowNode, NodeRed } from '../fixtures/node-red.ts';
import { type Lateness, sleep, watchTimers } from './measure.ts';

export interface Drive {
  /** Node that gets the messages, and node at which they arrive. */
  readonly entry: string;
  readonly sink: string;
  readonly seconds: number;
  /** So many messages a second, evenly; or so many on their way at any time. None: nothing is sent. */
  readonly ratePerSecond?: number;
  readonly inFlight?: number;
  /** A node that blocks the event loop whenever it gets a message, and how often it gets one. */
  readonly blocker?: { readonly node: string; readonly everyMs: number };
}

export interface Driven {
  readonly perSecond: number;
  /** Share of the time, 0..1, in which the event loop was busy. */
  readonly utilization: number;
  readonly timers: Lateness;
}

export type Call = { readonly deploy: readonly FlowNode[] } | { readonly drive: Drive } | { readonly stop: true };

const WARM_UP_MS = 400;

const red = await NodeRed.start();

process.on('message', (call: Call) => {
  answer(call).then(
    (result) => process.send?.({ result: result ?? null }),
    (error: Error) => process.send?.({ error: error.stack }),
  );
});
process.on('disconnect', () => process.exit(0));
process.send?.({ result: red.url });

async function answer(call: Call): Promise<unknown> {
  if ('deploy' in call) return red.deploy(call.deploy);
  if ('drive' in call) return drive(call.drive);
  await red.stop();
  return undefined;
}

async function drive(load: Drive): Promise<Driven> {
  const entry = node(load.entry);
  const sink = node(load.sink);
  let arrived = 0;
  let running = true;
  let number = 0;
  const send = (): void => {
    number += 1;
    entry.receive({ payload: { n: number } });
  };
  const listener = (): void => {
    arrived += 1;
    if (running && load.inFlight) send();
  };
  sink.on('input', listener);
  const stopSending = startSending(load, send);
  const blocker = load.blocker && node(load.blocker.node);
  const blocking = setInterval(() => blocker?.receive({ payload: 0 }), load.blocker?.everyMs ?? 1e6);

  await sleep(WARM_UP_MS);
  const before = { arrived, at: performance.now(), utilization: performance.eventLoopUtilization() };
  const stopWatching = watchTimers();
  await sleep(load.seconds * 1000);
  const timers = stopWatching();
  const { utilization } = performance.eventLoopUtilization(before.utilization);
  const perSecond = ((arrived - before.arrived) * 1000) / (performance.now() - before.at);

  running = false;
  clearInterval(blocking);
  stopSending();
  await untilStill(() => arrived);
  sink.off('input', listener);
  return { perSecond, utilization, timers };
}

function startSending({ ratePerSecond, inFlight = 0 }: Drive, send: () => void): () => void {
  for (let index = 0; index < inFlight; index += 1) send();
  if (!ratePerSecond) return () => {};
  const startedAt = performance.now();
  let sent = 0;
  const timer = setInterval(() => {
    const due = ((performance.now() - startedAt) * ratePerSecond) / 1000;
    for (; sent < due; sent += 1) send();
  }, 1);
  return () => clearInterval(timer);
}

/** Waits until what is on its way has arrived. */
async function untilStill(count: () => number): Promise<void> {
  for (let before = -1; before !== count(); ) {
    before = count();
    await sleep(200);
  }
}

interface BenchNode {
  receive(msg: object): void;
  on(event: string, listener: unknown): void;
  off(event: string, listener: unknown): void;
}

function node(id: string): BenchNode {
  const found = red.red.nodes.getNode(id);
  if (!found) throw new Error(`no node ${id} is deployed`);
  return found as BenchNode;
}
