/** The environment that a child inherits: that of this process, without what is meant for this process alone. */

/** Options whose value may stand in the next word. */
const WITH_VALUE: ReadonlySet<string> = new Set(['--inspect-port', '--debug-port', '--inspect-publish-uid']);
/** Within quotes a backslash takes the next character as it is. */
const WORDS = /(?:"(?:\\.|[^"\\])*"?|[^\s"])+/g;

/**
 * Somebody who debugs Node-RED means Node-RED: children that inherit `--inspect` fight for its port, and with
 * `--inspect-brk` each would wait for a debugger of its own.
 */
export function inheritedEnvironment(env: NodeJS.ProcessEnv = process.env): NodeJS.ProcessEnv {
  const { NODE_OPTIONS: options, ...others } = env;
  if (options === undefined) return others;
  const kept = withoutInspector(options);
  return kept === '' ? others : { ...others, NODE_OPTIONS: kept };
}

/** The options as they were, quotes included, but for those of the debugger. */
export function withoutInspector(options: string): string {
  const words = options.match(WORDS) ?? [];
  const kept = words.filter((word, index) => !isOfInspector(word) && !isValueOf(words[index - 1]));
  return kept.length === words.length ? options : kept.join(' ');
}

function isOfInspector(word: string): boolean {
  const name = nameOf(word);
  return name === '--debug-port' || name === '--inspect' || name.startsWith('--inspect-');
}

/** A value that follows an equals sign is part of the word itself. */
function isValueOf(before: string | undefined): boolean {
  return before !== undefined && !before.includes('=') && WITH_VALUE.has(nameOf(before));
}

/** Node.js takes an underscore for a dash. */
function nameOf(word: string): string {
  const [name = ''] = word.replaceAll('"', '').split('=', 1);
  return name.replaceAll('_', '-');
}
