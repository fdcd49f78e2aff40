/** Turns raw node configuration into validated and frozen settings. Stages and gates have files of their own. */

import type { ListenAddress } from '../core/endpoints.ts';
import { ModeletError } from '../core/errors.ts';
import { parseListen, parseOrigins } from './http/listen.ts';
import { parseBaseUrl, parsePublicPath } from './paths.ts';
import { parseCpus } from './pins.ts';
import { batcher } from './schemas/batcher.ts';
import { broker } from './schemas/broker.ts';
import { collector } from './schemas/collector.ts';
import { feed } from './schemas/feed.ts';
import { join } from './schemas/join.ts';
import { metrics } from './schemas/metrics.ts';
import type { SettingsOf } from './schemas/node-schema.ts';
import { runtime } from './schemas/runtime.ts';
import { stream } from './schemas/stream.ts';
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

const PREFIX = /^[A-Za-z0-9._-]{1,64}$/;
const BYTES_PER_MB = 1024 * 1024;

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
    engineCpus: cpuSet('engineCpus', engineCpus),
    serverCpus: cpuSet('serverCpus', serverCpus),
  });
}

/** @throws ModeletError `config_invalid`. */
export function compileBatcher(raw: Raw): BatcherConfig {
  return Object.freeze(validate(batcher, raw));
}

/** @throws ModeletError `config_invalid`. */
export function compileBroker(raw: Raw): BrokerConfig {
  const { url: text, prefix, ...rest } = validate(broker, raw);
  const url = readProperty('url', () => new URL(text.trim()));
  if (!['redis:', 'rediss:'].includes(url.protocol)) throw invalid('url: must begin with redis:// or rediss://');
  if (url.username || url.password)
    throw invalid('url: user and password belong into their own fields, not the address');
  if (!PREFIX.test(prefix)) throw invalid('prefix: must be 1 to 64 letters, digits and any of . _ -');
  return Object.freeze({ ...rest, url: url.href, prefix });
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

function cpuSet(property: string, text: string): readonly number[] | null {
  const list = text.trim();
  return list === '' ? null : readProperty(property, () => parseCpus(/^\[(.*)\]$/.exec(list)?.[1] ?? list));
}
