/** Creates the source that a gate's settings describe. */
import type { GateConfig } from '../../config/compile-gate.ts';
import type { Clock } from '../../core/clock.ts';
import { ModeletError } from '../../core/errors.ts';
import type { StageLoad } from '../../core/model.ts';
import type { BudgetSource } from '../source.ts';
import { AimdSource } from './aimd.ts';
import { contextSource } from './context.ts';
import type { Credentials, TlsOptions } from './http-endpoint.ts';
import { PrometheusSource } from './prometheus.ts';
import { shown } from './reading.ts';
import { RedisSource } from './redis.ts';
import type { LoadRedis } from './redis-client.ts';
import { saturationSource } from './saturation.ts';
import { ScrapeSource } from './scrape.ts';

/** Services that the sources get from their surroundings. */
export interface SourceServices {
  readonly clock: Clock;
  readonly credentials: Credentials;
  /** Options of the TLS configuration node named in the settings, or undefined. */
  readonly tls?: TlsOptions | undefined;
  /** Returns a value of Node-RED's context, or a promise of one. */
  readonly readContext: (context: 'flow' | 'global', key: string) => unknown;
  /** Returns the load of the stage whose workers determine max_SYS; null while it is unknown. */
  readonly readLoad: () => StageLoad | null;
  /** Calls `changed` when that load has changed. Returns a function that stops the calls. */
  readonly watchLoad?: ((changed: () => void) => () => void) | undefined;
  readonly loadRedis: LoadRedis;
}

/** The settings of a gate that its source depends on. */
export type SourceConfig = Pick<GateConfig, 'source' | 'baseline' | 'maxSys' | 'maxConcurrency'>;

/** @throws ModeletError `config_invalid` for a composite (it has no source), or if the named TLS node is missing. */
export function createSource(config: SourceConfig, services: SourceServices): BudgetSource {
  const { source, baseline, maxSys, maxConcurrency } = config;
  const { clock, credentials, readContext, readLoad, watchLoad, loadRedis } = services;
  switch (source.kind) {
    case 'constant':
      return constantSource(source.budget, clock);
    case 'saturation':
      return saturationSource({ readLoad, watchLoad, maxSys, maxConcurrency });
    case 'prometheus':
      return new PrometheusSource({ ...source, clock, credentials, tls: tlsFor(source, services) });
    case 'scrape':
      return new ScrapeSource({ ...source, clock, credentials, tls: tlsFor(source, services) });
    case 'redis':
      return new RedisSource({ ...source, clock, credentials, tls: tlsFor(source, services), loadRedis });
    case 'context':
      return contextSource({ ...source, clock, readContext });
    case 'aimd':
      return new AimdSource({ ...source, baseline }, clock);
    case 'composite':
      throw new ModeletError(
        'config_invalid',
        'Measured by: a composite gate asks its members, and has no source itself',
      );
    default:
      return source satisfies never;
  }
}

function tlsFor({ tls: id }: { readonly tls: string }, { tls }: SourceServices): TlsOptions | undefined {
  if (id !== '' && !tls) throw new ModeletError('config_invalid', 'TLS: the TLS configuration node is missing');
  return tls;
}

/** A budget that never changes: the gate only counts what is in flight. */
export function constantSource(budget: number, clock: Clock): BudgetSource {
  return {
    description: 'constant',
    read: async () => ({ ok: true, sample: { budget, at: clock.now(), fixed: true, raw: `budget ${shown(budget)}` } }),
    close: async () => {},
  };
}
