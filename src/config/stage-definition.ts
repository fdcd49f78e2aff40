/**
 * A stage as plain data: the server writes it, the engine and the workers read it. Its settings come from the schema of
 * the stage, where `goesTo` names their reader; see there for their meaning.
 */
import type { PlannedListener } from '../core/endpoints.ts';
import type {
  Batching,
  CacheSettings,
  ModeletDescription,
  PayloadSchema,
  RemotePlace,
  WorkerPlacement,
} from '../core/model.ts';
import type { Route } from '../core/routes/route.ts';
import type { StageVersions } from '../core/versions.ts';
import type { NodeSchema, SettingsOf } from './schemas/node-schema.ts';
import { stage } from './schemas/stage.ts';
import type { StageSource } from './stage-source.ts';

type Reader = 'engine' | 'modelet';

type Properties = typeof stage.properties;

/** The settings that a reader gets as the user made them. */
type SettingsFor<Of extends Reader> = Pick<
  SettingsOf<typeof stage>,
  { [Name in keyof Properties]: Properties[Name] extends { readonly goesTo: Of } ? Name : never }[keyof Properties]
>;

/** Everything a worker needs to run a stage's modelet. Any change needs new workers. */
export interface ModeletDefinition extends SettingsFor<'modelet'> {
  readonly source: StageSource;
  /** The JSON from the editor. The modelet's constructor or the inline code gets it as `init`. */
  readonly init: unknown;
  /** Schemas of inputs and results; null: the modelet's own schema, else anything. */
  readonly inputSchema: PayloadSchema | null;
  readonly outputSchema: PayloadSchema | null;
  /** Folder where the search for modules starts; it goes upwards. For Python, the user directory. */
  readonly requireFrom: string;
  /** All workers that there may be. */
  readonly workers: readonly WorkerPlacement[];
}

/** How a stage follows its load with the number of its workers. */
export interface Scaling {
  readonly min: number;
  /** How long the load must need fewer workers before one ends, in ms. */
  readonly idleMs: number;
}

export interface StageDefinition extends SettingsFor<'engine'> {
  /** Id of the Node-RED node. */
  readonly id: string;
  /** Small number that identifies the stage in frames. */
  readonly ref: number;
  readonly name: string;
  /**
   * Hash of `modelet`, and of the place of a remote stage. A stage keeps its workers while its revision stays the same.
   * The number of workers is no part of it if it is a range, and all workers are alike.
   */
  readonly revision: string;
  readonly modelet: ModeletDefinition;
  /** Null or absent: all workers run all the time. */
  readonly scaling?: Scaling | null;
  readonly batching: Batching;
  /** Reaction of a full queue to an item that is not patient. */
  readonly overflow: 'refuse' | 'drop-oldest';
  readonly cache: CacheSettings;
  /** The runtime's time limit for requests from HTTP clients, in ms; 0: none. */
  readonly requestTimeoutMs: number;
  /** The broker over which worker hosts pull the stage's batches; null: the engine has its workers. */
  readonly remote: RemotePlace | null;
  /** Stages that answer a share of its requests, or get copies of them. Default: none. */
  readonly versions?: StageVersions;
}

/** A stage as the flows describe it. The planner adds its number and revision. */
export type PlannedStage = Omit<StageDefinition, 'ref' | 'revision'>;

/** Everything an engine needs to know; sent whole at each deploy. */
export interface EnginePlan {
  readonly stages: readonly StageDefinition[];
  readonly routes: readonly Route[];
  /** Routes that a deploy dropped, kept for requests that are still in transit. Default: none. */
  readonly earlier?: readonly Route[];
  /** Default: the engine has no listener. */
  readonly listener?: PlannedListener;
}

/**
 * Whether worker hosts may run a stage and the next one in a row. A list comes back, because the engine takes it apart, and
 * so does an item for another key.
 */
export function mayHop({ cache, versions, modelet }: StageDefinition): boolean {
  return cache.entries === 0 && !versions && modelet.emits === 'one' && modelet.keyBy === '';
}

/** Returns how many items the workers of a stage run at a time. */
export function mostRunning({ batching, modelet }: StageDefinition): number {
  return modelet.concurrency * modelet.workers.length * batching.maxBatchSize;
}

/** Returns how many patient requests a stage may have at a time: all that its workers hold, and a full queue. */
export function roomOf({ capacity, batching, modelet }: StageDefinition): number {
  return capacity + (modelet.concurrency + 1) * modelet.workers.length * batching.maxBatchSize;
}

/** The terms on which rows of one request are requests by themselves. */
export interface RowTerms {
  /** Most rows of tensors that may be; 0: the stages have not shown that rows may be. */
  readonly mostRows: number;
  /** Most open requests of the runtime. */
  readonly capacity: number;
  /** How many items the workers of the stages run at a time. Of hosts, whose workers nothing here knows: what the queue takes. */
  readonly running: number;
}

/**
 * As many rows of tensors may be requests as find room in the table of open requests and in the first queue. None may
 * unless each stage has shown that they may be, and has batches in which they run together. Versions of a stage would
 * share them out, and a stage that emits lists would make a list of each.
 */
export function rowTerms(
  stages: readonly StageDefinition[],
  describe: (stage: StageDefinition) => ModeletDescription | null,
  capacity: number,
): RowTerms {
  const [first] = stages;
  const areItems = stages.every(
    (stage) =>
      stage.batching.maxBatchSize > 1 &&
      !stage.versions &&
      stage.modelet.emits === 'one' &&
      describe(stage)?.rows === true,
  );
  return {
    mostRows: first && areItems ? Math.min(capacity, first.capacity) : 0,
    capacity,
    running: stages.reduce((sum, stage) => sum + (stage.remote ? stage.capacity : mostRunning(stage)), 0),
  };
}

/** Whether the items of a failed batch call run again, one by one. By default only those of models, which have no effects. */
export function rerunsBatches({ rerun, modelet }: Pick<StageDefinition, 'rerun' | 'modelet'>): boolean {
  return rerun === 'on' || (rerun === 'auto' && ['onnx', 'task'].includes(modelet.source.kind));
}

/** Picks the settings of a stage that a reader gets as they are. */
export function settingsFor<Of extends Reader>(reader: Of, settings: SettingsFor<Of>): SettingsFor<Of> {
  const { properties }: NodeSchema = stage;
  const isRead = ([name]: readonly [string, unknown]): boolean => properties[name]?.goesTo === reader;
  return Object.fromEntries(Object.entries(settings).filter(isRead)) as SettingsFor<Of>;
}
