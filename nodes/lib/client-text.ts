/** What of an error's text may leave this machine. The whole text is in `msg.error`, the log and the badges. */
import type { ErrorCode } from '../../src/index.ts';

/** These speak the modelet's own words. Others may quote what a process printed: only their first line is for clients. */
const WORDS_OF_MODELETS: ReadonlySet<string> = new Set(['invalid_input', 'modelet_failed'] satisfies ErrorCode[]);

const STACK = /\n\s+at [\s\S]*$/;
/** Absolute, of two parts at least; those in quotes may have spaces. Not what follows a host's name. */
const PATHS = [
  /(?<=(['"`]))(?:file:\/\/)?\/(?:[^'"`\n/]+\/)+([^'"`\n/]*)(?=\1)/g,
  /(?<![\w.~/-])()(?:file:\/\/)?\/(?:[^\s'"`()<>:/]+\/)+([^\s'"`()<>:/]*)/g,
  /(?<!\w)()[A-Za-z]:\\(?:[^\s'"`\\]+\\)+([^\s'"`\\]*)/g,
];

/** Without stack and without the folders of this machine: of a path the last part stays. */
export function textForClient(code: string, message: string): string {
  const text = WORDS_OF_MODELETS.has(code) ? message.replace(STACK, '') : (message.split('\n', 1)[0] as string);
  return PATHS.reduce((shortened, path) => shortened.replace(path, '$2'), text);
}
