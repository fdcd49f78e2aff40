/**
 * The keys of items on the wire, and snapshots of their states, in stages that keep them. In `batch` frames the meta of
 * an item is JSON that tells the key, whether the item begins or ends it, and its state if the worker must begin with it.
 * In replies the meta is the state that the item has left: its codec in the first byte, and its payload. A codec `none`
 * says that the key has no state any more; no meta, that the state is as it was.
 */
import type { Payload } from '../../core/model.ts';
import { CODEC } from '../codec/codec.ts';
import type { WireItem } from './items.ts';

/** Most bytes of the snapshots in one reply. */
export const SNAPSHOTS_ROOM: number = 256 * 1024 * 1024;

/** The meta of a reply whose key has no state any more. */
export const NO_STATE: Uint8Array = Uint8Array.of(CODEC.none);

/** The key of an item, as its meta has it. */
export interface WireKey {
  /** Blank: the item has none. */
  readonly key: string;
  /** Whether the item begins with an empty state. */
  readonly begins: boolean;
  /** Whether the state ends with the item. */
  readonly ends: boolean;
  /** The snapshot in base64; blank: none. */
  readonly state: string;
}

/** Returns the fields of a meta that say whether a message, or a request, begins its key with an empty state, and ends it. */
export function keyBounds(of: object): { readonly keyStart?: true; readonly keyEnd?: true } {
  const { keyStart, keyEnd } = of as { readonly keyStart?: unknown; readonly keyEnd?: unknown };
  return { ...(keyStart === true && { keyStart }), ...(keyEnd === true && { keyEnd }) };
}

export function keyIn({ meta }: Pick<WireItem, 'meta'>): WireKey {
  const { key, keyStart, keyEnd, state } = fieldsOf(meta);
  return {
    key: typeof key === 'string' ? key : '',
    begins: keyStart === true,
    ends: keyEnd === true,
    state: typeof state === 'string' ? state : '',
  };
}

/** Returns the state that the item brings; null: none. */
export function stateIn({ state }: WireKey): Payload | null {
  if (state === '') return null;
  const snapshot = Buffer.from(state, 'base64');
  return { codec: snapshot[0] as number, bytes: snapshot.subarray(1) };
}

export function snapshotOf({ codec, bytes }: Payload): Uint8Array {
  return Buffer.concat([Uint8Array.of(codec), bytes]);
}

export function isEmptied(snapshot: Uint8Array): boolean {
  return snapshot[0] === CODEC.none;
}

/** Returns the meta of an item whose worker must begin with this state. */
export function withState({ meta }: Pick<WireItem, 'meta'>, snapshot: Uint8Array): Uint8Array {
  return Buffer.from(JSON.stringify({ ...fieldsOf(meta), state: Buffer.from(snapshot).toString('base64') }));
}

/** Returns the meta of an item whose worker must begin with an empty state. */
export function withStart({ meta }: Pick<WireItem, 'meta'>): Uint8Array {
  return Buffer.from(JSON.stringify({ ...fieldsOf(meta), keyStart: true }));
}

function fieldsOf(meta: Uint8Array | null): Readonly<Record<string, unknown>> {
  try {
    return meta ? (JSON.parse(Buffer.from(meta).toString()) as Record<string, unknown>) : {};
  } catch {
    return {};
  }
}
