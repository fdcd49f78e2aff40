/** Turns the settings of the clients of endpoints, and the hashes of their keys, into what checks requests. */
import type { ClientKey } from '../../core/endpoints.ts';
import { type ClientText, checkNames, parseClient } from '../formats/client-limits.ts';
import { keys } from '../schemas/keys.ts';
import { invalid, parseJson, type Raw, readProperty, validate } from '../validate.ts';

export interface KeysConfig {
  readonly name: string;
  readonly clients: readonly ClientKey[];
}

const HASH = /^[0-9a-f]{64}$/;

/**
 * @param hashes JSON of the credentials, a hash for each name; null: credentials cannot be read here, and no key fits
 * @throws ModeletError `config_invalid`
 */
export function compileKeys(raw: Raw, hashes: string | null): KeysConfig {
  const { name, clients } = validate(keys, raw);
  const byName = hashes === null ? null : hashesOf(hashes);
  const compiled = clients.map((client) => {
    const hash = byName === null ? '' : byName.get(client.name);
    if (hash === undefined) throw invalid(`clients: ${client.name || 'a client without a name'} has no key`);
    return compileClient({ ...client, hash });
  });
  return Object.freeze({ name, clients: checkClients(compiled) });
}

/** @throws ModeletError `config_invalid` */
export function compileClient({ hash, ...limits }: ClientText & Pick<ClientKey, 'hash'>): ClientKey {
  return { ...readProperty('clients', () => parseClient(limits)), hash };
}

/** @throws ModeletError `config_invalid` for names or keys that are there twice, or too many clients */
export function checkClients(clients: readonly ClientKey[]): readonly ClientKey[] {
  readProperty('clients', () => checkNames(clients));
  const keyed = clients.filter(({ hash }) => hash !== '');
  if (new Set(keyed.map(({ hash }) => hash)).size < keyed.length) throw invalid('clients: two have the same key');
  return clients;
}

function hashesOf(text: string): ReadonlyMap<string, string> {
  const parsed = text === '' ? {} : parseJson('clients', text);
  return new Map(Object.entries(parsed ?? {}).filter(([, hash]) => typeof hash === 'string' && HASH.test(hash)));
}
