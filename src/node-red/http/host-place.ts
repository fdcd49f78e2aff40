/**
 * Decides where in Node-RED's HTTP server compiled endpoints take their requests, so that nothing is served that
 * Node-RED would have refused.
 *
 *   server   before Express, in front of everything: only if nothing stands there that could refuse a request
 *   app      in the application of the HTTP-in nodes, behind everything that stands in front of it
 */
import { realpathSync } from 'node:fs';
import { createRequire } from 'node:module';
import { basename, dirname, join } from 'node:path';

export interface HostSettings {
  readonly httpNodeRoot?: string | false;
  readonly httpAdminRoot?: string | false;
  readonly httpAdminAuth?: unknown;
  readonly httpAdminMiddleware?: unknown;
  readonly httpAdminCors?: unknown;
  readonly httpNodeAuth?: unknown;
  readonly httpServerOptions?: unknown;
}

/** `headers`: those that something in front of the HTTP-in nodes sets on every answer; names and values in turn. */
export type HostPlace = { readonly tag: 'server'; readonly headers: readonly string[] } | { readonly tag: 'app' };

const BEHIND_ALL: HostPlace = { tag: 'app' };
/** Node-RED before version 5 allows scripts of other origins to read what the editor's application passes on. */
const OPEN_TO_ALL: readonly string[] = ['Access-Control-Allow-Origin', '*'];

/**
 * @param isOwnCommand whether Node-RED's own command has made the HTTP server; what another program puts in front of
 * Node-RED is not known
 */
export function hostPlace(settings: HostSettings, isOwnCommand: boolean, majorVersion: number): HostPlace {
  const { httpAdminAuth, httpAdminMiddleware, httpAdminCors, httpNodeAuth, httpServerOptions } = settings;
  if (!isOwnCommand || httpNodeAuth || httpServerOptions) return BEHIND_ALL;
  if (!passesEditor(settings, settings.httpNodeRoot || '')) return { tag: 'server', headers: [] };
  if (httpAdminAuth || httpAdminMiddleware || httpAdminCors) return BEHIND_ALL;
  return { tag: 'server', headers: majorVersion < 5 ? OPEN_TO_ALL : [] };
}

/** Whether the editor's application, which comes first, gets every request to a path, or to all paths below a root. */
export function passesEditor({ httpAdminRoot }: HostSettings, path: string): boolean {
  return httpAdminRoot !== false && rooted(path).startsWith(rooted(httpAdminRoot || ''));
}

function rooted(path: string): string {
  return ['', ...path.split('/').filter(Boolean), ''].join('/');
}

/** Whether this process was started by Node-RED's own command. */
export function isOwnCommand(): boolean {
  try {
    const program = realpathSync(process.argv[1] ?? '');
    const { name } = createRequire(program)(join(dirname(program), 'package.json')) as { name?: string };
    return basename(program) === 'red.js' && name === 'node-red';
  } catch {
    return false;
  }
}
