/**
 * Reads the clients that may use the endpoints from a file of the command line. The keys of a flow are in Node-RED's
 * credentials, which are not read. A node for keys without such a file admits no client by mistake: the server does not start.
 */
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { checkClients, compileClient } from '../config/http/compile-keys.ts';
import type { ClientKey } from '../core/endpoints.ts';
import { asError } from '../core/errors.ts';
import { quoted } from '../core/text.ts';

/** A client as the file has it, with its key or the SHA-256 of its key in hexadecimal. */
interface ClientEntry {
  readonly name?: unknown;
  readonly key?: unknown;
  readonly sha256?: unknown;
  readonly rate?: unknown;
  readonly concurrent?: unknown;
  readonly paths?: unknown;
}

/** Visible ASCII, which a header can carry. */
const KEY = /^[\x21-\x7e]{16,512}$/;
const SHA256 = /^[0-9a-fA-F]{64}$/;

/**
 * Returns the clients; null if any client may use the endpoints.
 * @param path the file; null: none
 * @param keys id of the node for keys that the runtime names; '': none
 * @throws Error that says why there are no clients, never with the text of a key
 */
export function readKeys(path: string | null, keys: string): readonly ClientKey[] | null {
  if (path === null) {
    if (keys === '') return null;
    throw new Error('its runtime asks for keys, which are credentials and not read: name a file by --keys-file');
  }
  let entries: unknown;
  try {
    entries = JSON.parse(readFileSync(path, 'utf8'));
  } catch (thrown) {
    // A parser may quote the file.
    const { code } = asError(thrown) as NodeJS.ErrnoException;
    throw new Error(`the keys ${path} cannot be read: ${code ?? 'the file is not JSON'}`);
  }
  if (!Array.isArray(entries)) throw new Error(`the keys ${path} must be an array`);
  try {
    return checkClients(entries.map((entry: unknown) => clientOf((entry ?? {}) as ClientEntry)));
  } catch (thrown) {
    throw new Error(`the keys ${path}: ${asError(thrown).message}`);
  }
}

function clientOf({ name, key, sha256, rate = 0, concurrent = 0, paths = [], ...rest }: ClientEntry): ClientKey {
  if (typeof name !== 'string') throw new Error('each client needs a name');
  // A misspelt limit would be no limit.
  const [unknown] = Object.keys(rest);
  if (unknown !== undefined)
    throw new Error(`${name} has a property ${JSON.stringify(quoted(unknown))}, which is unknown`);
  const texts = Array.isArray(paths) ? paths.map(String) : [String(paths)];
  const numbers = { rate: Number(rate), concurrent: Number(concurrent) };
  return compileClient({ name, hash: hashOf(name, key, sha256), ...numbers, paths: texts.join(',') });
}

function hashOf(name: string, key: unknown, sha256: unknown): string {
  if (typeof sha256 === 'string' && SHA256.test(sha256)) return sha256.toLowerCase();
  if (typeof key === 'string' && KEY.test(key)) return createHash('sha256').update(key).digest('hex');
  throw new Error(`${name} needs a key of 16 to 512 visible ASCII characters, or its sha256`);
}
