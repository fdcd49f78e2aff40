/** Entry of the process that owns the file of a durable queue. Started by URL, never imported. */
import { systemClock, wallTime } from '../../core/clock.ts';
import { endWithError, report, runChild } from '../../process/child/entry.ts';
import type { Channel } from '../../wire/channel/channel.ts';
import type { QueueBoot } from '../../wire/frames/bodies.ts';
import type { Frame, WireItem } from '../../wire/frames/frames.ts';
import { type Call, decodeCall, encodeAnswer } from '../calls.ts';
import type { WorkStore } from '../work-queue.ts';
import { storeError } from './sqlite.ts';
import { SqliteQueue } from './sqlite-queue.ts';

let store: SqliteQueue | null = null;

// With this handler a write beyond the file size limit (ulimit -f) fails, and the process survives.
process.on('SIGXFSZ', () => {});

runChild({
  onFrame: receive,
  // SQLite rolls back uncommitted changes when the file is next opened.
  onExit: () => {},
});

function receive(frame: Frame, channel: Channel): void {
  switch (frame.type) {
    case 'open':
      open(frame.body, channel);
      break;
    case 'calls':
      if (store) channel.send({ type: 'answers', items: answer(store, frame.items) });
      break;
    case 'ping':
      channel.send({ type: 'pong', body: null });
      if (store?.isGivenUp) giveUp(store, channel);
      break;
    case 'close':
      report(channel, { state: 'shutdown' });
      store?.close();
      void channel.flushed().then(() => process.exit(0));
      break;
    default:
      throw new Error(`a queue does not take ${frame.type} frames`);
  }
}

function open(boot: QueueBoot, channel: Channel): void {
  try {
    store = new SqliteQueue(boot, { now: () => systemClock.now(), wall: wallTime });
    report(channel, { state: 'ready' });
  } catch (thrown) {
    void endWithError(channel, thrown);
  }
}

/** Ends this process; the next one opens the file that is there, or makes a new one. */
function giveUp(queue: SqliteQueue, channel: Channel): void {
  store = null;
  queue.close();
  void endWithError(channel, storeError(queue.file, 'lost', 'is closed: somebody has deleted its marker'));
}

/** Runs the calls of a frame in one transaction, with one fsync. If one of them fails, runs each on its own. */
function answer(queue: WorkStore, items: readonly WireItem[]): WireItem[] {
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

function run(queue: WorkStore, { name, args }: Call): unknown {
  return (queue[name] as (...args: readonly unknown[]) => unknown).apply(queue, args as unknown[]);
}
