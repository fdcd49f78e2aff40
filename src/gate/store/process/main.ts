/** Entry of the process of a durable queue: it owns its file, or the connection to its server. Started by URL, never imported. */
import { BrokerLink } from '../../../broker/broker-link.ts';
import { systemClock, wallTime } from '../../../core/clock.ts';
import { endWithError, report, runChild } from '../../../process/child/entry.ts';
import type { Channel } from '../../../wire/channel/channel.ts';
import type { QueueBoot } from '../../../wire/frames/bodies.ts';
import type { Frame, WireItem } from '../../../wire/frames/frames.ts';
import { type Call, decodeCall, encodeAnswer } from '../calls.ts';
import type { WorkQueue, WorkStore } from '../work-queue.ts';
import { BullmqQueue, GATE_LEASES } from './bullmq-queue.ts';
import { storeError } from './sqlite.ts';
import { SqliteQueue } from './sqlite-queue.ts';

type OpenedQueue =
  | { readonly tag: 'file'; readonly queue: SqliteQueue }
  | { readonly tag: 'broker'; readonly queue: BullmqQueue }
  | { readonly tag: 'none' };

let store: OpenedQueue = { tag: 'none' };

// With this handler a write beyond the file size limit (ulimit -f) fails, and the process survives.
process.on('SIGXFSZ', () => {});

runChild({
  onFrame: receive,
  // SQLite rolls back uncommitted changes when the file is next opened; a server finishes or never gets a command.
  onExit: () => {},
});

function receive(frame: Frame, channel: Channel): void {
  switch (frame.type) {
    case 'open':
      open(frame.body, channel).catch((thrown: unknown) => endWithError(channel, thrown));
      break;
    case 'calls':
      if (store.tag === 'file') channel.send({ type: 'answers', items: answerTogether(store.queue, frame.items) });
      if (store.tag === 'broker') for (const item of frame.items) void answerLater(store.queue, item, channel);
      break;
    case 'ping':
      channel.send({ type: 'pong', body: null });
      if (store.tag === 'file' && store.queue.isGivenUp) giveUp(store.queue, channel);
      break;
    case 'close':
      report(channel, { state: 'shutdown' });
      void close().finally(() => channel.flushed().then(() => process.exit(0)));
      break;
    default:
      throw new Error(`a queue does not take ${frame.type} frames`);
  }
}

async function open(boot: QueueBoot, channel: Channel): Promise<void> {
  if (boot.broker) {
    const link = await BrokerLink.open(boot.broker, GATE_LEASES, (record) =>
      channel.send({ type: 'log', body: record }),
    );
    store = { tag: 'broker', queue: new BullmqQueue(link, boot.session, boot.limits) };
  } else {
    store = { tag: 'file', queue: new SqliteQueue(boot, { now: () => systemClock.now(), wall: wallTime }) };
  }
  report(channel, { state: 'ready' });
}

async function close(): Promise<void> {
  if (store.tag !== 'none') await store.queue.close();
}

/** Ends this process; the next one opens the file that is there, or makes a new one. */
function giveUp(queue: SqliteQueue, channel: Channel): void {
  store = { tag: 'none' };
  queue.close();
  void endWithError(channel, storeError(queue.file, 'lost', 'is closed: its marker was deleted'));
}

/** Runs the calls of a frame in one transaction, with one fsync. If one of them fails, runs each on its own. */
function answerTogether(queue: WorkStore, items: readonly WireItem[]): WireItem[] {
  try {
    return queue.together(() => items.map((item) => encodeAnswer(item.id, { value: run(queue, decodeCall(item)) })));
  } catch {
    return items.map((item) => answerOne(queue, item));
  }
}

function answerOne(queue: WorkStore, item: WireItem): WireItem {
  try {
    return encodeAnswer(item.id, { value: run(queue, decodeCall(item)) });
  } catch (error) {
    return encodeAnswer(item.id, { error });
  }
}

async function answerLater(queue: WorkQueue, item: WireItem, channel: Channel): Promise<void> {
  let answer: WireItem;
  try {
    answer = encodeAnswer(item.id, { value: await run(queue, decodeCall(item)) });
  } catch (error) {
    answer = encodeAnswer(item.id, { error });
  }
  channel.send({ type: 'answers', items: [answer] });
}

function run(queue: WorkStore | WorkQueue, { name, args }: Call): unknown {
  return (queue[name] as (...args: readonly unknown[]) => unknown).apply(queue, args as unknown[]);
}
