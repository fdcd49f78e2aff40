/** Unique names of stages and gates, for people. Pure. */
import { basename, extname } from 'node:path';
import type { StageConfig } from '../config/compile-stage.ts';

interface NamedStage {
  readonly node: { readonly id: string };
  readonly config: Pick<StageConfig, 'name' | 'source'>;
}

/** A node whose name another node has. */
export interface Doubled {
  readonly id: string;
  /** Says so, for people. */
  readonly text: string;
}

export interface Names {
  readonly names: ReadonlyMap<string, string>;
  readonly doubled: readonly Doubled[];
}

/** Returns a name for each node. Appends a number to a name that is already taken. */
export function uniqueNames(what: 'stage' | 'gate', wanted: Iterable<readonly [id: string, name: string]>): Names {
  const names = new Map<string, string>();
  const doubled: Doubled[] = [];
  const taken = new Set<string>();
  for (const [id, want] of wanted) {
    let name = want;
    for (let number = 2; taken.has(name); number += 1) name = `${want} (${number})`;
    if (name !== want)
      doubled.push({ id, text: `another ${what} has the name "${want}": this one appears as "${name}"` });
    taken.add(name);
    names.set(id, name);
  }
  return { names, doubled };
}

/** Names each stage by its own name, else by its file's name, else by its id. */
export function nameStages(stages: readonly NamedStage[]): Names {
  return uniqueNames(
    'stage',
    stages.map(({ node, config }) => [node.id, config.name || sourceName(config) || node.id]),
  );
}

function sourceName({ source }: NamedStage['config']): string {
  if (source.kind === 'inline' || source.kind === 'python-code') return '';
  if (source.kind === 'module') return basename(source.module);
  if (source.kind === 'task' && source.hub !== undefined) return basename(source.hub.replace(/@.*$/, ''));
  return source.kind === 'task' ? basename(source.folder) : basename(source.path, extname(source.path));
}
