/** Reads the command line of `modelet`. */
import { parseArgs } from 'node:util';
import { parseListen } from '../config/formats/listen.ts';
import type { ListenAddress } from '../core/endpoints.ts';
import { asError } from '../core/errors.ts';
import { readHost } from '../hosts/worker-host/host-options.ts';
import type { HostSpec } from '../hosts/worker-host/worker-host.ts';
import type { MeasureOptions } from './measure.ts';

/** Exit codes, which docs/headless.md lists. */
export const EXIT = { done: 0, refused: 1, usage: 2 } as const;

export const USAGE = `Usage:
  modelet serve FLOWS [--listen ADDRESS] [--runtime NAME] [--keys-file FILE] [--versions-file FILE]
                 [--states-folder FOLDER] [--install]
  modelet check FLOWS [--runtime NAME]
  modelet measure FLOWS [--stage NAME] [--rate NUMBER] [--p99 MS]
  modelet worker --broker URL --runtime NAME [--stage NAME] [--workers N] [--cpus LIST] [--prefix TEXT]
                 (--secret-file FILE | --code local) [--install]
  modelet mock-gateway [--port 8000] [...]

Serves the HTTP endpoints of Node-RED flows without Node-RED, or says which of them can be served.
measure runs the examples of stages in batches of several sizes, and says which batches and workers suit a rate.
worker runs the stages of a runtime that are placed on worker hosts. User and password of the broker are in the
variables MODELET_BROKER_USERNAME and MODELET_BROKER_PASSWORD.
mock-gateway runs an inference server that computes nothing, to try a dispatch gate on.

FLOWS              a file of flows that Node-RED has exported or saved, or a user directory of Node-RED
--listen ADDRESS   8080, 0.0.0.0:8080, [::1]:8080 or unix:/path; without it, the address of the runtime node,
                   else 127.0.0.1:8080
--runtime NAME     name or id of the runtime node whose endpoints are meant
--keys-file FILE   JSON with the clients that may use the endpoints, and their keys
--versions-file F  JSON in which the roll-backs of versions outlive the command; written anew when one changes
--states-folder F  folder in which snapshots of the states of keys outlive the command; written when it ends
--install          first installs what the Python of stages needs, by pip into .venv, and downloads known models from hubs;
                   MODELET_HUB_TOKEN has the token if they need one. A worker only downloads models, from MODELET_HUB
--broker URL       address of the Redis or Valkey server, as in the broker node; --prefix as there, too
--stage NAME       serves, or measures, only this stage; may be repeated for worker
--rate NUMBER      items per second that come; without it, a rate that leaves one worker some rest
--p99 MS           p99 that is fast enough; without it, about as fast as more workers would be
--workers, --cpus  workers of each stage and their cores, instead of those in the stage's dialog
--secret-file FILE the broker node's secret: the host runs only code that is signed with it
--code local       the host runs only files and modules that it has itself, signed or not
--help             prints this text

Exit codes: 0 done; 1 nothing can be served, or something is refused; 2 the command line or the flows cannot be read.`;

interface Options {
  readonly flows: string;
  /** Name or id of a runtime; null: not given. */
  readonly runtime: string | null;
}

interface ServeOptions {
  /** null: as the runtime node says. */
  readonly listen: ListenAddress | null;
  readonly keysFile: string | null;
  /** Keeps the live shares of versions. */
  readonly versionsFile: string | null;
  /** Null: the states of keys end with the process. */
  readonly statesFolder: string | null;
  /** Whether to install what Python needs, and to download models, first. */
  readonly install: boolean;
}

export type Command =
  | { readonly tag: 'help' }
  | { readonly tag: 'worker'; readonly host: HostSpec }
  | ({ readonly tag: 'serve' } & ServeOptions & Options)
  | ({ readonly tag: 'check' } & Options)
  | ({ readonly tag: 'measure' } & MeasureOptions & Options);

/** @throws Error that says what is wrong with the arguments */
export function readCommand(args: readonly string[]): Command {
  if (args[0] === 'worker' && !args.includes('--help')) return { tag: 'worker', host: readHost(args.slice(1)) };
  const { values, positionals } = parseArgs({
    args: [...args],
    allowPositionals: true,
    options: {
      listen: { type: 'string' },
      runtime: { type: 'string' },
      install: { type: 'boolean', default: false },
      'keys-file': { type: 'string' },
      'versions-file': { type: 'string' },
      'states-folder': { type: 'string' },
      stage: { type: 'string' },
      rate: { type: 'string' },
      p99: { type: 'string' },
      help: { type: 'boolean', short: 'h' },
    },
  });
  if (values.help || positionals[0] === 'help') return { tag: 'help' };
  const [tag, flows, ...more] = positionals;
  if (!isCommand(tag)) throw new Error(`the command is serve, check, measure or worker${tag ? `, not ${tag}` : ''}`);
  if (flows === undefined || more.length > 0) throw new Error(`${tag} needs one file or folder of flows`);
  const options = { flows, runtime: values.runtime ?? null };
  const { listen, install, stage, rate, p99 } = values;
  const { 'keys-file': keysFile = null, 'versions-file': versionsFile = null } = values;
  const { 'states-folder': statesFolder = null } = values;
  const kept = { keysFile, versionsFile, statesFolder };
  const onFiles = { 'keys-file': keysFile, 'versions-file': versionsFile, 'states-folder': statesFolder };
  if (tag !== 'serve') refuse({ listen, ...onFiles, install }, `${tag} serves nothing`, 'serve');
  if (tag === 'measure') {
    refuse({ runtime: values.runtime }, 'measure needs no runtime', 'serve and check');
    return { tag, ...options, stage: stage ?? null, rate: positive('rate', rate), goalMs: positive('p99', p99) };
  }
  refuse({ stage, rate, p99 }, `${tag} measures nothing`, 'measure');
  if (tag === 'check') return { tag, ...options };
  return { tag, ...options, ...kept, listen: address(listen ?? ''), install };
}

function isCommand(tag: string | undefined): tag is 'serve' | 'check' | 'measure' {
  return tag === 'serve' || tag === 'check' || tag === 'measure';
}

/** @throws Error if an option of another command is given */
function refuse(given: Readonly<Record<string, unknown>>, why: string, command: string): void {
  const [wrong] = Object.entries(given).find(([, value]) => value) ?? [];
  if (wrong !== undefined) throw new Error(`${why}: --${wrong} belongs to ${command}`);
}

function positive(option: string, text: string | undefined): number | null {
  if (text === undefined) return null;
  const value = Number(text);
  if (!(value > 0 && value < Number.POSITIVE_INFINITY))
    throw new Error(`--${option} needs a number above 0, not ${text}`);
  return value;
}

function address(text: string): ListenAddress | null {
  try {
    return parseListen(text);
  } catch (thrown) {
    throw new Error(`--listen ${asError(thrown).message}`);
  }
}
