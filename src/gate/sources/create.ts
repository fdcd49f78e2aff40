/** Creates the source that a gate's settings describe. */
import type { GateConfig } from '../../config/compile-gate.ts';
import type { Clock } from '../../core/clock.ts';
import { ModeletError } from '../../core/errors.ts';
import type { BudgetSource, SourceServices } from '../source.ts';
import { AimdSource } from './aimd.ts';
import { contextSource } from './context.ts';
import { PrometheusSource } from './prometheus.ts';
import { shown } from './reading.ts';
import { RedisSource } from './redis.ts';
import { saturationSource } from './saturation.ts';
import { ScrapeSource } from './scrape.ts';

/** @throws ModeletError `config_invalid` for a composite (it has no source), or if the named TLS node is missing. */
export function createSource(config: GateConfig, services: SourceServices): BudgetSource {
  const { source, baseline } = config;
  if ('tls' in source && source.tls !== '' && !services.tls) {
    throw new ModeletError('config_invalid', 'TLS: the TLS configuration node is missing');
  }
  switch (source.kind) {
    case 'constant':
      return constantSource(source.budget, services.clock);
    case 'saturation':
      return saturationSource(config, services);
    case 'prometheus':
      return new PrometheusSource(source, services);
    case 'scrape':
      return new ScrapeSource(source, services);
    case 'redis':
      return new RedisSource(source, services);
    case 'context':
      return contextSource(source, services);
    case 'aimd':
      return new AimdSource({ ...source, baseline }, services.clock);
    case 'composite':
      throw new ModeletError(
        'config_invalid',
        'Measured by: a composite gate asks its members, and has no source itself',
      );
    default:
      return source satisfies never;
  }
}

/** A budget that never changes: the gate only counts what is in flight. */
export function constantSource(budget: number, clock: Clock): BudgetSource {
  return {
    description: 'constant',
    read: async () => ({ ok: true, sample: { budget, at: clock.now(), fixed: true, raw: `budget ${shown(budget)}` } }),
    close: async () => {},
  };
}
