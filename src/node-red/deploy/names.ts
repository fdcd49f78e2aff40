/** Names for people: of tabs and subflow instances, and unique ones of stages and gates. */
import { basename, extname } from 'node:path';
import type { Node, NodeAPI } from 'node-red';
import type { StageConfig } from '../../config/compile-stage.ts';

interface NamedStage {
  readonly node: Node;
  readonly config: Pick<StageConfig, 'name' | 'source'>;
}

/** Returns a lookup from the id of a tab or a subflow instance (a node's `z`) to its label. */
export function tabNames(RED: NodeAPI): (id: string) => string {
  const names = new Map<string, string>();
  RED.nodes.eachNode((node) => {
    const { id, type, label, name } = node as { id: string; type: string; label?: string; name?: string };
    if (type === 'tab' || type.startsWith('subflow:')) names.set(id, label || name || id);
  });
  return (id) => names.get(id) ?? id;
}

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

/** Names each stage by its own name, else by its file's name, else by its id. */
export function nameStages(stages: readonly NamedStage[]): Map<string, string> {
  return uniqueNames(
    'stage',
    stages.map(({ node, config }) => [node, config.name || sourceName(config) || node.id]),
  );
}

function sourceName({ source }: NamedStage['config']): string {
  if (source.kind === 'inline') return '';
  return source.kind === 'module' ? basename(source.module) : basename(source.path, extname(source.path));
}
