/** Reads the key and certificates that a tls-config node names. Those in its credentials are not read. */
import { readFileSync } from 'node:fs';
import type { TlsFiles } from '../core/endpoints.ts';
import { asError } from '../core/errors.ts';
import type { HeadlessFlows } from './compile-flows.ts';

const NAMES = ['key', 'cert', 'ca'] as const;

/**
 * Returns the files of a node; null for no node.
 * @throws Error that names the node and says why its certificates cannot be had
 */
export function tlsFilesOf({ flows }: HeadlessFlows, id: string): TlsFiles | null {
  if (id === '') return null;
  const node = flows.running.find((running) => running.node.id === id)?.node;
  if (!node) throw new Error(`the TLS configuration ${id} is not in the flows`);
  const fault = (why: string): Error => new Error(`the TLS configuration "${node.name || id}" ${why}`);
  const read = (name: (typeof NAMES)[number]): string | null => {
    const fromEnvironment = node[`${name}Env`];
    if (node['certType'] === 'env' && typeof fromEnvironment === 'string' && fromEnvironment !== '') {
      return process.env[fromEnvironment.replace(/^\$\{(.*)\}$/, '$1')] ?? null;
    }
    const path = node[name];
    if (typeof path !== 'string' || path.trim() === '') return null;
    try {
      return readFileSync(path.trim(), 'utf8');
    } catch (thrown) {
      throw fault(`has a file that cannot be read: ${asError(thrown).message}`);
    }
  };
  const found = NAMES.flatMap((name) => {
    const text = read(name);
    return text === null ? [] : [[name, text] as const];
  });
  const files = Object.fromEntries(found) as TlsFiles;
  if (files.key && files.cert) return files;
  throw fault(
    'has no files for key and certificate: what is uploaded in the editor is a credential, which is not read',
  );
}
