/** The words that people read about nodes: unique names of stages and gates, and descriptions of others. Pure. */
import { basename, extname } from 'node:path';
import type { StageConfig } from '../config/compile-stage.ts';
import type { GraphNode } from './graph.ts';

interface NamedStage {
  readonly node: { readonly id: string };
  readonly config: Pick<StageConfig, 'name' | 'source'>;
}

/** A warning about a node, for people. */
export interface NodeWarning {
  readonly id: string;
  readonly text: string;
}

export interface Names {
  readonly names: ReadonlyMap<string, string>;
  readonly doubled: readonly NodeWarning[];
}

/** Returns a name for each node. Appends a number to a name that is already taken. */
export function uniqueNames(what: 'stage' | 'gate', wanted: Iterable<readonly [id: string, name: string]>): Names {
  const names = new Map<string, string>();
  const doubled: NodeWarning[] = [];
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

/** Says where an output goes. */
export function describeAll(targets: readonly GraphNode[]): string {
  return targets.length === 0
    ? 'nothing is wired to its output'
    : `its output goes to ${targets.map(describe).join(' and ')}`;
}

/** Names the kind of a node, with its article. */
export function describe(node: GraphNode): string {
  switch (node.kind) {
    case 'stage':
      return 'a modelet stage';
    case 'batcher':
      return 'a batcher';
    case 'gate':
      return 'a dispatch gate';
    case 'collector':
      return 'a result collector';
    case 'join':
      return 'a node that gathers branches';
    case 'stream':
      return 'a stream response node';
    default:
      return describeType(node.type);
  }
}

/** Acronyms that node types write in small letters, and the palette and people in capitals. */
const ACRONYM = /^(?:csv|html|http|json|mqtt|rbe|tcp|tls|udp|xml|yaml)\b/;
/** Letters whose spoken names begin with a vowel sound. */
const SPOKEN_WITH_VOWEL = /^[AEFHILMNORSX]/;

/** Describes a node's type with its article, as in `an HTTP response node`. */
function describeType(type: string): string {
  // Node-RED itself adds nodes of this type.
  if (type === 'subflow-status') return 'the status output of its subflow';
  const name = type.replace(ACRONYM, (acronym) => acronym.toUpperCase());
  const takesAn = name === type ? /^[aeio]/i.test(name) : SPOKEN_WITH_VOWEL.test(name);
  return `${takesAn ? 'an' : 'a'} ${name} node`;
}
