/**
 * Raw node configuration, as an editor or a hand-written flow has it, to validated and frozen settings. Numbers
 * arrive as strings, absent properties take their defaults, and nothing unknown turns into a default silently.
 */
import { Ajv, type ErrorObject, type ValidateFunction } from 'ajv';
import { ModeletError } from '../core/errors.ts';
import type { Batching, LogLevel, StageSource, WorkerPlacement } from '../core/model.ts';
import { parsePublicPath } from './paths.ts';
import { parseCpus, parsePins } from './pins.ts';
import { NODE_SCHEMAS, type NodeType } from './schema.ts';

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
  /** Where metrics and health are served beside the user's endpoints: `/` or a path without a slash at its end; blank: nowhere. */
  readonly publicPath: string;
  /** Most messages that wait for room, Node-RED's `nodeMessageBufferMaxLength`; 0: no limit. */
  readonly mostWaiting: number;
}

export interface StageConfig {
  readonly name: string;
  readonly runtime: string;
  readonly source: StageSource;
  readonly init: unknown;
  readonly predict: 'item' | 'batch';
  readonly workers: readonly WorkerPlacement[];
  readonly input: string;
  readonly output: string;
  readonly capacity: number;
  readonly startTimeoutMs: number;
  /** `auto`: messages that an HTTP client waits for are refused, others wait. */
  readonly overflow: 'auto' | 'refuse' | 'wait' | 'drop-oldest';
  readonly maxAgeMs: number;
  /** Message property whose value groups items for `drop-oldest`; blank: none. */
  readonly dropKey: string;
  readonly isolation: 'process' | 'thread';
  readonly runTimeoutMs: number;
  readonly retryLost: boolean;
  readonly heapMb: number;
  readonly maxRssMb: number;
  readonly recycleAfter: number;
}

export type BatcherConfig = Batching & { readonly name: string };

export interface CollectorConfig {
  readonly name: string;
  readonly order: 'completion' | 'arrival';
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

type Raw = Readonly<Record<string, unknown>>;

const MOST_WORKERS = 256;
const BYTES_PER_MB = 1024 * 1024;

const ajv: Ajv = new Ajv({ coerceTypes: true, useDefaults: true, allErrors: true, verbose: true });
const validators: Map<NodeType, ValidateFunction> = new Map();

/** What the schema lets through of a runtime node. */
type RuntimeProperties = Omit<RuntimeConfig, 'mostWaiting' | 'maxPayloadBytes' | 'engineCpus' | 'serverCpus'> & {
  readonly maxPayloadMb: number;
  readonly engineCpus: string;
  readonly serverCpus: string;
};

/** What the schema lets through of a stage node: text but for those listed last. */
type StageProperties = Readonly<
  Record<
    | 'name'
    | 'runtime'
    | 'source'
    | 'setup'
    | 'code'
    | 'teardown'
    | 'path'
    | 'init'
    | 'workers'
    | 'cpus'
    | 'env'
    | 'input'
    | 'output',
    string
  >
> &
  Pick<
    StageConfig,
    | 'predict'
    | 'capacity'
    | 'startTimeoutMs'
    | 'overflow'
    | 'maxAgeMs'
    | 'dropKey'
    | 'isolation'
    | 'runTimeoutMs'
    | 'retryLost'
    | 'heapMb'
    | 'maxRssMb'
    | 'recycleAfter'
  >;

/** @throws ModeletError `config_invalid` that lists every property at fault. */
export function compileRuntime(raw: Raw, mostWaiting = 0): RuntimeConfig {
  const { maxPayloadMb, engineCpus, serverCpus, publicPath, ...rest } = validate<RuntimeProperties>(
    'modelet-runtime',
    raw,
  );
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
  return Object.freeze(validate<BatcherConfig>('modelet-batcher', raw));
}

/** @throws ModeletError `config_invalid`. */
export function compileCollector(raw: Raw): CollectorConfig {
  return Object.freeze(validate<CollectorConfig>('modelet-collector', raw));
}

/** @throws ModeletError `config_invalid`. */
export function compileFeed(raw: Raw): FeedConfig {
  return Object.freeze(validate<FeedConfig>('modelet-feed', raw));
}

/** @throws ModeletError `config_invalid`. */
export function compileMetrics(raw: Raw): MetricsConfig {
  return Object.freeze(validate<MetricsConfig>('modelet-metrics', raw));
}

/**
 * `resolvePath` makes a file's path absolute and throws where there is no such file.
 * @throws ModeletError `config_invalid`.
 */
export function compileStage(raw: Raw, resolvePath: (path: string) => string): StageConfig {
  const stage = validate<StageProperties>('modelet-stage', raw);
  return Object.freeze({
    name: stage.name.trim(),
    runtime: stage.runtime,
    source: compileSource(stage, resolvePath),
    init: parseJson('init', stage.init),
    predict: stage.predict,
    workers: compileWorkers(stage.workers, stage.cpus, stage.env),
    input: stage.input,
    output: stage.output,
    capacity: stage.capacity,
    startTimeoutMs: stage.startTimeoutMs,
    overflow: stage.overflow,
    maxAgeMs: stage.maxAgeMs,
    dropKey: stage.dropKey.trim(),
    isolation: stage.isolation,
    runTimeoutMs: stage.runTimeoutMs,
    retryLost: stage.retryLost,
    heapMb: stage.heapMb,
    maxRssMb: stage.maxRssMb,
    recycleAfter: stage.recycleAfter,
  });
}

function compileSource(stage: StageProperties, resolvePath: (path: string) => string): StageSource {
  const { setup, code, teardown } = stage;
  if (stage.source !== 'file') return { kind: 'inline', setup, code, teardown };
  const path = stage.path.trim();
  if (path === '') throw invalid('path: the file of the modelet is missing');
  return { kind: 'file', path: attempt('path', () => resolvePath(path)) };
}

function compileWorkers(workersText: string, cpusText: string, envText: string): WorkerPlacement[] {
  const pins = attempt('cpus', () => parsePins(cpusText));
  const blank = workersText.trim() === '';
  const count = blank ? Math.max(1, pins.length) : Number(workersText);
  if (!Number.isInteger(count) || count < 1 || count > MOST_WORKERS) {
    throw invalid(`workers: must be a whole number from 1 to ${MOST_WORKERS}, or blank; got "${workersText}"`);
  }
  const environments = compileEnv(envText, count);
  return Array.from({ length: count }, (_, index) => ({
    cpus: pins.length === 0 ? null : (pins[index % pins.length] ?? null),
    env: environments[index] ?? {},
  }));
}

function compileEnv(text: string, workers: number): Record<string, string>[] {
  if (text.trim() === '') return [];
  const parsed = parseJson('env', text);
  if (Array.isArray(parsed)) {
    if (parsed.length !== workers) {
      throw invalid(`env: an array needs one object per worker: ${parsed.length} for ${workers} workers`);
    }
    return parsed.map(environment);
  }
  const shared = environment(parsed);
  return Array.from({ length: workers }, () => shared);
}

function environment(value: unknown): Record<string, string> {
  const plain = value !== null && typeof value === 'object' && !Array.isArray(value);
  if (!plain) throw invalid('env: must be an object of names and values, or an array of such objects');
  return Object.fromEntries(
    Object.entries(value).map(([name, content]) => {
      if (typeof content === 'object') throw invalid(`env: ${name} must be text or a number`);
      return [name, String(content)];
    }),
  );
}

function cpuSet(property: string, text: string): readonly number[] | null {
  const list = text.trim();
  return list === '' ? null : attempt(property, () => parseCpus(/^\[(.*)\]$/.exec(list)?.[1] ?? list));
}

function parseJson(property: string, text: string): unknown {
  return attempt(property, () => JSON.parse(text) as unknown);
}

function attempt<T>(property: string, read: () => T): T {
  try {
    return read();
  } catch (cause) {
    throw invalid(`${property}: ${(cause as Error).message}`);
  }
}

/** Checks and completes the properties of a node; `Checked` says what its schema guarantees. */
function validate<Checked>(type: NodeType, raw: Raw): Checked {
  const picked = pick(type, raw);
  let validator = validators.get(type);
  if (!validator) {
    validator = ajv.compile(NODE_SCHEMAS[type]);
    validators.set(type, validator);
  }
  if (!validator(picked)) throw invalid((validator.errors ?? []).map(explain).join('; '));
  return picked as Checked;
}

/** The node's own properties, without what Node-RED adds and without blank ones, which take their defaults. */
function pick(type: NodeType, raw: Raw): Record<string, unknown> {
  const picked: Record<string, unknown> = {};
  for (const [key, property] of Object.entries(NODE_SCHEMAS[type].properties)) {
    const value = raw[key];
    // Node-RED replaces ${NAME} where the variable is set, and leaves the text where it is not.
    const unset = typeof value === 'string' ? /^\$[{(](.+)[})]$/.exec(value)?.[1] : undefined;
    if (unset) throw invalid(`${key}: the environment variable ${unset} is not set`);
    if (value === undefined || value === null || (value === '' && !mayBeBlank(key))) continue;
    picked[key] = typeof value === 'number' && property.type === 'string' ? String(value) : value;
  }
  return picked;
}

/** No code is code that does nothing, not the default code. */
function mayBeBlank(key: string): boolean {
  return key === 'code';
}

function explain(error: ErrorObject): string {
  const property = error.instancePath.slice(1);
  const allowed =
    error.keyword === 'enum' ? `: ${(error.params as { allowedValues: string[] }).allowedValues.join(', ')}` : '';
  return `${property}: ${error.message}${allowed}; got ${JSON.stringify(error.data)}`;
}

function invalid(message: string): ModeletError {
  return new ModeletError('config_invalid', message);
}
