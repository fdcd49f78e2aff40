/** Entry point of the engine process: connects an engine to its channel. Started by URL; no other file imports it. */
import { setFlagsFromString } from 'node:v8';
import { type Deadline, systemClock } from '../core/clock.ts';
import { type LogRecord, STATUS_INTERVAL_MS } from '../core/model.ts';
import { RemotePool } from '../hosts/remote-pool.ts';
import { LazyListener } from '../http/listener/lazy-listener.ts';
import { report, runChild } from '../process/child/entry.ts';
import { killAll } from '../process/parent/launch.ts';
import { Engine, type EngineOutput } from '../runtime/engine/engine.ts';
import { SupervisedPool } from '../runtime/engine/pools/supervised-pool.ts';
import type { StageHost } from '../runtime/engine/stage/stage-host.ts';
import type { Channel } from '../wire/channel/channel.ts';
import { Outbox } from '../wire/channel/outbox.ts';
import { encodeError } from '../wire/codec/error-codec.ts';
import type { EngineStart, StatusReport } from '../wire/frames/bodies.ts';
import type { Frame } from '../wire/frames/frames.ts';
import { EngineSlots } from '../wire/slots/engine-slots.ts';
import { SharedSlots } from '../wire/slots/shared-slots.ts';
import { inheritedSlotFile, LENT_FD, OTHER_FD, SlotFile } from '../wire/slots/slot-file.ts';

/** The server kills this process at its deadline; the workers must have ended this much earlier. */
const CLOSE_RESERVE_MS = 500;

interface RunningEngine {
  readonly engine: Engine;
  readonly listener: LazyListener;
  readonly outcomes: Outbox;
  sendStatus(): void;
}

let running: RunningEngine | null = null;
/** Number of plans and actions received, see `StatusReport`. */
let orders = 0;

// The small young generation is for this thread alone: in one, a thread that runs out of memory may not end. 0: V8's choice.
setFlagsFromString('--max-semi-space-size=0');

// Idle workers notice that their channel has closed. A spinning worker does not, unless the kernel signals it when its
// parent dies, so this process kills its workers on exit.
const noteBytes = runChild({
  slots: (onBytes, send) => new EngineSlots(onBytes, send),
  onFrame: receive,
  onExit: killAll,
});

function receive(frame: Frame, channel: Channel): void {
  switch (frame.type) {
    case 'boot':
      running = boot(frame.body, channel);
      report(channel, { state: 'ready' });
      break;
    case 'plan':
      orders += 1;
      running?.engine.apply(frame.body);
      running?.listener.apply(frame.body);
      break;
    case 'openapi':
      running?.listener.publishApi(frame.body);
      break;
    case 'submit':
      running?.engine.submit(frame.items);
      break;
    case 'cancel':
      running?.engine.cancel(frame.body);
      break;
    case 'taken':
      running?.engine.taken(frame.body);
      break;
    case 'act':
      orders += 1;
      running?.engine.act(frame.body.stage, frame.body.action);
      break;
    case 'recall':
      running?.engine.recall(frame.body.stage);
      break;
    case 'check':
      if (running) void check(running.engine, frame.body.check, frame.body.deadline, channel);
      break;
    case 'ping':
      channel.send({ type: 'pong', body: null });
      break;
    case 'freed':
      // The channel has given the slots back.
      break;
    case 'close':
      report(channel, { state: 'shutdown' });
      void close(frame.body.deadline, channel);
      break;
    default:
      throw new Error(`the engine does not take ${frame.type} frames`);
  }
}

function boot(settings: EngineStart, channel: Channel): RunningEngine {
  const taps = new Outbox('taps', (frame) => channel.send(frame));
  const parts = new Outbox('parts', (frame) => channel.send(frame));
  const outcomes = new Outbox('outcomes', (frame) => {
    // Tapped values and parts must reach the server before the outcome of their request.
    taps.flush();
    parts.flush();
    channel.send(frame);
  });
  let statusDue = false;
  let lastStatusAt = 0;
  const sendStatus = (): void => {
    statusDue = false;
    lastStatusAt = systemClock.now();
    channel.send({ type: 'status', body: status() });
  };
  const onChange = (): void => {
    if (statusDue) return;
    statusDue = true;
    systemClock.at(lastStatusAt + STATUS_INTERVAL_MS, sendStatus);
  };
  const onLog = (record: LogRecord): void => channel.send({ type: 'log', body: record });
  const slots = settings.sharesSlots
    ? new SharedSlots(settings.maxQueueBytes, systemClock, onLog, () => inheritedSlotFile(OTHER_FD))
    : new SharedSlots(settings.maxQueueBytes, systemClock, onLog);
  const lanes = { keepsResults: true, other: settings.sharesSlots ? new SlotFile(LENT_FD) : null };
  const createPool: StageHost['createPool'] = (definition, events) =>
    definition.remote
      ? new RemotePool(definition, events)
      : new SupervisedPool(definition, { ...settings, slots: () => slots.lane(lanes) }, events);
  const output: EngineOutput = {
    onOutcome: (item) => outcomes.add(item),
    onPart: (part) => parts.add(part),
    onTap: (item) => taps.add(item),
    onRecalled: (input) => channel.send({ type: 'recalled', items: [input] }),
    onChange,
    // If this engine dies, the next one goes on with the shares that the server knows of.
    onShares: () => sendStatus(),
    onDescribed: (stage) => channel.send({ type: 'described', body: stage }),
    onLog,
    unsentBytes: () => (listener.loaded?.unreadBytes ?? 0) + channel.waitingBytes + channel.bufferedBytes,
  };
  const { maxPayloadBytes, maxQueueBytes, statesFolder } = settings;
  const engine = new Engine(createPool, output, systemClock, maxPayloadBytes, maxQueueBytes, statesFolder);
  const listener = new LazyListener(
    settings,
    {
      submit: (item, submitter) => engine.submit([item], submitter),
      cancel: (id) => engine.cancel([id]),
      taken: (id, parts) => engine.taken([[id, parts]]),
      onBytes: noteBytes,
      status: () => engine.status(),
      description: (stage) => engine.description(stage),
      check: (deadline) => engine.check(deadline),
      onChange,
      onLog,
    },
    systemClock,
  );
  const status = (): StatusReport => {
    const listening = listener.loaded?.status;
    return { ...engine.status(), orders, ...(listening && { listener: listening }) };
  };
  return { engine, listener, outcomes, sendStatus };
}

async function check(engine: Engine, number: number, deadline: Deadline, channel: Channel): Promise<void> {
  const results = await engine.check(deadline);
  const stages = results.map(({ error, ...rest }) => ({
    ...rest,
    error: error && Buffer.from(encodeError(error)).toString('base64'),
  }));
  channel.send({ type: 'checked', body: { check: number, stages } });
}

async function close(deadline: Deadline, channel: Channel): Promise<void> {
  await running?.listener.close(deadline - 2 * CLOSE_RESERVE_MS);
  await running?.engine.close(deadline - CLOSE_RESERVE_MS);
  running?.outcomes.flush();
  // With what the workers have counted at their end.
  running?.sendStatus();
  await channel.flushed();
  process.exit(0);
}
