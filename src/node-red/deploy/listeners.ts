/** Reads from the running runtime nodes what their engines serve at their own addresses. */
import type { NodeAPI } from 'node-red';
import { type HttpSettings, jsonLimit, pathRules } from '../../config/http/http-settings.ts';
import type { EndpointSpec, ListenerSpec, TlsFiles } from '../../core/endpoints.ts';
import { ModeletError } from '../../core/errors.ts';
import { clientsOf } from '../../flow/read/compiled-nodes.ts';
import type { LiveNodes } from '../live-nodes.ts';
import { tlsOptionsOf } from './broker-access.ts';

/** Returns the listeners by runtime. Runtimes that do not listen are absent. */
export function listenersOf(
  RED: NodeAPI,
  live: LiveNodes,
  endpoints: readonly EndpointSpec[],
): ReadonlyMap<string, ListenerSpec> {
  const listeners = new Map<string, ListenerSpec>();
  for (const { node, config } of live.of('runtime')) {
    if (config instanceof ModeletError || config.listen === null) continue;
    listeners.set(node.id, {
      address: config.listen,
      tls: config.tls === '' ? null : tlsFiles(RED, config.tls),
      maxJson: jsonLimit(RED.settings as HttpSettings),
      paths: pathRules(RED.settings as HttpSettings),
      keys: clientsOf(live, node.id),
      cors: config.cors,
      endpoints: endpoints.filter(({ runtime }) => runtime === node.id),
    });
  }
  return listeners;
}

/** Returns key and certificates of a tls-config node; empty if there is no such node, and the listener then says so. */
function tlsFiles(RED: NodeAPI, id: string): TlsFiles {
  const options = tlsOptionsOf(RED, id) ?? {};
  const texts = (['key', 'cert', 'ca', 'passphrase'] as const).flatMap((name) => {
    const value = options[name];
    return value === undefined || value === null || value === '' ? [] : [[name, String(value)] as const];
  });
  return Object.fromEntries(texts);
}
