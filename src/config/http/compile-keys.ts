/** Turns the settings of the clients of endpoints, and the hashes of their keys, into what checks requests. */

import { type ClientKey, NOBODY } from '../../core/endpoints.ts';
import { keys } from '../schemas/keys.ts';
import { invalid, parseJson, type Raw, validate } from '../validate.ts';

export interface KeysConfig {
  readonly name: string;
  readonly clients: readonly ClientKey[];
}

/** A name becomes a label of metrics. */
const NAME = /^[\w.@-]{1,64}$/;
const HASH = /^[0-9a-f]{64}$/;
/** Each request is compared with all keys. */
const MOST_CLIENTS = 100;
const MOST_RATE = 1_000_000;

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

export interface ClientText {
  readonly name: string;
  readonly hash: string;
  readonly rate: string | number;
  readonly concurrent: string | number;
  readonly paths: string;
}

/** @throws ModeletError `config_invalid` */
export function compileClient({ name, hash, rate, concurrent, paths }: ClientText): ClientKey {
  if (!NAME.test(name) || name === NOBODY) {
    throw invalid(
      `clients: a name has 1 to 64 letters, digits and any of . _ @ -, and is not "${NOBODY}"; got "${name}"`,
    );
  }
  const prefixes = paths.split(',').flatMap((path) => path.trim() || []);
  if (prefixes.some((path) => !path.startsWith('/'))) throw invalid(`clients: ${name}: each path begins with a slash`);
  const most = numberOf(concurrent);
  if (!Number.isInteger(most)) throw invalid(`clients: ${name}: concurrent must be a whole number`);
  const perSecond = numberOf(rate);
  if (!(perSecond <= MOST_RATE)) throw invalid(`clients: ${name}: rate must be a number from 0 to ${MOST_RATE}`);
  return { name, hash, paths: prefixes, rate: perSecond, concurrent: most };
}

/** @throws ModeletError `config_invalid` for names or keys that are there twice, or too many clients */
export function checkClients(clients: readonly ClientKey[]): readonly ClientKey[] {
  if (clients.length > MOST_CLIENTS) throw invalid(`clients: at most ${MOST_CLIENTS}; got ${clients.length}`);
  const names = new Set(clients.map(({ name }) => name));
  if (names.size < clients.length) throw invalid('clients: each name must be there only once');
  const keyed = clients.filter(({ hash }) => hash !== '');
  if (new Set(keyed.map(({ hash }) => hash)).size < keyed.length) throw invalid('clients: two have the same key');
  return clients;
}

function hashesOf(text: string): ReadonlyMap<string, string> {
  const parsed = text === '' ? {} : parseJson('clients', text);
  return new Map(Object.entries(parsed ?? {}).filter(([, hash]) => typeof hash === 'string' && HASH.test(hash)));
}

/** Blank: 0. NaN for text that is no number, or a negative one. */
function numberOf(text: string | number): number {
  const number = Number(text);
  return number >= 0 ? number : Number.NaN;
}
