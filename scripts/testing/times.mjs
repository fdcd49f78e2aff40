// How long each test file takes. The runner begins with the longest, deals shared files out evenly, and tells how long
// a run may still take. `npm run test:full -- --record` writes the table again.
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { root } from '../runtimes.mjs';

const TABLE = join(root, 'test', 'times.json');
/** For a file that is not in the table: it is new, or quick. */
const UNKNOWN_SECONDS = 1;

const known = existsSync(TABLE) ? JSON.parse(readFileSync(TABLE, 'utf8')) : {};

/** Returns the seconds that a file took when the table was written. @param long its long form */
export function expectedSeconds(name, long = false) {
  return known[keyOf(name, long)] ?? known[name] ?? UNKNOWN_SECONDS;
}

/** Writes the table. @param {Map<string, number>} seconds by the name of a file, or of its long form */
export function record(seconds) {
  const slow = [...seconds].filter(([, value]) => value > UNKNOWN_SECONDS).sort(([a], [b]) => (a < b ? -1 : 1));
  const table = Object.fromEntries(slow.map(([name, value]) => [name, Math.round(value)]));
  writeFileSync(TABLE, `${JSON.stringify(table, null, 2)}\n`);
}

export function keyOf(name, long) {
  return long ? `${name} (long form)` : name;
}
