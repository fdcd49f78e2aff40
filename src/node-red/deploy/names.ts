/** Gives nodes unique names for metrics and for people. */
import type { Node } from 'node-red';

/** Returns a name for each node. Appends a number to a name that is already taken, and warns on that node. */
export function uniqueNames(
  what: 'stage' | 'gate',
  wanted: Iterable<readonly [node: Node, name: string]>,
): Map<string, string> {
  const names = new Map<string, string>();
  const taken = new Set<string>();
  for (const [node, want] of wanted) {
    let name = want;
    for (let number = 2; taken.has(name); number += 1) name = `${want} (${number})`;
    if (name !== want) node.warn(`another ${what} is named "${want}": this one is shown as "${name}"`);
    taken.add(name);
    names.set(node.id, name);
  }
  return names;
}
