/** The settings of a gate: the rule by which it admits, and where its budget comes from. */
import { gate as schema } from './schemas/gate.ts';
import { attempt, invalid, parseJson, type Raw, validate } from './validate.ts';

/** How a budget D becomes admissions. */
export interface GateRule {
  /** B: share of the capacity kept free, 0..1. Closed at D <= B. */
  readonly baseline: number;
  /** max_SYS, in `unit`; null: ready workers or servers x `maxConcurrency`. */
  readonly maxSys: number | null;
  readonly maxConcurrency: number;
  readonly unit: 'requests' | 'bytes' | 'tokens';
  readonly rounding: 'floor' | 'ceil';
  /** An open gate admits at least one. */
  readonly atLeastOne: boolean;
  /** How far the measured system is behind what a sample says it is, in ms. */
  readonly lagMs: number;
  /** Age from which a sample closes the gate, in ms. */
  readonly staleMs: number;
  /** Time after which a lease ends by itself, in ms. */
  readonly leaseMs: number;
  readonly whenClosed: 'wait' | 'refuse';
  /** Most requests that wait. */
  readonly capacity: number;
}

/** Whether the number that a source reads is a saturation S, so that D = 1 - S, or D itself. */
export type ReadValue = 'saturation' | 'budget';

/** Prometheus scrapes every 15 s unless it is told otherwise: two of those, as one may fail, and time to read the last. */
const SCRAPED_STALE_MS = 35_000;

/** Where a gate's budget comes from. Secrets are not here: they are Node-RED credentials. */
export type GateSource =
  | { readonly kind: 'constant'; readonly budget: number }
  | { readonly kind: 'saturation' }
  | {
      readonly kind: 'prometheus';
      readonly url: string;
      readonly query: string;
      /** Gives max_SYS; blank: it is not asked for. */
      readonly maxSysQuery: string;
      readonly value: ReadValue;
      readonly timeoutMs: number;
      readonly tls: string;
    }
  | {
      readonly kind: 'scrape';
      readonly url: string;
      readonly metric: string;
      readonly labels: Readonly<Record<string, string>>;
      /** 0: the number is taken as it is; else it is divided by servers x this. */
      readonly perServer: number;
      /** Metric with the number of servers; blank: one. */
      readonly serversMetric: string;
      readonly value: ReadValue;
      readonly timeoutMs: number;
      readonly tls: string;
    }
  | {
      readonly kind: 'redis';
      readonly url: string;
      readonly key: string;
      readonly value: ReadValue;
      readonly timeoutMs: number;
      readonly tls: string;
    }
  | {
      readonly kind: 'context';
      readonly context: 'flow' | 'global';
      readonly key: string;
      readonly value: ReadValue;
    }
  | {
      readonly kind: 'aimd';
      readonly minWindow: number;
      readonly maxWindow: number;
      readonly increase: number;
      readonly decreaseFactor: number;
      readonly holdMs: number;
    }
  | { readonly kind: 'composite'; readonly members: readonly string[] };

export interface GateConfig extends GateRule {
  readonly name: string;
  /** Id of a runtime node; blank: the only one there is. */
  readonly runtime: string;
  /** Id of the stage whose workers count; blank: the nearest behind the gate. */
  readonly stage: string;
  readonly source: GateSource;
  /** bytes, tokens: message property with the cost; blank: for bytes the size of the payload. */
  readonly costProperty: string;
  /** Time from one reading of the source to the next, in ms. */
  readonly intervalMs: number;
  readonly store: 'memory' | 'durable';
  /** durable: failures after which an item is a dead letter. */
  readonly maxAttempts: number;
  /** durable: how long the result of an item is kept, and its id known, in ms. */
  readonly resultTtlMs: number;
}

type Numeric<Kind extends GateSource['kind'], Names extends string> = Pick<
  Extract<GateSource, { kind: Kind }>,
  Names & keyof Extract<GateSource, { kind: Kind }>
>;

/** What the schema lets through: text but for those taken from the settings. */
type Properties = Readonly<
  Record<
    'name' | 'runtime' | 'stage' | 'maxSys' | 'costProperty' | 'url' | 'query' | 'tls' | 'metric' | 'labels',
    string
  >
> &
  Readonly<Record<'maxSysQuery' | 'serversMetric' | 'key', string>> &
  Omit<GateRule, 'maxSys'> &
  Pick<GateConfig, 'intervalMs' | 'store' | 'maxAttempts' | 'resultTtlMs'> &
  Numeric<'constant', 'budget'> &
  Numeric<'scrape', 'perServer' | 'value' | 'timeoutMs'> &
  Numeric<'context', 'context'> &
  Numeric<'aimd', 'minWindow' | 'maxWindow' | 'increase' | 'decreaseFactor' | 'holdMs'> & {
    readonly source: GateSource['kind'];
    readonly members: readonly string[];
  };

/** @throws ModeletError `config_invalid`. */
export function compileGate(raw: Raw): GateConfig {
  const properties = validate<Properties>(schema, {
    ...raw,
    ...(raw['source'] === 'prometheus' && isBlank(raw['staleMs']) ? { staleMs: SCRAPED_STALE_MS } : {}),
    members: raw['source'] === 'composite' ? listed(raw['members']) : [],
  });
  const { baseline, maxConcurrency, unit, rounding, atLeastOne, lagMs, staleMs, leaseMs } = properties;
  const { whenClosed, capacity, intervalMs, store, maxAttempts, resultTtlMs } = properties;
  const costProperty = properties.costProperty.trim();
  if (unit === 'tokens' && costProperty === '')
    throw invalid('costProperty: tokens need a message property that has their number');
  return Object.freeze({
    name: properties.name.trim(),
    runtime: properties.runtime,
    stage: properties.stage,
    source: compileSource(properties),
    baseline,
    maxSys: compileMaxSys(properties.maxSys),
    maxConcurrency,
    unit,
    costProperty,
    rounding,
    atLeastOne,
    intervalMs,
    lagMs,
    staleMs,
    leaseMs,
    whenClosed,
    capacity,
    store,
    maxAttempts,
    resultTtlMs,
  });
}

function compileMaxSys(text: string): number | null {
  if (text.trim() === '') return null;
  const maxSys = Number(text);
  if (!Number.isFinite(maxSys) || maxSys < 0) throw invalid(`maxSys: must be a number from 0, or blank; got "${text}"`);
  return maxSys;
}

function compileSource(properties: Properties): GateSource {
  const { source: kind, value, timeoutMs, tls, budget, context, perServer } = properties;
  const text = (name: 'query' | 'metric' | 'key'): string => {
    const given = properties[name].trim();
    if (given === '') throw invalid(`${name}: is missing, and the source "${kind}" needs it`);
    return given;
  };
  switch (kind) {
    case 'constant':
      return { kind, budget };
    case 'saturation':
      return { kind };
    case 'prometheus': {
      const url = address(properties, ['http:', 'https:']);
      const maxSysQuery = properties.maxSysQuery.trim();
      return { kind, url, query: text('query'), maxSysQuery, value, timeoutMs, tls };
    }
    case 'scrape': {
      const url = address(properties, ['http:', 'https:']);
      const labels = compileLabels(properties.labels);
      const serversMetric = properties.serversMetric.trim();
      return { kind, url, metric: text('metric'), labels, perServer, serversMetric, value, timeoutMs, tls };
    }
    case 'redis':
      return { kind, url: address(properties, ['redis:', 'rediss:']), key: text('key'), value, timeoutMs, tls };
    case 'context':
      return { kind, context, key: text('key'), value };
    case 'aimd': {
      const { minWindow, maxWindow, increase, decreaseFactor, holdMs } = properties;
      if (minWindow > maxWindow) throw invalid(`minWindow: ${minWindow} is more than maxWindow, ${maxWindow}`);
      return { kind, minWindow, maxWindow, increase, decreaseFactor, holdMs };
    }
    case 'composite':
      return { kind, members: compileMembers(properties.members) };
  }
}

function address({ url: text, source }: Properties, protocols: readonly string[]): string {
  const url = attempt('url', () => new URL(text.trim()));
  if (!protocols.includes(url.protocol)) {
    throw invalid(`url: the source "${source}" needs ${protocols.map((protocol) => `${protocol}//`).join(' or ')}`);
  }
  if (url.username || url.password)
    throw invalid('url: user and password belong into their own fields, not the address');
  return url.href;
}

function compileLabels(text: string): Record<string, string> {
  const labels = parseJson('labels', text);
  if (labels === null || typeof labels !== 'object' || Array.isArray(labels)) {
    throw invalid('labels: must be a JSON object of names and values');
  }
  return Object.fromEntries(Object.entries(labels).map(([name, value]) => [name, String(value)]));
}

function isBlank(value: unknown): boolean {
  return value === undefined || value === null || value === '';
}

/** Flows of earlier versions have it as JSON. */
function listed(members: unknown): unknown {
  return typeof members === 'string' && members !== '' ? parseJson('members', members) : members;
}

function compileMembers(members: readonly string[]): string[] {
  if (members.length === 0) throw invalid('members: must be an array of the ids of other gates, at least one');
  return [...new Set(members)];
}
