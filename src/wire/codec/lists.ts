/**
 * The layout of a list whose items are encoded one by one, so that the engine can take it apart without reading them.
 *
 *   u32 number of items | u32 0 | a record for each item | their bytes, each padded to 8
 *   record   u32 codec | u32 number of bytes
 */
import type { Payload } from '../../core/model.ts';
import { padded } from './sizes.ts';

const HEAD = 8;
const RECORD = 8;

export function writeList(items: readonly Payload[]): Buffer {
  const bytesAt = HEAD + items.length * RECORD;
  const length = items.reduce((sum, { bytes }) => sum + padded(bytes.byteLength), bytesAt);
  const list = Buffer.alloc(length);
  list.writeUInt32LE(items.length, 0);
  let at = bytesAt;
  for (const [index, { codec, bytes }] of items.entries()) {
    list.writeUInt32LE(codec, HEAD + index * RECORD);
    list.writeUInt32LE(bytes.byteLength, HEAD + index * RECORD + 4);
    list.set(bytes, at);
    at += padded(bytes.byteLength);
  }
  return list;
}

/**
 * Returns the items as views of the list.
 * @throws RangeError if the bytes are no list
 */
export function readList(list: Buffer): Payload[] {
  const count = list.readUInt32LE(0);
  let at = HEAD + count * RECORD;
  if (at > list.byteLength) throw new RangeError(`${count} items do not fit`);
  const items: Payload[] = [];
  for (let index = 0; index < count; index += 1) {
    const codec = list.readUInt32LE(HEAD + index * RECORD);
    const length = list.readUInt32LE(HEAD + index * RECORD + 4);
    if (at + length > list.byteLength) throw new RangeError(`item ${index} reaches beyond the list`);
    items.push({ codec, bytes: list.subarray(at, at + length) });
    at += padded(length);
  }
  if (at !== list.byteLength) throw new RangeError(`the list has ${list.byteLength} bytes, its items ${at}`);
  return items;
}
