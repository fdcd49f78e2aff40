/** Gives a gate's source access to Node-RED: credentials, TLS configuration, context, and the load of a stage. */
import type { Node, NodeAPI } from 'node-red';
import type { GateConfig } from '../../config/compile-gate.ts';
import { systemClock } from '../../core/clock.ts';
import { tlsOptionsOf } from '../../node-red/deploy/config-nodes.ts';
import type { BudgetSource, Credentials as SourceCredentials, SourceServices, TlsOptions } from '../source.ts';
import { createSource } from '../sources/create.ts';

export interface SourceHost extends Pick<SourceServices, 'readLoad' | 'watchLoad'> {
  readonly RED: NodeAPI;
  /** Returns the gate's current node. Do not keep it: each deploy replaces it. */
  readonly node: () => Node | undefined;
}

/** Creates the budget source of a gate. @throws ModeletError `config_invalid`. */
export function makeSource(around: SourceHost, config: GateConfig, credentials: SourceCredentials): BudgetSource {
  const { RED, node, readLoad, watchLoad } = around;
  return createSource(config, {
    clock: systemClock,
    credentials,
    tls: tlsOptions(RED, config),
    readContext: (context, key) => readContext(RED, node(), context, key),
    readLoad,
    watchLoad,
  });
}

/** Returns a key of all settings that a source is created from. A source with an unchanged key is kept. */
export function sourceKey(RED: NodeAPI, config: GateConfig, credentials: SourceCredentials): string {
  const { source, maxSys, maxConcurrency } = config;
  return JSON.stringify([source, maxSys, maxConcurrency, credentials, tlsOptions(RED, config) ?? null]);
}

/** Returns the options of the selected tls-config node; undefined if none is selected or the node does not exist. */
function tlsOptions(RED: NodeAPI, { source }: GateConfig): TlsOptions | undefined {
  if (!('tls' in source) || source.tls === '') return undefined;
  return tlsOptionsOf(RED, source.tls);
}

interface ContextStore {
  get(key: string, store: string | undefined, answer: (error: Error | null, value: unknown) => void): void;
}

/** Reads a context value. Stores may answer asynchronously; `#:(file)::key` names a store. */
function readContext(
  RED: NodeAPI,
  node: Node | undefined,
  context: 'flow' | 'global',
  property: string,
): Promise<unknown> {
  if (!node) return Promise.resolve(undefined);
  const { key, store } = RED.util.parseContextStore(property);
  const found = (node.context() as unknown as Record<'flow' | 'global', ContextStore>)[context];
  return new Promise((resolve, reject) => {
    found.get(key, store, (error, value) => (error ? reject(error) : resolve(value)));
  });
}
