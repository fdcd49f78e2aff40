/** Compiles the settings of a gate: its admission rule and the source of its budget. */
import { parseLabels } from './formats/json.ts';
import { parseServerUrl } from './formats/urls.ts';
import { gate as schema } from './schemas/gate.ts';
import type { SettingsOf } from './schemas/node-schema.ts';
import { invalid, parseJson, type Raw, readProperty, validate } from './validate.ts';

type GateSettings = SettingsOf<typeof schema>;

const RULE = [
  ...(['baseline', 'maxConcurrency', 'unit', 'rounding', 'atLeastOne', 'lagMs', 'staleMs'] as const),
  ...(['leaseMs', 'whenClosed', 'capacity'] as const),
] as const;
/** The settings that a gate has whatever its source is. */
const KEPT = [...RULE, 'runtime', 'stage', 'intervalMs', 'store', 'maxAttempts', 'resultTtlMs'] as const;

/** The rule that turns a budget D into admissions. */
export type GateRule = Pick<GateSettings, (typeof RULE)[number]> & {
  /** max_SYS, in `unit`; null: ready workers or servers x `maxConcurrency`. */
  readonly maxSys: number | null;
};

/** Meaning of the number that a source reads: a saturation S, so that D = 1 - S, or the budget D itself. */
export type ReadValue = GateSettings['value'];

/** Prometheus scrapes every 15 s by default: two intervals, as one scrape may fail, plus time to read the last one. */
const SCRAPED_STALE_MS = 35_000;

/** The source of a gate's budget. Secrets are stored elsewhere, as Node-RED credentials. */
export type GateSource =
  | Source<'constant', 'budget'>
  | Source<'saturation', never>
  | Source<'prometheus', 'url' | 'query' | 'maxSysQuery' | 'value' | 'timeoutMs' | 'tls'>
  | (Source<'scrape', 'url' | 'metric' | 'perServer' | 'serversMetric' | 'value' | 'timeoutMs' | 'tls'> & {
      readonly labels: Readonly<Record<string, string>>;
    })
  | Source<'redis', 'url' | 'key' | 'value' | 'timeoutMs' | 'tls'>
  | Source<'context', 'context' | 'key' | 'value'>
  | Source<'aimd', 'minWindow' | 'maxWindow' | 'increase' | 'decreaseFactor' | 'holdMs'>
  | { readonly kind: 'composite'; readonly members: readonly string[] };

type Source<Kind extends GateSettings['source'], Names extends keyof GateSettings> = {
  readonly kind: Kind;
} & Pick<GateSettings, Names>;

export type GateConfig = GateRule &
  Pick<GateSettings, 'name' | 'costProperty' | (typeof KEPT)[number]> & { readonly source: GateSource };

/**
 * Validates the settings of a gate and freezes the result.
 * @throws ModeletError `config_invalid`.
 */
export function compileGate(raw: Raw): GateConfig {
  const properties = validate(schema, {
    ...raw,
    ...(raw['source'] === 'prometheus' && isBlank(raw['staleMs']) ? { staleMs: SCRAPED_STALE_MS } : {}),
    members: raw['source'] === 'composite' ? listed(raw['members']) : [],
  });
  const { unit } = properties;
  const costProperty = properties.costProperty.trim();
  if (unit === 'tokens' && costProperty === '')
    throw invalid('costProperty: tokens need a message property that has their number');
  const kept = Object.fromEntries(KEPT.map((name) => [name, properties[name]]));
  return Object.freeze({
    ...(kept as Pick<GateSettings, (typeof KEPT)[number]>),
    name: properties.name.trim(),
    source: compileSource(properties),
    maxSys: compileMaxSys(properties.maxSys),
    costProperty,
  });
}

function compileMaxSys(text: string): number | null {
  if (text.trim() === '') return null;
  const maxSys = Number(text);
  if (!Number.isFinite(maxSys) || maxSys < 0) throw invalid(`maxSys: must be a number from 0, or blank; got "${text}"`);
  return maxSys;
}

function compileSource(properties: GateSettings): GateSource {
  const { source: kind, value, timeoutMs, tls, budget, context, perServer } = properties;
  const text = (name: 'query' | 'metric' | 'key'): string => {
    const given = properties[name].trim();
    if (given === '') throw invalid(`${name}: is missing, and the source "${kind}" needs it`);
    return given;
  };
  const address = (): string => readProperty('url', () => parseServerUrl(properties.url, (name) => properties[name]));
  switch (kind) {
    case 'constant':
      return { kind, budget };
    case 'saturation':
      return { kind };
    case 'prometheus': {
      const url = address();
      const maxSysQuery = properties.maxSysQuery.trim();
      return { kind, url, query: text('query'), maxSysQuery, value, timeoutMs, tls };
    }
    case 'scrape': {
      const url = address();
      const labels = readProperty('labels', () => parseLabels(properties.labels));
      const serversMetric = properties.serversMetric.trim();
      return { kind, url, metric: text('metric'), labels, perServer, serversMetric, value, timeoutMs, tls };
    }
    case 'redis':
      return { kind, url: address(), key: text('key'), value, timeoutMs, tls };
    case 'context':
      return { kind, context, key: text('key'), value };
    case 'aimd': {
      const { minWindow, maxWindow, increase, decreaseFactor, holdMs } = properties;
      if (minWindow > maxWindow) throw invalid(`minWindow: ${minWindow} is more than the Maximum window, ${maxWindow}`);
      return { kind, minWindow, maxWindow, increase, decreaseFactor, holdMs };
    }
    case 'composite':
      return { kind, members: compileMembers(properties.members) };
  }
}

function isBlank(value: unknown): boolean {
  return value === undefined || value === null || value === '';
}

/** Returns the members as an array. Flows of earlier versions store them as JSON text. */
function listed(members: unknown): unknown {
  return typeof members === 'string' && members !== '' ? parseJson('members', members) : members;
}

function compileMembers(members: readonly string[]): string[] {
  if (members.length === 0) throw invalid('members: must be an array of the ids of other gates, at least one');
  return [...new Set(members)];
}
