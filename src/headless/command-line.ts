/** Reads the command line of `modelet`. */
import { parseArgs } from 'node:util';
import { parseListen } from '../config/listen.ts';
import { asError } from '../core/errors.ts';
import type { ListenAddress } from '../core/model.ts';

/** Exit codes, which docs/headless.md lists. */
export const EXIT = { done: 0, refused: 1, usage: 2 } as const;

export const USAGE = `Usage:
  modelet serve FLOWS [--listen ADDRESS] [--runtime NAME]
  modelet check FLOWS [--runtime NAME]
  modelet mock-gateway [--port 8000] [...]

Serves the HTTP endpoints of Node-RED flows without Node-RED, or says which of them can be served.
mock-gateway runs an inference server that computes nothing, to try a dispatch gate on.

FLOWS              a file of flows that Node-RED has exported or saved, or a user directory of Node-RED
--listen ADDRESS   8080, 0.0.0.0:8080, [::1]:8080 or unix:/path; without it, the address of the runtime node,
                   else 127.0.0.1:8080
--runtime NAME     name or id of the runtime node whose endpoints are meant
--help             prints this text

Exit codes: 0 done; 1 nothing can be served, or something is refused; 2 the command line or the flows cannot be read.`;

interface Options {
  readonly flows: string;
  /** Name or id of a runtime; null: not given. */
  readonly runtime: string | null;
}

export type Command =
  | { readonly tag: 'help' }
  /** `listen`; null: as the runtime node says. */
  | ({ readonly tag: 'serve'; readonly listen: ListenAddress | null } & Options)
  | ({ readonly tag: 'check' } & Options);

/** @throws Error that says what is wrong with the arguments */
export function readCommand(args: readonly string[]): Command {
  const { values, positionals } = parseArgs({
    args: [...args],
    allowPositionals: true,
    options: {
      listen: { type: 'string' },
      runtime: { type: 'string' },
      help: { type: 'boolean', short: 'h' },
    },
  });
  if (values.help || positionals[0] === 'help') return { tag: 'help' };
  const [tag, flows, ...more] = positionals;
  if (tag !== 'serve' && tag !== 'check') throw new Error(`the command is serve or check${tag ? `, not ${tag}` : ''}`);
  if (flows === undefined || more.length > 0) throw new Error(`${tag} needs one file or folder of flows`);
  const options = { flows, runtime: values.runtime ?? null };
  if (tag === 'serve') return { tag, ...options, listen: address(values.listen ?? '') };
  if (values.listen !== undefined) throw new Error('check does not listen: --listen belongs to serve');
  return { tag, ...options };
}

function address(text: string): ListenAddress | null {
  try {
    return parseListen(text);
  } catch (thrown) {
    throw new Error(`--listen ${asError(thrown).message}`);
  }
}
