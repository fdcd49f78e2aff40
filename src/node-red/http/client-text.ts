/** Makes of an error's text what may leave this machine. The whole text is in `msg.error`, the log and the badges. */
import type { ErrorCode } from '../../core/errors.ts';
import { isSpaceAt } from '../../core/text.ts';

/** These speak the modelet's own words. Others may quote what a process printed: only their first line is for clients. */
const WORDS_OF_MODELETS: ReadonlySet<string> = new Set(['invalid_input', 'modelet_failed'] satisfies ErrorCode[]);

/**
 * Absolute paths of two parts at least; those in quotes may have spaces. A path that follows a host's name is none of
 * this machine. Each of them reads a stretch of text once, from one beginning: messages quote what clients send.
 */
const PATHS = [
  /(?<=(['"`]))(?:file:\/\/)?\/(?:[^'"`\n/]+\/)+([^'"`\n/]*)(?=\1)/g,
  /(?<![\w.~/-])()(?:file:\/\/)?\/(?:[^\s'"`()<>:/]+\/)+([^\s'"`()<>:/]*)/g,
  /(?<!\w)()[A-Za-z]:\\(?:[^\s'"`\\]+\\)+([^\s'"`\\]*)/g,
];

/** Without stack and without the folders of this machine: of a path the last part stays. */
export function textForClient(code: string, message: string): string {
  const text = WORDS_OF_MODELETS.has(code) ? withoutStack(message) : (message.split('\n', 1)[0] as string);
  return PATHS.reduce((shortened, path) => shortened.replace(path, '$2'), text);
}

/** Ends before the first indented line that begins with `at `, as the lines of a stack do. */
function withoutStack(text: string): string {
  for (let end = text.indexOf('\n'); end >= 0; ) {
    let at = end + 1;
    while (isSpaceAt(text, at)) at += 1;
    if (at > end + 1 && text.startsWith('at ', at)) return text.slice(0, end);
    end = text.indexOf('\n', at);
  }
  return text;
}
