/** Reads from config nodes what other processes need: addresses to listen at, secrets of brokers, certificates. */
import type { NodeAPI } from 'node-red';
import type { BrokerConfig } from '../../config/compile.ts';
import { type HttpSettings, jsonLimit, pathRules } from '../../config/http/http-settings.ts';
import type { EndpointSpec, ListenerSpec } from '../../core/endpoints.ts';
import type { BrokerSecrets } from '../../flow/plan.ts';
import { clientsOf } from '../../flow/read/compiled-nodes.ts';
import type { LiveNodes } from '../live-nodes.ts';

interface BrokerNode {
  readonly credentials?: { readonly username?: string; readonly password?: string; readonly secret?: string };
}

interface TlsNode {
  addTLSOptions?(options: object): Readonly<Record<string, unknown>>;
}

/** The part of the options of a tls-config node that another process can take. */
const TLS_OPTIONS = ['key', 'cert', 'ca', 'passphrase', 'servername', 'rejectUnauthorized'];

/** Returns where the engine of a runtime listens, and how; null: it does not listen. */
export function listenerOf(
  RED: NodeAPI,
  live: LiveNodes,
  id: string,
  endpoints: readonly EndpointSpec[],
): ListenerSpec | null {
  const config = live.settings('runtime', id);
  if (!config || config.listen === null) return null;
  return {
    address: config.listen,
    // Without such a node they are empty, and the listener says so.
    tls: config.tls === '' ? null : tlsTexts(RED, config.tls, ['key', 'cert', 'ca', 'passphrase']),
    maxJson: jsonLimit(RED.settings as HttpSettings),
    paths: pathRules(RED.settings as HttpSettings),
    keys: clientsOf(live, id),
    cors: config.cors,
    endpoints: endpoints.filter(({ runtime }) => runtime === id),
  };
}

export function brokerSecrets(RED: NodeAPI, id: string, { tls }: BrokerConfig): BrokerSecrets {
  const { credentials } = (RED.nodes.getNode(id) as BrokerNode | null) ?? {};
  const { username = '', password = '', secret = '' } = credentials ?? {};
  return { username, password, secret, tls: tls === '' ? null : tlsTexts(RED, tls, TLS_OPTIONS) };
}

/** Returns these options of a tls-config node, as far as they are set, in a form that another process can take. */
export function tlsTexts(
  RED: NodeAPI,
  id: string,
  names: readonly string[],
): Readonly<Record<string, string | boolean>> {
  const options = tlsOptionsOf(RED, id) ?? {};
  const texts = names.flatMap((name) => {
    const value = options[name];
    if (value === undefined || value === null || value === '') return [];
    return [[name, typeof value === 'boolean' ? value : String(value)] as const];
  });
  return Object.fromEntries(texts);
}

/** Returns the options of a tls-config node; undefined if there is no such node. */
export function tlsOptionsOf(RED: NodeAPI, id: string): Readonly<Record<string, unknown>> | undefined {
  return (RED.nodes.getNode(id) as TlsNode | null)?.addTLSOptions?.({});
}
