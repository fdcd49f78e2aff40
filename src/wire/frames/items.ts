/**
 * Encodes items as the body of a frame:
 *
 *   items x 48-byte record, their stage timings, their costs, their metas, their payloads (each padded to 8)
 *   record f64 id | f64 deadline | i32 priority | u32 field | u8 flags (1 ok, 2 patient, 4 streams, 8 together, 16 costs,
 *          32 in a slot, 64 in the other file) | u8 codec | u16 timings | u32 payload bytes | u32 meta bytes | u32 group |
 *          u32 sticky | u32 key
 *   timing u32 stage | f32 wait, batch and run ms | u32 batch size | i32 worker, or why the stage did not run the item
 *   group  of a payload in a slot of a batch, a reply or the other file: its place, in units of 8 bytes
 *   cost   f64 cost of an item with the flag `costs`, which only frames with routes have
 *   meta   JSON of the topic, id, key and options of a message, for stages that want them besides the payload; in outcomes of a
 *          gather report
 */
import type { Deadline } from '../../core/clock.ts';
import { ModeletError } from '../../core/errors.ts';
import {
  type ChunkedBytes,
  NO_COST,
  type Payload,
  type RequestNumber,
  type SavedRun,
  type StageTiming,
} from '../../core/model.ts';
import { byteLengthOf, chunksOf, freeablePayload } from '../codec/chunks.ts';
import { padded, padding } from '../codec/sizes.ts';

/** Makes the error for bytes that are not a valid frame. */
export function malformed(what: string): ModeletError {
  return new ModeletError('protocol_error', `malformed frame: ${what}`);
}

const RECORD = 48;
const OK = 1;
const PATIENT = 2;
const STREAMS = 4;
const TOGETHER = 8;
const COSTS = 16;
const IN_SLOT = 32;
const IN_OTHER = 64;
/** Unit of places in the slot files, in bytes. */
const PLACE = 8;
/** Places from here on are in the other file, see wire/slots/slot-file.ts. */
export const OTHER: number = 2 ** 34;
/** Payloads below this size, in bytes, are copied into the frame; larger ones are separate buffers. */
const COPY_BELOW = 65_536;

/** A request as it crosses a process boundary. The type of the frame decides which fields have a meaning. */
export interface WireItem {
  readonly id: RequestNumber;
  readonly deadline: Deadline;
  readonly priority: number;
  /** In `submit` and `outcomes` frames: the number of the route. */
  readonly routeRef: number;
  /** In `taps` frames: the number of the stage that made the value; in `recalled` frames: of the stage that took it. */
  readonly stageRef: number;
  /** In `parts` frames: the index of the part. In the replies of a worker host: how many parts it has sent. */
  readonly part: number;
  /**
   * In outcomes and replies: whether the payload is a value. Otherwise it is an encoded error, or in outcomes a failure
   * (see `encodeFailure`).
   */
  ok: boolean;
  /** Whether a full queue must accept the item, because its sender holds back further ones. */
  readonly patient: boolean;
  /** In `submit` and `batch` frames: whether the caller wants each part of the result as it becomes available. */
  streams: boolean;
  /** In replies: whether the item failed only because a call for several items did. Alone it may succeed. */
  readonly together: boolean;
  /** Group whose items evict each other if a full queue drops the oldest; 0 means no group. */
  readonly group: number;
  /** In `submit` frames: hash of the value whose requests stay on one version of a stage; 0: none. */
  readonly sticky: number;
  /** In `submit` frames: hash of the key whose items a keyed stage runs in order; 0: none. The text is in `meta`. */
  readonly key: number;
  /** In `batch` frames: number of the key's stay at this worker; 0: the item has no key. */
  tenure: number;
  /** In `submit` frames: what the item adds to the cost of a batch, as its message says; `NO_COST`: it says nothing. */
  readonly cost: number;
  payload: Payload;
  /**
   * JSON of `{topic, _msgid}` if a stage wants it; opaque to the engine. In outcomes: JSON of what the nodes that gather
   * branches did; null if no branch is on the way.
   */
  meta: Uint8Array | null;
  /** Timings of the stages that the item has passed so far. */
  readonly timings: StageTiming[];
}

/** Returns an item of which only the number and the value count. */
export function bareItem(id: RequestNumber, payload: Payload): WireItem {
  return {
    id,
    ok: true,
    payload,
    deadline: 0,
    priority: 0,
    routeRef: 0,
    stageRef: 0,
    part: 0,
    patient: false,
    streams: false,
    together: false,
    group: 0,
    sticky: 0,
    key: 0,
    tenure: 0,
    cost: NO_COST,
    meta: null,
    timings: [],
  };
}

/** A field that only one type of frame has. The record has one slot for all of them; elsewhere they are 0. */
export type FrameField = 'routeRef' | 'stageRef' | 'part' | 'tenure';

/**
 * Returns the size of an item in a frame, in bytes, to keep frames below the limit.
 * @param field see `writeItems`
 */
export function itemLength(item: WireItem, field: FrameField | null = null): number {
  const beside = item.timings.length * TIMING + (hasCost(item, field) ? COST : 0) + padded(item.meta?.byteLength ?? 0);
  return RECORD + beside + padded(byteLengthOf(item.payload));
}

/** Where the payloads of a frame are that are in slots and not in the frame. */
export type SlotPlaces = ReadonlyMap<WireItem, number>;

/** Returns the bytes of a payload at its place in the slots. @throws ModeletError `protocol_error` */
export type ReadPlace = (at: number, length: number, id: RequestNumber, inOther: boolean) => ChunkedBytes;

/**
 * Encodes items as buffers to write in order. Does not copy large payloads.
 * @param writeHead fills the first `head` bytes of the buffer, which are zero; also gets the length of the whole frame
 * @param places null: all payloads are in the frame
 */
export function writeItems(
  items: readonly WireItem[],
  field: FrameField | null,
  head: number,
  writeHead: (buffer: Buffer, length: number) => void,
  places: SlotPlaces | null = null,
): Uint8Array[] {
  let copied = head;
  let beside = 0;
  for (const item of items) {
    const inSlot = places?.has(item) === true;
    const payload = inSlot || passesBeside(item) ? padded(byteLengthOf(item.payload)) : 0;
    copied += itemLength(item, field) - payload;
    if (!inSlot) beside += payload;
  }
  const buffer = Buffer.allocUnsafe(copied);
  buffer.fill(0, 0, head);
  writeHead(buffer, copied + beside);

  let offset = head;
  for (const item of items) offset = writeRecord(buffer, offset, item, field, places);
  for (const item of items) for (const timing of item.timings) offset = writeTiming(buffer, offset, timing);
  if (field === 'routeRef') offset = writeCosts(buffer, offset, items, field);
  for (const item of items) if (item.meta) offset = writePadded(buffer, offset, item.meta);

  return writePayloads(buffer, offset, items, places);
}

/** Copies the small payloads to a place in the buffer. Returns the buffer in parts, with the large ones between them. */
function writePayloads(
  buffer: Buffer,
  at: number,
  items: readonly WireItem[],
  places: SlotPlaces | null,
): Uint8Array[] {
  const parts: Uint8Array[] = [];
  let [offset, written] = [at, 0];
  for (const item of items) {
    const { payload } = item;
    if (places?.has(item)) continue;
    if (!passesBeside(item)) {
      offset = writePadded(buffer, offset, payload.bytes);
      continue;
    }
    parts.push(buffer.subarray(written, offset));
    for (const chunk of chunksOf(payload)) parts.push(chunk);
    parts.push(padding(byteLengthOf(payload)));
    written = offset;
  }
  parts.push(buffer.subarray(written, offset));
  return parts.filter((part) => part.byteLength > 0);
}

/** Size of a cost, in bytes. */
const COST = 8;

/** Workers get no costs: the engine has formed the batch. */
function hasCost({ cost }: WireItem, field: FrameField | null): boolean {
  return field === 'routeRef' && cost >= 0;
}

function passesBeside(item: WireItem): boolean {
  return byteLengthOf(item.payload) >= COPY_BELOW;
}

function writeRecord(
  buffer: Buffer,
  offset: number,
  item: WireItem,
  field: FrameField | null,
  places: SlotPlaces | null,
): number {
  const place = places?.get(item);
  buffer.writeDoubleLE(item.id, offset);
  buffer.writeDoubleLE(item.deadline, offset + 8);
  buffer.writeInt32LE(item.priority, offset + 16);
  buffer.writeUInt32LE(field === null ? 0 : item[field], offset + 20);
  const flags = (item.ok ? OK : 0) | (item.patient ? PATIENT : 0) | (item.streams ? STREAMS : 0);
  const inOther = place !== undefined && place >= OTHER;
  const more = (hasCost(item, field) ? COSTS : 0) | (place === undefined ? 0 : IN_SLOT) | (inOther ? IN_OTHER : 0);
  buffer[offset + 24] = flags | (item.together ? TOGETHER : 0) | more;
  buffer[offset + 25] = item.payload.codec;
  buffer.writeUInt16LE(item.timings.length, offset + 26);
  buffer.writeUInt32LE(byteLengthOf(item.payload), offset + 28);
  buffer.writeUInt32LE(item.meta?.byteLength ?? 0, offset + 32);
  // A request has its own slot, whose place both sides know.
  const isKnown = field === 'routeRef' && !inOther;
  buffer.writeUInt32LE(place === undefined || isKnown ? item.group : place / PLACE, offset + 36);
  buffer.writeUInt32LE(item.sticky, offset + 40);
  buffer.writeUInt32LE(item.key, offset + 44);
  return offset + RECORD;
}

function writeCosts(buffer: Buffer, offset: number, items: readonly WireItem[], field: FrameField): number {
  return items.reduce((at, item) => (hasCost(item, field) ? buffer.writeDoubleLE(item.cost, at) : at), offset);
}

function writePadded(buffer: Buffer, offset: number, bytes: Uint8Array): number {
  buffer.set(bytes, offset);
  const end = offset + padded(bytes.byteLength);
  buffer.fill(0, offset + bytes.byteLength, end);
  return end;
}

/**
 * Reads the items of a frame, which begin at `head`. Payloads are views into the frame, or come from their places.
 * @throws ModeletError `protocol_error` if the frame's length is not that of its items.
 */
export function readItems(
  frame: Buffer,
  field: FrameField | null,
  head: number,
  count: number,
  readPlace: ReadPlace,
): WireItem[] {
  const records = head + count * RECORD;
  if (records > frame.byteLength) throw malformed(`${count} items do not fit`);
  let timingsAt = records;
  let costsAt = records;
  for (let index = 0; index < count; index += 1) costsAt += frame.readUInt16LE(head + index * RECORD + 26) * TIMING;
  let metasAt = costsAt;
  for (let index = 0; index < count; index += 1) metasAt += costLength(frame, head + index * RECORD);
  let payloadsAt = metasAt;
  for (let index = 0; index < count; index += 1) payloadsAt += padded(frame.readUInt32LE(head + index * RECORD + 32));

  const items: WireItem[] = [];
  for (let index = 0; index < count; index += 1) {
    const at = head + index * RECORD;
    const timings = frame.readUInt16LE(at + 26);
    const length = frame.readUInt32LE(at + 28);
    const metaLength = frame.readUInt32LE(at + 32);
    const flags = frame[at + 24] as number;
    const payloadEnd = payloadsAt + ((flags & IN_SLOT) === 0 ? length : 0);
    if (payloadEnd > frame.byteLength) throw malformed(`item ${index} reaches beyond the frame`);
    items.push({
      id: frame.readDoubleLE(at),
      deadline: frame.readDoubleLE(at + 8),
      priority: frame.readInt32LE(at + 16),
      routeRef: slot(frame, at, field === 'routeRef'),
      stageRef: slot(frame, at, field === 'stageRef'),
      part: slot(frame, at, field === 'part'),
      ok: (flags & OK) !== 0,
      patient: (flags & PATIENT) !== 0,
      streams: (flags & STREAMS) !== 0,
      together: (flags & TOGETHER) !== 0,
      group: frame.readUInt32LE(at + 36),
      sticky: frame.readUInt32LE(at + 40),
      key: frame.readUInt32LE(at + 44),
      tenure: slot(frame, at, field === 'tenure'),
      cost: costLength(frame, at) > 0 ? frame.readDoubleLE(costsAt) : NO_COST,
      payload: readPayload(frame, at, payloadsAt, readPlace),
      meta: metaLength === 0 ? null : frame.subarray(metasAt, metasAt + metaLength),
      timings: readTimings(frame, timingsAt, timings),
    });
    timingsAt += timings * TIMING;
    costsAt += costLength(frame, at);
    metasAt += padded(metaLength);
    payloadsAt = padded(payloadEnd);
  }
  if (payloadsAt !== frame.byteLength) throw malformed('its length is not that of its items');
  return items;
}

/** @param recordAt where the record of the item is; @param bytesAt where its payload is, if that is in the frame */
function readPayload(frame: Buffer, recordAt: number, bytesAt: number, readPlace: ReadPlace): Payload {
  const codec = frame[recordAt + 25] as number;
  const length = frame.readUInt32LE(recordAt + 28);
  const flags = frame[recordAt + 24] as number;
  if ((flags & IN_SLOT) === 0) return { codec, bytes: frame.subarray(bytesAt, bytesAt + length) };
  const place = frame.readUInt32LE(recordAt + 36) * PLACE;
  return freeablePayload(codec, readPlace(place, length, frame.readDoubleLE(recordAt), (flags & IN_OTHER) !== 0));
}

/** Returns the bytes of the cost of the item whose record is at `at`. */
function costLength(frame: Buffer, at: number): number {
  return ((frame[at + 24] as number) & COSTS) === 0 ? 0 : COST;
}

/** Returns the field that only one type of frame has. */
function slot(frame: Buffer, at: number, isThere: boolean): number {
  return isThere ? frame.readUInt32LE(at + 20) : 0;
}

/** Size of one stage's timing, in bytes. */
const TIMING = 24;

const SAVED: Readonly<Record<SavedRun, number>> = { hit: -1, joined: -2 };

function writeTiming(buffer: Buffer, offset: number, timing: StageTiming): number {
  buffer.writeUInt32LE(timing.stage, offset);
  buffer.writeFloatLE(timing.waitMs, offset + 4);
  buffer.writeFloatLE(timing.batchMs, offset + 8);
  buffer.writeFloatLE(timing.runMs, offset + 12);
  buffer.writeUInt32LE(timing.batchSize, offset + 16);
  buffer.writeInt32LE(timing.cache ? SAVED[timing.cache] : timing.worker, offset + 20);
  return offset + TIMING;
}

function readTimings(frame: Buffer, offset: number, count: number): StageTiming[] {
  const timings: StageTiming[] = [];
  for (let at = offset; at < offset + count * TIMING; at += TIMING) {
    const worker = frame.readInt32LE(at + 20);
    const timing: StageTiming = {
      stage: frame.readUInt32LE(at),
      waitMs: frame.readFloatLE(at + 4),
      batchMs: frame.readFloatLE(at + 8),
      runMs: frame.readFloatLE(at + 12),
      batchSize: frame.readUInt32LE(at + 16),
      worker: Math.max(-1, worker),
    };
    timings.push(worker >= 0 ? timing : { ...timing, cache: worker === SAVED.hit ? 'hit' : 'joined' });
  }
  return timings;
}
