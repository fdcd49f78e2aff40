/** The engine as a stage sees it. In its own file because the parts of a stage need it too. */

import type { StageDefinition } from '../../../config/stage-definition.ts';
import type { Clock } from '../../../core/clock.ts';
import type { ModeletError } from '../../../core/errors.ts';
import type { LogRecord, ModeletDescription, Payload } from '../../../core/model.ts';
import type { WireItem } from '../../../wire/frames/frames.ts';
import type { KeptStates } from '../keys/kept-states.ts';
import type { PoolEvents } from '../pools/pool.ts';
import type { StagePool } from '../pools/stage-pools.ts';
import type { Item } from './item.ts';

export interface StageHost {
  readonly clock: Clock;
  /** Null: no file keeps the states of keys. */
  readonly kept: KeptStates | null;
  createPool(definition: StageDefinition, events: PoolEvents<Item>): StagePool;
  /** Hands over a finished item: `payload` is its value, or an encoded error if `ok` is false. */
  onOutcome(item: Item, ok: boolean, payload: Payload): void;
  onFailed(item: Item, error: ModeletError): void;
  /** Hands over a part of the item's result; more may follow. */
  onPart(item: Item, part: WireItem): void;
  /** Whether the item may go on: the next stage has room, or its full queue does not hold this stage's items back. */
  mayLeave(item: Item): boolean;
  /** Whether the engine has memory for a request that has just come. */
  hasMemory(item: Item): boolean;
  /** Keeps memory for the result of an item that runs now. */
  onRun(item: Item): void;
  /** Forgets the result of an item that no worker runs any more. */
  onStopped(item: Item): void;
  /** Announces that a full queue has room again. */
  onRoom(): void;
  onChange(): void;
  /** Announces that the description of the modelet that serves stage `ref` has changed. */
  onDescribed(ref: number, description: ModeletDescription): void;
  onLog(record: LogRecord): void;
}
