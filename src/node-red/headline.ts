/**
 * The first words of a message, for a badge. The canvas cuts nothing: a text that is longer than a node and the gap
 * behind it covers the next node's badge. The whole message is in the log, in the sidebar and in the dialog.
 */

/** 180 to 210 px in the canvas's font; nodes that both have badges are mostly 160 to 220 px apart. */
export const LONGEST_BADGE = 30;
/** Longer messages quote what a client or a modelet wrote. */
const READ_AT_MOST = 300;

/** What a badge can do without. */
const DROPPED: readonly RegExp[] = [
  // `SyntaxError: `: the words behind it tell more.
  /^\w*(?:Error|Exception): /,
  // The stage's own name before a place in its code: `scale: Predict:2: `.
  /^[^:]*: (?=[^\s:]+:\d+: )/,
  / \((?:from|allowed)[^()]*\)/g,
  // The folders of an absolute path or a file's URL.
  /(?:file:\/\/|(?<![\w.])[A-Za-z]:\\|(?<![\w.:/\\])\/)[^\s'"]*[/\\](?=[^\s'"/\\])/g,
];
const VARIABLE = /the environment variable (\w+)/;

/** As many whole clauses of a message's first line as fit; if not even half of that fits, its beginning. */
export function headline(message: string, longest: number = LONGEST_BADGE): string {
  const [line = ''] = message.slice(0, READ_AT_MOST).split('\n', 1);
  const short = DROPPED.reduce((rest, dropped) => rest.replace(dropped, ''), line).replace(VARIABLE, '$${$1}');
  if (short.length <= longest) return short;
  const ends = [...short.matchAll(/[;:,] /g)].map(({ index }) => index);
  const clauses = ends.findLast((end) => end <= longest) ?? 0;
  return clauses > longest / 2 ? short.slice(0, clauses) : `${short.slice(0, longest - 1).trimEnd()}\u2026`;
}
