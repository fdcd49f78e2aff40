/** Says what a client may read of an error. `msg.error`, log and badges have the whole text. */
import type { ErrorCode } from '../core/errors.ts';
import { isSpaceAt } from '../core/text.ts';

/** Codes whose text comes from the modelet. Other texts may quote process output: clients get only the first line. */
const WORDS_OF_MODELETS: ReadonlySet<string> = new Set(['invalid_input', 'modelet_failed'] satisfies ErrorCode[]);

/**
 * Absolute paths of at least two parts; quoted paths may contain spaces. A path after a host name is not on this
 * machine. Each pattern must read a stretch of text only once, from one start, because messages quote client input.
 */
const PATHS = [
  /(?<=(['"`]))(?:file:\/\/)?\/(?:[^'"`\n/]+\/)+([^'"`\n/]*)(?=\1)/g,
  /(?<![\w.~/-])()(?:file:\/\/)?\/(?:[^\s'"`()<>:/]+\/)+([^\s'"`()<>:/]*)/g,
  /(?<!\w)()[A-Za-z]:\\(?:[^\s'"`\\]+\\)+([^\s'"`\\]*)/g,
];

/** Removes the stack and the folders of this machine from an error's text; keeps the last part of each path. */
export function textForClient(code: string, message: string): string {
  const text = WORDS_OF_MODELETS.has(code) ? withoutStack(message) : (message.split('\n', 1)[0] as string);
  return PATHS.reduce((shortened, path) => shortened.replace(path, '$2'), text);
}

/** Cuts a text before the first indented line that begins with `at `, as stack lines do. */
function withoutStack(text: string): string {
  for (let end = text.indexOf('\n'); end >= 0; ) {
    let at = end + 1;
    while (isSpaceAt(text, at)) at += 1;
    if (at > end + 1 && text.startsWith('at ', at)) return text.slice(0, end);
    end = text.indexOf('\n', at);
  }
  return text;
}

/** An error as its request ended with it. */
interface ClientError {
  readonly code: string;
  readonly message: string;
  /** Name of the stage that failed; undefined if no stage did. */
  readonly stage?: string | undefined;
  /** For a schema check `[{path, message, keyword}]`. */
  readonly details?: unknown;
}

/** Returns the body of an answer with an error. `details` are included only for the client's own input. */
export function errorBody({ code, message, stage, details }: ClientError, requestId: string): object {
  const own = code === 'invalid_input' && details !== undefined ? { details } : {};
  return { error: { code, message: textForClient(code, message), stage, requestId, ...own } };
}
