/** The engine as a stage sees it. An interface of its own, since the parts of a stage need it too. */
import type { Clock } from '../../core/clock.ts';
import type { ModeletError } from '../../core/errors.ts';
import type { LogRecord, ModeletDescription, Payload, StageDefinition } from '../../core/model.ts';
import type { WireItem } from '../../wire/frames/frames.ts';
import type { PoolEvents } from '../pools/pool.ts';
import type { StagePool } from '../pools/stage-pools.ts';
import type { Item } from './item.ts';

export interface StageHost {
  readonly clock: Clock;
  createPool(definition: StageDefinition, events: PoolEvents<Item>): StagePool;
  /** The stage has finished with the item: `payload` is its value, or with `ok` false an encoded error. */
  onOutcome(item: Item, ok: boolean, payload: Payload): void;
  onFailed(item: Item, error: ModeletError): void;
  /** A part of the item's result; more may follow. */
  onPart(item: Item, part: WireItem): void;
  /** Whether the stage behind this one has room for the item. */
  mayLeave(item: Item): boolean;
  /** A full queue has room again. */
  onRoom(): void;
  onChange(): void;
  /** The modelet of the stage `ref` that serves now describes itself otherwise than the one before. */
  onDescribed(ref: number, description: ModeletDescription): void;
  onLog(record: LogRecord): void;
}
