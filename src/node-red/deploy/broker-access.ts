/** Where brokers and the stores of durable gates are, with what broker nodes keep in credentials and tls-config nodes. */
import type { NodeAPI } from 'node-red';
import type { BrokerConfig } from '../../config/compile.ts';
import { ownFile } from '../../config/folders.ts';
import type { BrokerPlace } from '../../core/model.ts';
import type { BrokerSecrets } from '../../flow/plan.ts';
import type { DeployedGate } from '../gate/gate-deployment.ts';

export interface StoreAddress {
  /** Path of the file; with a broker, its address and the name of the queue, for people. */
  readonly file: string;
  readonly broker?: BrokerPlace;
}

interface BrokerNode {
  readonly credentials?: { readonly username?: string; readonly password?: string; readonly secret?: string };
}

interface TlsNode {
  addTLSOptions?(options: object): Readonly<Record<string, unknown>>;
}

/** The part of the options of a tls-config node that another process can take. */
const TLS_OPTIONS = ['key', 'cert', 'ca', 'passphrase', 'servername', 'rejectUnauthorized'];

export function brokerSecrets(RED: NodeAPI, id: string, { tls }: BrokerConfig): BrokerSecrets {
  const { credentials } = (RED.nodes.getNode(id) as BrokerNode | null) ?? {};
  const { username = '', password = '', secret = '' } = credentials ?? {};
  return { username, password, secret, tls: tls === '' ? null : tlsOptions(RED, tls) };
}

export function addressOfStore(RED: NodeAPI, { id, broker }: Pick<DeployedGate, 'id' | 'broker'>): StoreAddress {
  // Node-RED's own node ids are safe in a path and in a key; ids in an imported flow may not be.
  const name = encodeURIComponent(id);
  if (!broker) return { file: ownFile(RED.settings, `${name}.sqlite`) };
  const { url, prefix } = broker.config;
  const queue = `gate-${name}`;
  const { secret: _, ...access } = brokerSecrets(RED, broker.id, broker.config);
  return { file: `${url}/${prefix}:${queue}`, broker: { url, prefix, queue, ...access } };
}

function tlsOptions(RED: NodeAPI, id: string): Readonly<Record<string, unknown>> {
  const options = (RED.nodes.getNode(id) as TlsNode | null)?.addTLSOptions?.({}) ?? {};
  const texts = TLS_OPTIONS.flatMap((name) => {
    const value = options[name];
    if (value === undefined || value === null || value === '') return [];
    return [[name, typeof value === 'boolean' ? value : String(value)] as const];
  });
  return Object.fromEntries(texts);
}
