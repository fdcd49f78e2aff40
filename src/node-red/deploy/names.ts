/** The names by which metrics and people know nodes: none twice. */
import type { Node } from 'node-red';

/** A second node that wants the same name gets a number after it, and says so. */
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
