/** Turns raw node configuration into validated and frozen settings. Stages and gates have their own files. */
import type { ListenAddress } from '../core/endpoints.ts';
import { ModeletError } from '../core/errors.ts';
import { BYTES_PER_MB, COST_IN_BYTES } from '../core/model.ts';
import { parseListen } from './formats/listen.ts';
import { parseCores } from './formats/pins.ts';
import { parseBaseUrl, parseBrokerUrl, parseKeyPrefix, parseOrigins, parsePublicPath } from './formats/urls.ts';
import { batcher } from './schemas/batcher.ts';
import { broker } from './schemas/broker.ts';
import { collector } from './schemas/collector.ts';
import { feed } from './schemas/feed.ts';
import { join } from './schemas/join.ts';
import { metrics } from './schemas/metrics.ts';
import type { SettingsOf } from './schemas/node-schema.ts';
import { runtime } from './schemas/runtime.ts';
import { stream } from './schemas/stream.ts';
import { view } from './schemas/view.ts';
import { invalid, type Raw, readProperty, validate } from './validate.ts';

type RuntimeSettings = SettingsOf<typeof runtime>;

export type RuntimeConfig = Omit<
  RuntimeSettings,
  'maxPayloadMb' | 'maxQueueMb' | 'engineCpus' | 'serverCpus' | 'listen' | 'cors'
> & {
  readonly maxPayloadBytes: number;
  readonly maxQueueBytes: number;
  /** Cores of the engine process; null: all cores. */
  readonly engineCpus: readonly number[] | null;
  /** Cores of the Node-RED process; null: the mask that it was started with. */
  readonly serverCpus: readonly number[] | null;
  /** Most messages that wait for room: Node-RED's `nodeMessageBufferMaxLength`. 0: no limit. */
  readonly mostWaiting: number;
  /** Address at which the engine serves the compiled endpoints; null: none. */
  readonly listen: ListenAddress | null;
  /** Origins of web pages that may call the endpoints, `*` for all. */
  readonly cors: readonly string[];
};
export type BatcherConfig = SettingsOf<typeof batcher>;
export type BrokerConfig = SettingsOf<typeof broker>;
export type CollectorConfig = SettingsOf<typeof collector>;
export type FeedConfig = SettingsOf<typeof feed>;
export type JoinConfig = SettingsOf<typeof join>;
export type MetricsConfig = SettingsOf<typeof metrics>;
export type StreamConfig = SettingsOf<typeof stream>;
export type ViewConfig = SettingsOf<typeof view>;

/** @throws ModeletError `config_invalid` that lists every property at fault. */
export function compileRuntime(raw: Raw, mostWaiting = 0): RuntimeConfig {
  const { maxPayloadMb, maxQueueMb, engineCpus, serverCpus, publicPath, v2Path, baseUrl, listen, cors, ...rest } =
    validate(runtime, raw);
  return Object.freeze({
    ...rest,
    publicPath: readProperty('publicPath', () => parsePublicPath(publicPath)),
    v2Path: readProperty('v2Path', () => parsePublicPath(v2Path)),
    baseUrl: readProperty('baseUrl', () => parseBaseUrl(baseUrl)),
    cors: readProperty('cors', () => parseOrigins(cors)),
    listen: readProperty('listen', () => parseListen(listen)),
    mostWaiting,
    maxPayloadBytes: Math.round(maxPayloadMb * BYTES_PER_MB),
    maxQueueBytes: Math.round(maxQueueMb * BYTES_PER_MB),
    engineCpus: readProperty('engineCpus', () => parseCores(engineCpus)),
    serverCpus: readProperty('serverCpus', () => parseCores(serverCpus)),
  });
}

/** Limits of messages for which no runtime sets any. */
export type MessageLimits = Pick<RuntimeConfig, 'timeoutMs' | 'flowTimeoutMs' | 'maxPayloadBytes'>;
export const DEFAULT_LIMITS: MessageLimits = compileRuntime({});

/** @throws ModeletError `config_invalid`. */
export function compileBatcher(raw: Raw): BatcherConfig {
  const { costBy, ...rest } = validate(batcher, raw);
  return Object.freeze({ ...rest, costBy: costBy.trim() || COST_IN_BYTES });
}

/** @throws ModeletError `config_invalid`. */
export function compileBroker(raw: Raw): BrokerConfig {
  const { url, prefix, ...rest } = validate(broker, raw);
  return Object.freeze({
    ...rest,
    url: readProperty('url', () => parseBrokerUrl(url)),
    prefix: readProperty('prefix', () => parseKeyPrefix(prefix)),
  });
}

/** @throws ModeletError `config_invalid`. */
export function compileCollector(raw: Raw): CollectorConfig {
  const config = validate(collector, raw);
  if (config.results === 'parts' && config.order === 'arrival') {
    throw new ModeletError(
      'config_invalid',
      'results: parts leave as they are made, so they cannot keep the order of arrival',
    );
  }
  return Object.freeze(config);
}

/** @throws ModeletError `config_invalid`. */
export function compileFeed(raw: Raw): FeedConfig {
  return Object.freeze(validate(feed, raw));
}

/** @throws ModeletError `config_invalid`. */
export function compileJoin(raw: Raw): JoinConfig {
  return Object.freeze(validate(join, raw));
}

/** @throws ModeletError `config_invalid`. */
export function compileMetrics(raw: Raw): MetricsConfig {
  return Object.freeze(validate(metrics, raw));
}

/** @throws ModeletError `config_invalid`. */
export function compileStream(raw: Raw): StreamConfig {
  const config = validate(stream, raw);
  if (/[\r\n\0]/.test(config.event)) throw invalid('event: must be one line of text');
  return Object.freeze(config);
}

/** @throws ModeletError `config_invalid`. */
export function compileView(raw: Raw): ViewConfig {
  return Object.freeze(validate(view, raw));
}
