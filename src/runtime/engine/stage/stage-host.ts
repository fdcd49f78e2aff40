/** The engine as a stage sees it. In its own file because the parts of a stage need it too. */
import type { StageDefinition } from '../../../config/stage-definition.ts';
import type { Clock } from '../../../core/clock.ts';
import type { LogRecord, ModeletDescription } from '../../../core/model.ts';
import type { KeptStates } from '../keys/kept-states.ts';
import type { PoolEvents } from '../pools/pool.ts';
import type { StagePool } from '../pools/stage-pools.ts';
import type { Router } from '../routes/router.ts';
import type { Item } from './item.ts';

export interface StageHost {
  readonly clock: Clock;
  /** Takes the items that a stage has finished, and knows which may leave it. */
  readonly router: Router;
  /** Null: no file keeps the states of keys. */
  readonly kept: KeptStates | null;
  createPool(definition: StageDefinition, events: PoolEvents<Item>): StagePool;
  /** Announces that a full queue has room again. */
  onRoom(): void;
  onChange(): void;
  /** Announces that the description of the modelet that serves stage `ref` has changed. */
  onDescribed(ref: number, description: ModeletDescription): void;
  onLog(record: LogRecord): void;
}
