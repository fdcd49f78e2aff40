/** The clients of endpoints as their node has them: a name, limits and paths, all text. */
import { unreadable } from './unreadable.ts';

export interface ClientText {
  readonly name: string;
  readonly rate: string | number;
  readonly concurrent: string | number;
  readonly paths: string;
}

/** A client without its key. */
export interface ClientLimits {
  readonly name: string;
  /** Most requests per second; 0: no limit. */
  readonly rate: number;
  /** Most requests at a time; 0: no limit. */
  readonly concurrent: number;
  /** Paths at and below which it may send requests; empty: all. */
  readonly paths: readonly string[];
}

/** A name becomes a label of metrics, where `none` stands for all requests without a known key. */
const NAME = /^(?!none$)[\w.@-]{1,64}$/;
/** Each request is compared with all keys. */
const MOST_CLIENTS = 100;
const MOST_RATE = 1_000_000;

/** @throws Unreadable */
export function parseClient({ name, rate, concurrent, paths }: ClientText): ClientLimits {
  const fail = (message: string, reason: string): Error => unreadable(`${name}: ${message}`, reason, { name });
  if (!NAME.test(name)) {
    throw unreadable(
      `a name has 1 to 64 letters, digits and any of . _ @ -, and is not "none"; got "${name}"`,
      'name',
      { name },
    );
  }
  const prefixes = paths.split(',').flatMap((path) => path.trim() || []);
  if (prefixes.some((path) => !path.startsWith('/'))) throw fail('each path begins with a slash', 'paths');
  const most = Number(concurrent);
  if (!Number.isInteger(most) || most < 0) throw fail('concurrent must be a whole number', 'concurrent');
  const perSecond = Number(rate);
  if (!(perSecond >= 0 && perSecond <= MOST_RATE)) throw fail(`rate must be a number from 0 to ${MOST_RATE}`, 'rate');
  return { name, rate: perSecond, concurrent: most, paths: prefixes };
}

/** @throws Unreadable for names that are there twice, or too many clients */
export function checkNames(clients: readonly { readonly name: string }[]): void {
  if (clients.length > MOST_CLIENTS) {
    throw unreadable(`at most ${MOST_CLIENTS}; got ${clients.length}`, 'tooMany', { max: MOST_CLIENTS });
  }
  const names = clients.map(({ name }) => name);
  const name = names.find((one, index) => names.indexOf(one) < index);
  if (name !== undefined) throw unreadable('each name must be there only once', 'twice', { name });
}

/**
 * Parses all clients of a node.
 * @throws Unreadable
 */
export function parseClients(clients: readonly ClientText[]): readonly ClientLimits[] {
  checkNames(clients);
  return clients.map(parseClient);
}
