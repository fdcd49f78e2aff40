/**
 * Defines and encodes every message between the processes, in both directions. Server and engine never import each
 * other; they share only this protocol.
 *
 * A frame is a 32-byte head and a body. It is little-endian, and its length is a multiple of 8:
 *
 *   head   u32 length | u8 version | u8 type | u16 0 | u32 items | u32 JSON bytes, runs, or bytes of a slot | f64 batch
 *          | f64 runMs, or place of a slot
 *   body   JSON of a control frame, or items (see items.ts)
 *
 * Between server and engine a large frame may arrive in pieces, with other frames between them. A piece is a head and
 * the next bytes of the frame. Its head has the type 255, and its `batch` holds the length of the whole frame.
 *
 * The protocol derives from that of seed 003: a length and a table from id to bytes.
 */
import type { EnginePlan } from '../../config/stage-definition.ts';
import type { Deadline } from '../../core/clock.ts';
import { ModeletError } from '../../core/errors.ts';
import type { ChunkedBytes, LogRecord, Payload, RequestNumber, StageAction } from '../../core/model.ts';
import { byteLengthOf } from '../codec/chunks.ts';
import { padded } from '../codec/sizes.ts';
import type {
  CheckedStage,
  DescribedStage,
  EngineStart,
  ForkOrder,
  LoadedReport,
  QueueBoot,
  StateReport,
  StatusReport,
  UsageReport,
  WorkerBoot,
} from './bodies.ts';
import {
  type FrameField,
  malformed,
  type ReadPlace,
  readItems,
  type SlotPlaces,
  type WireItem,
  writeItems,
} from './items.ts';

export type { WireItem } from './items.ts';

/** Version of the layout. Raise it with every change, so that a worker of another version is rejected, not misread. */
export const WIRE_VERSION: number = 6;

/** Longest frame in bytes; fits easily in a 32-bit length and one allocation. */
export const LONGEST_FRAME: number = 1 << 30;

export type ControlFrame =
  | { readonly type: 'boot'; readonly body: EngineStart }
  | { readonly type: 'plan'; readonly body: EnginePlan }
  | { readonly type: 'open'; readonly body: QueueBoot }
  | { readonly type: 'load'; readonly body: WorkerBoot }
  /** The OpenAPI document that the listener serves from now on, as JSON. */
  | { readonly type: 'openapi'; readonly body: string }
  | { readonly type: 'cancel'; readonly body: readonly RequestNumber[] }
  /** The slots of cancelled requests are not needed any more. */
  | { readonly type: 'freed'; readonly body: readonly RequestNumber[] }
  /** Number of parts that the flow has taken, by request. The worker that makes them may continue. */
  | { readonly type: 'taken'; readonly body: readonly (readonly [id: RequestNumber, parts: number])[] }
  | { readonly type: 'act'; readonly body: { readonly stage: number; readonly action: StageAction } }
  /** Asks for the last input of a stage. The answer is a `recalled` frame. */
  | { readonly type: 'recall'; readonly body: { readonly stage: number } }
  | { readonly type: 'close'; readonly body: { readonly deadline: Deadline } }
  | { readonly type: 'report'; readonly body: StateReport }
  /** The receiver of a ping answers with a pong at once. */
  | { readonly type: 'ping' | 'pong'; readonly body: null }
  | { readonly type: 'status'; readonly body: StatusReport }
  | { readonly type: 'log'; readonly body: LogRecord }
  | { readonly type: 'usage'; readonly body: UsageReport }
  /** Tells the engine to run the examples of all stages, and to answer by the deadline. */
  | { readonly type: 'check'; readonly body: { readonly check: number; readonly deadline: Deadline } }
  | { readonly type: 'checked'; readonly body: { readonly check: number; readonly stages: readonly CheckedStage[] } }
  | { readonly type: 'loaded'; readonly body: LoadedReport }
  | { readonly type: 'described'; readonly body: DescribedStage }
  /** Tells a worker to run one example, by its index. */
  | { readonly type: 'try'; readonly body: { readonly example: number; readonly deadline: Deadline } }
  /** The worker's answer to `try`. The error is encoded as in `CheckedStage`. */
  | { readonly type: 'tried'; readonly body: { readonly example: number; readonly error: string | null } }
  /** A worker of several places begins a batch, or, if `batch` is null, an example. The code has not run yet. */
  | { readonly type: 'began'; readonly body: { readonly batch: number | null } }
  /** How far the start of a worker is, as its modelet says it. */
  | { readonly type: 'progress'; readonly body: string }
  /** Tells a template to fork a worker. */
  | { readonly type: 'fork'; readonly body: ForkOrder }
  /** A worker that a template has forked, or could not fork, has ended. */
  | { readonly type: 'exited'; readonly body: { readonly mark: string; readonly how: string } };

export type ItemFrame =
  /** With a slot it has one item. */
  | (Slotted & { readonly type: 'submit'; readonly room?: SlotPlace | null })
  | (Slotted & { readonly type: 'outcomes' })
  /** Parts of incomplete results. The parts of a request arrive in order, and before its outcome. */
  | { readonly type: 'parts'; readonly items: readonly WireItem[] }
  | { readonly type: 'taps'; readonly items: readonly WireItem[] }
  /** One item, with the last input of a stage; `ok` is false if the stage has none. */
  | { readonly type: 'recalled'; readonly items: readonly WireItem[] }
  /** Numbered calls to a queue, and its answers with the same numbers. */
  | { readonly type: 'calls' | 'answers'; readonly items: readonly WireItem[] }
  | (Slotted & { readonly type: 'batch'; readonly batch: number; readonly room?: SlotPlace | null })
  | (Slotted & BatchRunReport & { readonly type: 'reply'; readonly batch: number });

/** A frame whose large payloads may be in slots, see src/wire/slots. */
interface Slotted {
  readonly items: readonly WireItem[];
  /** Of a frame to send. Absent: all payloads are in the frame. */
  readonly places?: SlotPlaces;
}

/** The slot of a batch or a request, which has its large inputs and then takes the results. */
export interface SlotPlace {
  readonly at: number;
  readonly bytes: number;
}

/**
 * Returns the bytes of a payload at its place in the slots; they may still be there.
 * @param loan number of the batch or the request that has the slot
 * @param at null: where the slot of the loan begins
 * @throws ModeletError `protocol_error`
 */
export type ReadSlot = (loan: number, at: number | null, length: number) => ChunkedBytes;

export type Frame = ControlFrame | ItemFrame;

/** A worker's report about the run of a batch. */
export interface BatchRunReport {
  readonly runMs: number;
  /** How often the model ran: calls of `predict`, or runs of the session of an ONNX model. 0: not known. */
  readonly runs: number;
}

/** Types of frames. The position is the type's number in frames, so only append. */
export const FRAME_TYPES = [
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
  'loaded',
  'try',
  'tried',
  'open',
  'calls',
  'answers',
  'described',
  'parts',
  'taken',
  'openapi',
  'recall',
  'began',
  'progress',
  'recalled',
  'fork',
  'exited',
  'freed',
] as const satisfies readonly Frame['type'][];

interface ItemLayout {
  /** Whether a frame travels in pieces if it holds a single large item. */
  readonly inPieces: boolean;
  /** The field that its records have, of those that only some types of frames have. */
  readonly field: FrameField | null;
}

const ITEM_LAYOUTS: Readonly<Record<ItemFrame['type'], ItemLayout>> = {
  submit: { inPieces: true, field: 'routeRef' },
  outcomes: { inPieces: true, field: 'routeRef' },
  parts: { inPieces: true, field: 'part' },
  taps: { inPieces: true, field: 'stageRef' },
  calls: { inPieces: true, field: null },
  answers: { inPieces: true, field: null },
  recalled: { inPieces: false, field: 'stageRef' },
  batch: { inPieces: false, field: 'tenure' },
  reply: { inPieces: false, field: 'part' },
};

/** Size of a frame's head, in bytes. */
export const HEAD: number = 32;

/** Smallest payload of a frame that travels in pieces, in bytes. */
const LARGE = 256 * 1024;

export function isLarge(payload: Payload): boolean {
  return byteLengthOf(payload) >= LARGE;
}

export function isLargeFrame(frame: Frame): boolean {
  if (!('items' in frame) || frame.items.length !== 1 || ('places' in frame && frame.places)) return false;
  return isLarge((frame.items[0] as WireItem).payload) && ITEM_LAYOUTS[frame.type].inPieces;
}

/** Payloads of at least so many bytes travel in slots: below, the socket costs as little. */
export const SLOT_FROM: number = 32 * 1024;

export function needsSlot({ payload }: WireItem): boolean {
  return byteLengthOf(payload) >= SLOT_FROM;
}

/** Whether a frame has a slot or payloads for one, or is no frame of payloads. */
export function concernsSlots(frame: Frame): boolean {
  return !('items' in frame) || ('room' in frame && frame.room !== null) || frame.items.some(needsSlot);
}

export function cancelledIn(frame: Frame, cancelled: ReadonlySet<RequestNumber>): RequestNumber[] {
  if (frame.type !== 'batch' || cancelled.size === 0) return [];
  return frame.items.map(({ id }) => id).filter((id) => cancelled.has(id));
}

/** Forgets the cancelled requests of batches that are not in `waiting`. Some batch may always wait. */
export function keepCancelled(cancelled: Set<RequestNumber>, waiting: readonly Frame[]): void {
  const kept = waiting.flatMap((frame) => cancelledIn(frame, cancelled));
  cancelled.clear();
  for (const id of kept) cancelled.add(id);
}

const PIECE = 255;

/** Returns the head of a piece. `length` includes the head; `total` is the length of the whole frame. */
export function pieceHead(length: number, total: number): Uint8Array {
  const head = Buffer.alloc(HEAD);
  head.writeUInt32LE(length, 0);
  head.writeUInt8(WIRE_VERSION, 4);
  head.writeUInt8(PIECE, 5);
  head.writeDoubleLE(total, 16);
  return head;
}

export function isPiece(head: Buffer): boolean {
  return head.readUInt8(5) === PIECE && head.readUInt8(4) === WIRE_VERSION;
}

/** Returns the length of the whole frame that a piece belongs to. */
export function wholeOf(head: Buffer): number {
  return head.readDoubleLE(16);
}

/** Encodes a frame as buffers to write in order. Does not copy large payloads. */
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

/** @param json bytes of JSON, in a reply the number of runs, in a batch or a submit the bytes of its slot */
function writeHead(buffer: Buffer, length: number, type: Frame['type'], items: number, json: number): void {
  if (length > LONGEST_FRAME) throw new ModeletError('protocol_error', `a frame of ${length} bytes is too long`);
  buffer.writeUInt32LE(length, 0);
  buffer.writeUInt8(WIRE_VERSION, 4);
  buffer.writeUInt8(FRAME_TYPES.indexOf(type), 5);
  buffer.writeUInt32LE(items, 8);
  buffer.writeUInt32LE(json, 12);
}

function encodeItems(frame: ItemFrame): Uint8Array[] {
  const room = 'room' in frame ? frame.room : null;
  const places = 'places' in frame ? frame.places : null;
  const fill = (head: Buffer, length: number): void => {
    const number = frame.type === 'reply' ? frame.runs : (room?.bytes ?? 0);
    writeHead(head, length, frame.type, frame.items.length, number);
    if ('batch' in frame) head.writeDoubleLE(frame.batch, 16);
    if ('runMs' in frame) head.writeDoubleLE(frame.runMs, 24);
    else if (room) head.writeDoubleLE(room.at, 24);
  };
  return writeItems(frame.items, ITEM_LAYOUTS[frame.type].field, HEAD, fill, places);
}

/**
 * Reads one whole frame. Payloads are views into `frame`, so a payload keeps the whole frame in memory.
 * @param readSlot null: no payload is in a slot
 * @throws ModeletError `protocol_error` for bytes that this version did not write.
 */
export function decodeFrame(frame: Buffer, readSlot: ReadSlot | null = null): Frame {
  const type = FRAME_TYPES[frame.readUInt8(5)];
  if (frame.readUInt8(4) !== WIRE_VERSION) {
    throw malformed(`version ${frame.readUInt8(4)} instead of ${WIRE_VERSION}`);
  }
  if (type === undefined) throw malformed(`unknown type ${frame.readUInt8(5)}`);
  const jsonLength = frame.readUInt32LE(12);
  const layout: ItemLayout | undefined = ITEM_LAYOUTS[type as ItemFrame['type']];
  if (!layout) {
    if (HEAD + padded(jsonLength) !== frame.byteLength) throw malformed('its length is not that of its JSON');
    const body = parseBody(frame.toString('utf8', HEAD, HEAD + jsonLength));
    return { type, body: type === 'close' ? withDeadline(body) : body } as ControlFrame;
  }
  const [batch, number] = [frame.readDoubleLE(16), frame.readDoubleLE(24)];
  const readPlace = readSlot ? placesIn(type as ItemFrame['type'], batch, number, readSlot) : noSlots;
  const items = readItems(frame, layout.field, HEAD, frame.readUInt32LE(8), readPlace);
  if (type !== 'batch' && type !== 'submit')
    return { type, items, batch, runMs: number, runs: jsonLength } as ItemFrame;
  return { type, items, batch, room: jsonLength > 0 ? { at: number, bytes: jsonLength } : null };
}

/** @param at the place of the slot, in frames that have one */
function placesIn(type: ItemFrame['type'], batch: number, at: number, readSlot: ReadSlot): ReadPlace {
  if (type === 'submit') return (_place, length, id) => readSlot(id, at, length);
  if (type === 'outcomes') return (place, length, id, inOther) => readSlot(id, inOther ? place : null, length);
  return (place, length) => readSlot(batch, place, length);
}

function noSlots(): never {
  throw malformed('a payload is in a slot, and there are none');
}

function parseBody(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw malformed(`its JSON cannot be read: ${(cause as Error).message}`);
  }
}

/** Restores the deadline of a close frame. JSON has no Infinity, so a close without a deadline arrives with null. */
function withDeadline(body: unknown): { readonly deadline: Deadline } {
  return { deadline: (body as { deadline: Deadline | null } | null)?.deadline ?? Number.POSITIVE_INFINITY };
}
