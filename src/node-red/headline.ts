/**
 * Shortens a message for a badge. The canvas does not cut text: a text that is longer than a node and the gap behind it
 * covers the next node's badge. The log, the sidebar and the dialog show the whole message.
 */

/** Characters in a badge: 180 to 210 px in the canvas's font. Nodes with badges are mostly 160 to 220 px apart. */
export const LONGEST_BADGE = 30;
/** Characters read of a message. Longer messages quote a client or a modelet. */
const READ_AT_MOST = 300;

/** Parts of a message that a badge omits. */
const DROPPED: readonly RegExp[] = [
  // `SyntaxError: `: the words after it say more.
  /^\w*(?:Error|Exception): /,
  // The stage's own name before a place in its code: `scale: Predict:2: `.
  /^[^:]*: (?=[^\s:]+:\d+: )/,
  / \((?:from|allowed)[^()]*\)/g,
  // The folders of an absolute path or a file's URL.
  /(?:file:\/\/|(?<![\w.])[A-Za-z]:\\|(?<![\w.:/\\])\/)[^\s'"]*[/\\](?=[^\s'"/\\])/g,
];
const VARIABLE = /the environment variable (\w+)/;

/** Returns as many whole clauses of a message's first line as fit; if they fill at most half, the line's beginning. */
export function headline(message: string, longest: number = LONGEST_BADGE): string {
  const [line = ''] = message.slice(0, READ_AT_MOST).split('\n', 1);
  const short = DROPPED.reduce((rest, dropped) => rest.replace(dropped, ''), line).replace(VARIABLE, '$${$1}');
  if (short.length <= longest) return short;
  const ends = [...short.matchAll(/[;:,] /g)].map(({ index }) => index);
  const clauses = ends.findLast((end) => end <= longest) ?? 0;
  return clauses > longest / 2 ? short.slice(0, clauses) : `${short.slice(0, longest - 1).trimEnd()}\u2026`;
}
