/**
 * Every property of every node: type, bounds, default, meaning. This is the single source for validation, for the
 * defaults of flows saved by older versions, and for the tables in the docs (a test compares them).
 */
import { batcher } from './schemas/batcher.ts';
import { collector } from './schemas/collector.ts';
import { feed } from './schemas/feed.ts';
import { gate } from './schemas/gate.ts';
import { metrics } from './schemas/metrics.ts';
import type { NodeSchema } from './schemas/node-schema.ts';
import { runtime } from './schemas/runtime.ts';
import { stage } from './schemas/stage.ts';

export type { NodeSchema } from './schemas/node-schema.ts';

export type NodeType =
  | 'modelet-runtime'
  | 'modelet-batcher'
  | 'modelet-stage'
  | 'modelet-gate'
  | 'modelet-collector'
  | 'modelet-feed'
  | 'modelet-metrics';

export const NODE_SCHEMAS: Readonly<Record<NodeType, NodeSchema>> = {
  'modelet-runtime': runtime,
  'modelet-batcher': batcher,
  'modelet-stage': stage,
  'modelet-gate': gate,
  'modelet-collector': collector,
  'modelet-feed': feed,
  'modelet-metrics': metrics,
};
