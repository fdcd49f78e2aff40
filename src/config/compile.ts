/** From raw node configuration to validated and frozen settings; those of stages and gates have files of their own. */
import { ModeletError } from '../core/errors.ts';
import type { Batching, LogLevel } from '../core/model.ts';
import { parsePublicPath } from './paths.ts';
import { parseCpus } from './pins.ts';
import { batcher } from './schemas/batcher.ts';
import { collector } from './schemas/collector.ts';
import { feed } from './schemas/feed.ts';
import { metrics } from './schemas/metrics.ts';
import { runtime } from './schemas/runtime.ts';
import { attempt, type Raw, validate } from './validate.ts';

export interface RuntimeConfig {
  readonly name: string;
  readonly timeoutMs: number;
  readonly flowTimeoutMs: number;
  readonly capacity: number;
  readonly maxPayloadBytes: number;
  /** null: all cores. */
  readonly engineCpus: readonly number[] | null;
  /** null: left as it is. */
  readonly serverCpus: readonly number[] | null;
  readonly strictPins: boolean;
  /** HTTP requests that arrive while flows restart wait for them. */
  readonly holdOnDeploy: boolean;
  readonly logLevel: LogLevel;
  /** Where metrics, health and OpenAPI are served beside the user's endpoints: `/` or a path without a slash at its end; blank: nowhere. */
  readonly publicPath: string;
  /** Most messages that wait for room, Node-RED's `nodeMessageBufferMaxLength`; 0: no limit. */
  readonly mostWaiting: number;
}

export type BatcherConfig = Batching & { readonly name: string };

export interface CollectorConfig {
  readonly name: string;
  readonly order: 'completion' | 'arrival';
  /** `parts`: of a result that comes in parts, each leaves as it is made. Not in the order of arrival. */
  readonly results: 'whole' | 'parts';
  readonly catch: 'upstream' | 'off';
  readonly errorPayload: 'body' | 'keep';
}

export interface FeedConfig {
  readonly name: string;
  readonly from: 'array' | 'lines' | 'jsonl';
  readonly window: number;
}

export interface MetricsConfig {
  readonly name: string;
  /** Id of a runtime node; blank: the only one there is. */
  readonly runtime: string;
  readonly intervalMs: number;
}

const BYTES_PER_MB = 1024 * 1024;

/** What the schema lets through of a runtime node. */
type RuntimeProperties = Omit<RuntimeConfig, 'mostWaiting' | 'maxPayloadBytes' | 'engineCpus' | 'serverCpus'> & {
  readonly maxPayloadMb: number;
  readonly engineCpus: string;
  readonly serverCpus: string;
};

/** @throws ModeletError `config_invalid` that lists every property at fault. */
export function compileRuntime(raw: Raw, mostWaiting = 0): RuntimeConfig {
  const { maxPayloadMb, engineCpus, serverCpus, publicPath, ...rest } = validate<RuntimeProperties>(runtime, raw);
  return Object.freeze({
    ...rest,
    publicPath: attempt('publicPath', () => parsePublicPath(publicPath)),
    mostWaiting,
    maxPayloadBytes: Math.round(maxPayloadMb * BYTES_PER_MB),
    engineCpus: cpuSet('engineCpus', engineCpus),
    serverCpus: cpuSet('serverCpus', serverCpus),
  });
}

/** @throws ModeletError `config_invalid`. */
export function compileBatcher(raw: Raw): BatcherConfig {
  return Object.freeze(validate<BatcherConfig>(batcher, raw));
}

/** @throws ModeletError `config_invalid`. */
export function compileCollector(raw: Raw): CollectorConfig {
  const config = validate<CollectorConfig>(collector, raw);
  if (config.results === 'parts' && config.order === 'arrival') {
    throw new ModeletError('config_invalid', 'results: parts leave as they are made, not in the order of arrival');
  }
  return Object.freeze(config);
}

/** @throws ModeletError `config_invalid`. */
export function compileFeed(raw: Raw): FeedConfig {
  return Object.freeze(validate<FeedConfig>(feed, raw));
}

/** @throws ModeletError `config_invalid`. */
export function compileMetrics(raw: Raw): MetricsConfig {
  return Object.freeze(validate<MetricsConfig>(metrics, raw));
}

function cpuSet(property: string, text: string): readonly number[] | null {
  const list = text.trim();
  return list === '' ? null : attempt(property, () => parseCpus(/^\[(.*)\]$/.exec(list)?.[1] ?? list));
}
