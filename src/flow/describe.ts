/** Describes nodes in words, for the reasons that people read. Pure. */
import type { GraphNode } from './graph.ts';

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
