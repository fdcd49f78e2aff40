/** Arbitrary frames, and frames in a form that can be compared. */
import fc from 'fast-check';
import type { StageTiming } from '../../src/core/model.ts';
import type { ControlFrame, Frame, ItemFrame, WireItem } from '../../src/wire/frames/frames.ts';

/** Records as object literals make them: by default half of them would have no prototype. */
function record<T extends object>(of: { [K in keyof T]: fc.Arbitrary<T[K]> }): fc.Arbitrary<T> {
  return fc.record(of, { noNullPrototype: true }) as fc.Arbitrary<T>;
}

const uint32 = fc.integer({ min: 0, max: 2 ** 32 - 1 });
const duration = fc.float({ noNaN: true }).map(Math.fround);

const cost = { stage: uint32, waitMs: duration, batchMs: duration, runMs: duration, batchSize: uint32 };
const timing = fc.oneof(
  record<StageTiming>({ ...cost, worker: fc.nat() } as never),
  record<StageTiming>({ ...cost, worker: fc.constant(-1), cache: fc.constantFrom('hit', 'joined') } as never),
);

/** Around 64 KiB a payload stops being copied into its frame. */
const length = fc.oneof(
  { weight: 8, arbitrary: fc.nat({ max: 40 }) },
  { weight: 1, arbitrary: fc.constantFrom(65_535, 65_536, 65_537, 100_003) },
);

const content = fc.tuple(length, fc.nat({ max: 255 })).map(([size, seed]) => {
  const bytes = Buffer.alloc(size);
  for (let index = 0; index < size; index += 1) bytes[index] = seed + index * 7;
  return bytes;
});

export const wireItem: fc.Arbitrary<WireItem> = record({
  id: fc.maxSafeNat(),
  deadline: fc.oneof(fc.double({ noNaN: true, min: 0 }), fc.constant(Number.POSITIVE_INFINITY)),
  priority: fc.integer(),
  routeRef: uint32,
  stageRef: uint32,
  part: uint32,
  ok: fc.boolean(),
  patient: fc.boolean(),
  streams: fc.boolean(),
  together: fc.boolean(),
  group: uint32,
  sticky: uint32,
  key: uint32,
  tenure: uint32,
  cost: fc.oneof(fc.constant(-1), fc.double({ min: 0, noNaN: true, noDefaultInfinity: true })),
  payload: record({ codec: fc.nat({ max: 255 }), bytes: content }),
  meta: fc.oneof(fc.constant(null), fc.uint8Array({ minLength: 1, maxLength: 30 })),
  timings: fc.array(timing, { maxLength: 3 }),
});

const items = fc.array(wireItem, { maxLength: 5 });
const batch = fc.integer({ min: 0, max: 2 ** 40 });

export const itemFrame: fc.Arbitrary<ItemFrame> = fc.oneof(
  record({
    type: fc.constantFrom(
      'submit' as const,
      'outcomes' as const,
      'parts' as const,
      'taps' as const,
      'recalled' as const,
    ),
    items,
  }),
  record({ type: fc.constant('batch' as const), items, batch }),
  record({ type: fc.constant('reply' as const), items, batch, runMs: fc.double({ noNaN: true }), runs: uint32 }),
);

export const controlFrame: fc.Arbitrary<ControlFrame> = fc.oneof(
  record({ type: fc.constant('cancel' as const), body: fc.array(fc.maxSafeNat()) }),
  record({
    type: fc.constant('taken' as const),
    body: fc.array(fc.tuple(fc.maxSafeNat(), fc.nat())),
  }),
  record({
    type: fc.constant('close' as const),
    body: record({
      deadline: fc.oneof(fc.integer({ min: 0, max: 10 ** 9 }), fc.constant(Number.POSITIVE_INFINITY)),
    }),
  }),
  record({
    type: fc.constant('tried' as const),
    body: record({ example: fc.nat(), error: fc.oneof(fc.constant(null), fc.base64String()) }),
  }),
  record({
    type: fc.constant('log' as const),
    body: record({
      level: fc.constantFrom('info' as const, 'error' as const),
      message: fc.string({ unit: 'binary' }),
    }),
  }),
);

export const anyFrame: fc.Arbitrary<Frame> = fc.oneof<fc.Arbitrary<Frame>[]>(itemFrame, controlFrame);

/** The content of a frame, without the form of its bytes or the fields that its type leaves unused. */
export function meaning(frame: Frame): unknown {
  if (!('items' in frame)) return frame;
  return {
    type: frame.type,
    ...(frame.type === 'batch' || frame.type === 'reply' ? { batch: frame.batch } : {}),
    ...(frame.type === 'reply' ? { runMs: frame.runMs, runs: frame.runs } : {}),
    items: frame.items.map(({ payload, meta, routeRef, stageRef, part, tenure, cost, ...rest }) => ({
      ...rest,
      cost: frame.type === 'submit' ? cost : null,
      slot: { submit: routeRef, outcomes: routeRef, taps: stageRef, recalled: stageRef, parts: part, batch: tenure }[
        frame.type as string
      ],
      codec: payload.codec,
      bytes: Buffer.from(payload.bytes).toString('hex'),
      meta: meta && Buffer.from(meta).toString('hex'),
    })),
  };
}

export function item(overrides: Partial<WireItem> = {}): WireItem {
  return {
    id: 1,
    deadline: Number.POSITIVE_INFINITY,
    priority: 0,
    routeRef: 1,
    stageRef: 0,
    part: 0,
    ok: true,
    patient: false,
    streams: false,
    group: 0,
    together: false,
    sticky: 0,
    key: 0,
    tenure: 0,
    cost: -1,
    payload: { codec: 1, bytes: Buffer.from('{}') },
    meta: null,
    timings: [],
    ...overrides,
  };
}
