/** Reads from the running runtime nodes what their engines serve at their own addresses. */
import type { NodeAPI } from 'node-red';
import { type HttpSettings, jsonLimit, pathRules } from '../../config/http/http-settings.ts';
import type { EndpointSpec, ListenerSpec } from '../../core/endpoints.ts';
import { clientsOf } from '../../flow/read/compiled-nodes.ts';
import type { LiveNodes } from '../live-nodes.ts';
import { tlsTexts } from './broker-access.ts';

/** Returns the listeners by runtime. Runtimes that do not listen are absent. */
export function listenersOf(
  RED: NodeAPI,
  live: LiveNodes,
  endpoints: readonly EndpointSpec[],
): ReadonlyMap<string, ListenerSpec> {
  const listeners = new Map<string, ListenerSpec>();
  for (const [id, config] of live.allSettings('runtime')) {
    if (config.listen === null) continue;
    listeners.set(id, {
      address: config.listen,
      // Without such a node they are empty, and the listener says so.
      tls: config.tls === '' ? null : tlsTexts(RED, config.tls, ['key', 'cert', 'ca', 'passphrase']),
      maxJson: jsonLimit(RED.settings as HttpSettings),
      paths: pathRules(RED.settings as HttpSettings),
      keys: clientsOf(live, id),
      cors: config.cors,
      endpoints: endpoints.filter(({ runtime }) => runtime === id),
    });
  }
  return listeners;
}
