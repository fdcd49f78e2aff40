/** What a stage needs of the engine around it. Interface only. */
import type { Clock } from '../../core/clock.ts';
import type { ModeletError } from '../../core/errors.ts';
import type { LogRecord, ModeletDescription, Payload, StageDefinition } from '../../core/model.ts';
import type { WireItem } from '../../wire/frames/frames.ts';
import type { PoolEvents } from '../pools/pool.ts';
import type { StagePool } from '../pools/stage-pools.ts';
import type { Item } from './item.ts';
import type { Stage } from './stage.ts';

export interface StageHost {
  readonly clock: Clock;
  createPool(definition: StageDefinition, events: PoolEvents<Item>): StagePool;
  /** The stage is through with the item: `payload` is its value, or with `ok` false an encoded error. */
  onOutcome(item: Item, ok: boolean, payload: Payload): void;
  onFailed(item: Item, error: ModeletError): void;
  /** A part of the item's result, which is not done. */
  onPart(item: Item, part: WireItem): void;
  /** Whether the stage behind this one has room for the item. */
  mayLeave(item: Item): boolean;
  /** The queue has room again after it had none. */
  onRoom(stage: Stage): void;
  onChange(): void;
  /** The modelet that serves says of itself what the one before it, if there was one, did not. */
  onDescribed(stage: Stage, description: ModeletDescription): void;
  onLog(record: LogRecord): void;
}
