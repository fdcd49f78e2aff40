/**
 * Every message between the processes, in both directions, and its bytes. Server and engine never import
 * each other: they meet here.
 *
 * A frame is a 32-byte head and a body, little-endian, its length a multiple of 8:
 *
 *   head   u32 length | u8 version | u8 type | u16 0 | u32 items | u32 JSON bytes | f64 batch | f64 runMs
 *   body   JSON of a control frame, or
 *          items x 40-byte record, their stage timings, their metas, their payloads (each padded to 8)
 *   record f64 id | f64 deadline | i32 priority | u32 ref | u8 flags (1 ok, 2 patient) | u8 codec | u16 timings
 *          | u32 payload bytes | u32 meta bytes | u32 group
 *
 * Seed 003's protocol is the ancestor: a length and a table from id to bytes.
 */
import type { Deadline } from '../core/clock.ts';
import { ModeletError } from '../core/errors.ts';
import type {
  EnginePlan,
  EngineStatus,
  LogRecord,
  Payload,
  RequestNumber,
  StageAction,
  StageTiming,
  WorkerUsage,
} from '../core/model.ts';
import { padded } from './binaries.ts';
import type { CheckedStage, EngineBoot, QueueBoot, StateReport, WorkerBoot } from './bodies.ts';
import { readTimings, TIMING, writeTiming } from './timings.ts';

/** Raised with every change of the layout: a worker of another version must be refused, not misread. */
export const WIRE_VERSION: number = 1;

/** Longest frame: what a 32-bit length and one allocation carry comfortably. */
export const LONGEST_FRAME: number = 1 << 30;

/** A request as it crosses a process boundary. Which fields mean something depends on the frame. */
export interface WireItem {
  readonly id: RequestNumber;
  readonly deadline: Deadline;
  readonly priority: number;
  /** Route ref in a `submit` frame, stage ref in a `taps` frame; unused elsewhere. */
  readonly ref: number;
  /** In outcomes and replies: whether the payload is a value or an encoded error. */
  ok: boolean;
  /** A full queue must not refuse it: its sender waits with more. */
  readonly patient: boolean;
  /** Items of one group evict each other where a full queue drops the oldest; 0: no group. */
  readonly group: number;
  payload: Payload;
  /** JSON of `{topic, _msgid}` where a stage wants it; opaque to the engine. */
  readonly meta: Uint8Array | null;
  /** What each stage passed so far has cost. */
  readonly timings: StageTiming[];
}

export type ControlFrame =
  | { readonly type: 'boot'; readonly body: EngineBoot }
  | { readonly type: 'plan'; readonly body: EnginePlan }
  | { readonly type: 'open'; readonly body: QueueBoot }
  | { readonly type: 'load'; readonly body: WorkerBoot }
  | { readonly type: 'cancel'; readonly body: readonly RequestNumber[] }
  | { readonly type: 'act'; readonly body: { readonly stage: number; readonly action: StageAction } }
  | { readonly type: 'close'; readonly body: { readonly deadline: Deadline } }
  | { readonly type: 'report'; readonly body: StateReport }
  /** Whoever gets a ping answers with a pong at once. */
  | { readonly type: 'ping' | 'pong'; readonly body: null }
  | { readonly type: 'status'; readonly body: EngineStatus }
  | { readonly type: 'log'; readonly body: LogRecord }
  | { readonly type: 'usage'; readonly body: WorkerUsage }
  /** To the engine: run the examples of all stages, and answer by the deadline. */
  | { readonly type: 'check'; readonly body: { readonly check: number; readonly deadline: Deadline } }
  | { readonly type: 'checked'; readonly body: { readonly check: number; readonly stages: readonly CheckedStage[] } }
  /** Of a worker, before it is ready: how many examples its modelet has. */
  | { readonly type: 'examples'; readonly body: number }
  /** To a worker: run one example, by its index. */
  | { readonly type: 'try'; readonly body: { readonly example: number; readonly deadline: Deadline } }
  /** The error as in `CheckedStage`. */
  | { readonly type: 'tried'; readonly body: { readonly example: number; readonly error: string | null } };

export type ItemFrame =
  | { readonly type: 'submit'; readonly items: readonly WireItem[] }
  | { readonly type: 'outcomes'; readonly items: readonly WireItem[] }
  | { readonly type: 'taps'; readonly items: readonly WireItem[] }
  /** To a queue: a number, and what is asked for; and its answers under the same numbers. */
  | { readonly type: 'calls' | 'answers'; readonly items: readonly WireItem[] }
  | { readonly type: 'batch'; readonly items: readonly WireItem[]; readonly batch: number }
  | { readonly type: 'reply'; readonly items: readonly WireItem[]; readonly batch: number; readonly runMs: number };

export type Frame = ControlFrame | ItemFrame;

/** Position = the type's number in frames: append only. */
const TYPES = [
  'boot',
  'plan',
  'load',
  'cancel',
  'close',
  'report',
  'status',
  'log',
  'submit',
  'outcomes',
  'batch',
  'reply',
  'taps',
  'act',
  'usage',
  'ping',
  'pong',
  'check',
  'checked',
  'examples',
  'try',
  'tried',
  'open',
  'calls',
  'answers',
] as const satisfies readonly Frame['type'][];
const ITEM_TYPES: ReadonlySet<Frame['type']> = new Set([
  'submit',
  'outcomes',
  'batch',
  'reply',
  'taps',
  'calls',
  'answers',
] as const);

/** Bytes of a frame's head. */
export const HEAD: number = 32;
const RECORD = 40;
const OK = 1;
const PATIENT = 2;
/** Payloads from this size on are not copied into the frame but written beside it. */
const COPY_BELOW = 65_536;

/** The frame as buffers to be written one after the other. Large payloads are passed through, not copied. */
export function encodeFrame(frame: Frame): Uint8Array[] {
  return 'items' in frame ? encodeItems(frame) : encodeControl(frame);
}

function encodeControl(frame: ControlFrame): Uint8Array[] {
  const json = Buffer.from(JSON.stringify(frame.body));
  const buffer = Buffer.alloc(HEAD + padded(json.byteLength));
  writeHead(buffer, buffer.byteLength, frame.type, 0, json.byteLength);
  json.copy(buffer, HEAD);
  return [buffer];
}

function writeHead(buffer: Buffer, length: number, type: Frame['type'], items: number, json: number): void {
  if (length > LONGEST_FRAME) throw new ModeletError('protocol_error', `a frame of ${length} bytes is too long`);
  buffer.writeUInt32LE(length, 0);
  buffer.writeUInt8(WIRE_VERSION, 4);
  buffer.writeUInt8(TYPES.indexOf(type), 5);
  buffer.writeUInt32LE(items, 8);
  buffer.writeUInt32LE(json, 12);
}

/** Bytes an item takes in a frame; to keep frames below the limit. */
export function itemLength(item: WireItem): number {
  return (
    RECORD + item.timings.length * TIMING + padded(item.meta?.byteLength ?? 0) + padded(item.payload.bytes.byteLength)
  );
}

function encodeItems(frame: ItemFrame): Uint8Array[] {
  let length = HEAD;
  let copied = HEAD;
  for (const item of frame.items) {
    length += itemLength(item);
    copied += itemLength(item) - (passesBeside(item) ? padded(item.payload.bytes.byteLength) : 0);
  }
  const buffer = Buffer.allocUnsafe(copied);
  buffer.fill(0, 0, HEAD);
  writeHead(buffer, length, frame.type, frame.items.length, 0);
  if ('batch' in frame) buffer.writeDoubleLE(frame.batch, 16);
  if ('runMs' in frame) buffer.writeDoubleLE(frame.runMs, 24);

  let offset = HEAD;
  for (const item of frame.items) offset = writeRecord(buffer, offset, item);
  for (const item of frame.items) for (const timing of item.timings) offset = writeTiming(buffer, offset, timing);
  for (const item of frame.items) if (item.meta) offset = writePadded(buffer, offset, item.meta);

  const parts: Uint8Array[] = [];
  let written = 0;
  for (const item of frame.items) {
    const { bytes } = item.payload;
    if (!passesBeside(item)) {
      offset = writePadded(buffer, offset, bytes);
      continue;
    }
    parts.push(buffer.subarray(written, offset), bytes, PAD.subarray(0, padded(bytes.byteLength) - bytes.byteLength));
    written = offset;
  }
  parts.push(buffer.subarray(written, offset));
  return parts.filter((part) => part.byteLength > 0);
}

const PAD = Buffer.alloc(8);

function passesBeside(item: WireItem): boolean {
  return item.payload.bytes.byteLength >= COPY_BELOW;
}

function writeRecord(buffer: Buffer, offset: number, item: WireItem): number {
  buffer.writeDoubleLE(item.id, offset);
  buffer.writeDoubleLE(item.deadline, offset + 8);
  buffer.writeInt32LE(item.priority, offset + 16);
  buffer.writeUInt32LE(item.ref, offset + 20);
  buffer[offset + 24] = (item.ok ? OK : 0) | (item.patient ? PATIENT : 0);
  buffer[offset + 25] = item.payload.codec;
  buffer.writeUInt16LE(item.timings.length, offset + 26);
  buffer.writeUInt32LE(item.payload.bytes.byteLength, offset + 28);
  buffer.writeUInt32LE(item.meta?.byteLength ?? 0, offset + 32);
  buffer.writeUInt32LE(item.group, offset + 36);
  return offset + RECORD;
}

function writePadded(buffer: Buffer, offset: number, bytes: Uint8Array): number {
  buffer.set(bytes, offset);
  const end = offset + padded(bytes.byteLength);
  buffer.fill(0, offset + bytes.byteLength, end);
  return end;
}

/**
 * Reads one whole frame. Payloads are views into `frame`: whoever keeps one keeps the frame.
 * @throws ModeletError `protocol_error` for anything that this version did not write.
 */
export function decodeFrame(frame: Buffer): Frame {
  const type = TYPES[frame.readUInt8(5)];
  if (frame.readUInt8(4) !== WIRE_VERSION) {
    throw malformed(`version ${frame.readUInt8(4)} instead of ${WIRE_VERSION}`);
  }
  if (type === undefined) throw malformed(`unknown type ${frame.readUInt8(5)}`);
  const jsonLength = frame.readUInt32LE(12);
  if (!ITEM_TYPES.has(type)) {
    if (HEAD + padded(jsonLength) !== frame.byteLength) throw malformed('its length is not that of its JSON');
    const body = parseBody(frame.toString('utf8', HEAD, HEAD + jsonLength));
    return { type, body: type === 'close' ? withDeadline(body) : body } as ControlFrame;
  }
  const items = readItems(frame, frame.readUInt32LE(8));
  return { type, items, batch: frame.readDoubleLE(16), runMs: frame.readDoubleLE(24) } as ItemFrame;
}

function parseBody(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw malformed(`its JSON cannot be read: ${(cause as Error).message}`);
  }
}

/** JSON has no Infinity: a close without a deadline arrives with null. */
function withDeadline(body: unknown): { readonly deadline: Deadline } {
  return { deadline: (body as { deadline: Deadline | null } | null)?.deadline ?? Number.POSITIVE_INFINITY };
}

function readItems(frame: Buffer, count: number): WireItem[] {
  const records = HEAD + count * RECORD;
  if (records > frame.byteLength) throw malformed(`${count} items do not fit`);
  let timingsAt = records;
  let metasAt = records;
  for (let index = 0; index < count; index += 1) metasAt += frame.readUInt16LE(HEAD + index * RECORD + 26) * TIMING;
  let payloadsAt = metasAt;
  for (let index = 0; index < count; index += 1) payloadsAt += padded(frame.readUInt32LE(HEAD + index * RECORD + 32));

  const items: WireItem[] = [];
  for (let index = 0; index < count; index += 1) {
    const at = HEAD + index * RECORD;
    const timings = frame.readUInt16LE(at + 26);
    const payloadLength = frame.readUInt32LE(at + 28);
    const metaLength = frame.readUInt32LE(at + 32);
    const flags = frame[at + 24] as number;
    if (payloadsAt + payloadLength > frame.byteLength) throw malformed(`item ${index} reaches beyond the frame`);
    items.push({
      id: frame.readDoubleLE(at),
      deadline: frame.readDoubleLE(at + 8),
      priority: frame.readInt32LE(at + 16),
      ref: frame.readUInt32LE(at + 20),
      ok: (flags & OK) !== 0,
      patient: (flags & PATIENT) !== 0,
      group: frame.readUInt32LE(at + 36),
      payload: { codec: frame[at + 25] as number, bytes: frame.subarray(payloadsAt, payloadsAt + payloadLength) },
      meta: metaLength === 0 ? null : frame.subarray(metasAt, metasAt + metaLength),
      timings: readTimings(frame, timingsAt, timings),
    });
    timingsAt += timings * TIMING;
    metasAt += padded(metaLength);
    payloadsAt += padded(payloadLength);
  }
  if (payloadsAt !== frame.byteLength) throw malformed('its length is not that of its items');
  return items;
}

export function malformed(what: string): ModeletError {
  return new ModeletError('protocol_error', `malformed frame: ${what}`);
}
