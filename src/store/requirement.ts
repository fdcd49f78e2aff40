/** The Node.js that a durable store needs. A file of its own: Node-RED checks it at deploy, the store's process at start. */

/** The first Node.js with `node:sqlite` without a flag. */
const FIRST_NODE = [22, 13];

/** Why this Node.js has no usable SQLite; null if it has. */
export function whyNoSqlite(version: string = process.versions.node): string | null {
  if (isAtLeast(version, FIRST_NODE)) return null;
  return `a durable store needs Node.js ${FIRST_NODE.join('.')} or later, and this is ${version}`;
}

export function isAtLeast(version: string, least: readonly number[]): boolean {
  const parts = version.split('.').map((part) => Number.parseInt(part, 10));
  for (const [index, wanted] of least.entries()) {
    const found = parts[index] ?? 0;
    if (found !== wanted) return found > wanted;
  }
  return true;
}
