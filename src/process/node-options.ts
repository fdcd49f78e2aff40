/** Builds the environment of a child: this process's environment, without the options meant only for this process. */

/** Options whose value may be the next word. */
const WITH_VALUE: ReadonlySet<string> = new Set(['--inspect-port', '--debug-port', '--inspect-publish-uid']);
/** Matches one word. Inside quotes, a backslash escapes the next character. */
const WORDS = /(?:"(?:\\.|[^"\\])*"?|[^\s"])+/g;

/**
 * Returns the environment for a child, without debugger options. Children that inherit `--inspect` would compete for
 * Node-RED's port, and with `--inspect-brk` each child would wait for its own debugger.
 */
export function inheritedEnvironment(env: NodeJS.ProcessEnv = process.env): NodeJS.ProcessEnv {
  const { NODE_OPTIONS: options, ...others } = env;
  if (options === undefined) return others;
  const kept = withoutInspector(options);
  return kept === '' ? others : { ...others, NODE_OPTIONS: kept };
}

/** Returns the options without those of the debugger. Keeps the other options unchanged, with their quotes. */
export function withoutInspector(options: string): string {
  const words = options.match(WORDS) ?? [];
  const kept = words.filter((word, index) => !isOfInspector(word) && !isValueOf(words[index - 1]));
  return kept.length === words.length ? options : kept.join(' ');
}

function isOfInspector(word: string): boolean {
  const name = nameOf(word);
  return name === '--debug-port' || name === '--inspect' || name.startsWith('--inspect-');
}

/** Whether the word after `before` is its value. A value after an equals sign is part of the same word. */
function isValueOf(before: string | undefined): boolean {
  return before !== undefined && !before.includes('=') && WITH_VALUE.has(nameOf(before));
}

/** Returns the option's name with dashes, because Node.js also accepts underscores. */
function nameOf(word: string): string {
  const [name = ''] = word.replaceAll('"', '').split('=', 1);
  return name.replaceAll('_', '-');
}
