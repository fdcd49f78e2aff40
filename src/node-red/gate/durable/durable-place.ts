/** Where the store of a durable gate is: in a file of this Node-RED, or on the server of its runtime's broker. */
import { join } from 'node:path';
import type { NodeAPI } from 'node-red';
import type { BrokerPlace } from '../../../wire/frames/bodies.ts';
import type { DeployedGate } from '../../deploy/gate-deployment.ts';

export interface StoreAddress {
  /** Path of the file; with a broker, its address and the name of the queue, for people. */
  readonly file: string;
  readonly broker?: BrokerPlace;
}

interface BrokerNode {
  readonly credentials?: { readonly username?: string; readonly password?: string };
}

interface TlsNode {
  addTLSOptions?(options: object): Readonly<Record<string, unknown>>;
}

/** The part of the options of a tls-config node that another process can take. */
const TLS_OPTIONS = ['key', 'cert', 'ca', 'passphrase', 'servername', 'rejectUnauthorized'];

export function addressOfStore(RED: NodeAPI, { id, broker }: Pick<DeployedGate, 'id' | 'broker'>): StoreAddress {
  // Node-RED's own node ids are safe in a path and in a key; ids in an imported flow may not be.
  const name = encodeURIComponent(id);
  if (!broker) return { file: join(RED.settings.userDir ?? process.cwd(), 'modelets', `${name}.sqlite`) };
  const { url, prefix, tls } = broker.config;
  const { username = '', password = '' } = (RED.nodes.getNode(broker.id) as BrokerNode | null)?.credentials ?? {};
  const queue = `gate-${name}`;
  const place = { url, prefix, queue, username, password, tls: tls === '' ? null : tlsOptions(RED, tls) };
  return { file: `${url}/${prefix}:${queue}`, broker: place };
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
