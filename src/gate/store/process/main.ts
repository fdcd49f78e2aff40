/** Entry of the process of a durable queue: it owns its file, or the connection to its server. Started by URL, never imported. */
import { BrokerLink } from '../../../broker/broker-link.ts';
import { systemClock, wallTime } from '../../../core/clock.ts';
import { endWithError, report, runChild } from '../../../process/child/entry.ts';
import type { Channel } from '../../../wire/channel/channel.ts';
import type { QueueBoot } from '../../../wire/frames/bodies.ts';
import type { Frame, WireItem } from '../../../wire/frames/frames.ts';
import { decodeCall, encodeAnswer, encodeFailed } from '../calls.ts';
import type { WorkQueue, WorkStore } from '../work-queue.ts';
import { BullmqQueue, GATE_LEASES } from './bullmq-queue.ts';
import { storeError } from './sqlite.ts';
import { SqliteQueue } from './sqlite-queue.ts';

let store: SqliteQueue | BullmqQueue | null = null;

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
      if (store instanceof SqliteQueue) channel.send({ type: 'answers', items: answerTogether(store, frame.items) });
      else if (store) for (const item of frame.items) void answerLater(store, item, channel);
      break;
    case 'ping':
      channel.send({ type: 'pong', body: null });
      if (store instanceof SqliteQueue && store.isGivenUp) giveUp(store, channel);
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
    store = new BullmqQueue(link, boot.session, boot.limits);
  } else {
    store = new SqliteQueue(boot, { now: () => systemClock.now(), wall: wallTime });
  }
  report(channel, { state: 'ready' });
}

async function close(): Promise<void> {
  await store?.close();
}

/** Ends this process; the next one opens the file that is there, or makes a new one. */
function giveUp(queue: SqliteQueue, channel: Channel): void {
  store = null;
  queue.close();
  void endWithError(channel, storeError(queue.file, 'lost', 'is closed: its marker was deleted'));
}

/** Runs the calls of a frame in one transaction, with one fsync. If one of them fails, runs each on its own. */
function answerTogether(queue: WorkStore, items: readonly WireItem[]): WireItem[] {
  const answer = (item: WireItem): WireItem => encodeAnswer(item.id, run(queue, item));
  try {
    return queue.together(() => items.map(answer));
  } catch {
    return items.map((item) => {
      try {
        return answer(item);
      } catch (error) {
        return encodeFailed(item.id, error);
      }
    });
  }
}

async function answerLater(queue: WorkQueue, item: WireItem, channel: Channel): Promise<void> {
  let answer: WireItem;
  try {
    answer = encodeAnswer(item.id, await run(queue, item));
  } catch (error) {
    answer = encodeFailed(item.id, error);
  }
  channel.send({ type: 'answers', items: [answer] });
}

function run(queue: WorkStore | WorkQueue, item: WireItem): unknown {
  const { name, args } = decodeCall(item);
  return (queue[name] as (...args: readonly unknown[]) => unknown).apply(queue, args as unknown[]);
}
