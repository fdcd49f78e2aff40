/** The settings of Node-RED that decide what happens to HTTP requests, as its settings file has them. */
import type { PathRules } from '../../core/endpoints.ts';

export interface HttpSettings {
  readonly httpNodeRoot?: string | false;
  readonly httpNodeAuth?: unknown;
  readonly httpNodeMiddleware?: unknown;
  readonly httpNodeCors?: unknown;
  readonly httpServerOptions?: object;
  readonly apiMaxLength?: unknown;
}

const SIZE = /^\s*(\d+(?:\.\d+)?)\s*([kmgtp]?)b?\s*$/i;
const POWERS = ['', 'k', 'm', 'g', 't', 'p'];

/** Returns the largest JSON body that HTTP-in nodes parse, as the settings have it. */
export function apiMaxLength({ apiMaxLength: text }: HttpSettings): string {
  return String(text || '5mb');
}

/** Returns `apiMaxLength` in bytes. A text that body parsers cannot read is no limit for them. */
export function jsonLimit(settings: HttpSettings): { readonly bytes: number; readonly name: string } {
  const text = apiMaxLength(settings);
  const [, digits, unit] = SIZE.exec(text) ?? [];
  const bytes =
    digits === undefined
      ? Number.POSITIVE_INFINITY
      : Number(digits) * 1024 ** POWERS.indexOf((unit ?? '').toLowerCase());
  return { bytes: Math.floor(bytes), name: `${text}, the apiMaxLength of Node-RED` };
}

/** Returns how HTTP-in nodes compare paths. */
export function pathRules({ httpServerOptions }: HttpSettings): PathRules {
  const options = (httpServerOptions ?? {}) as Readonly<Record<string, unknown>>;
  return { caseSensitive: Boolean(options['case sensitive routing']), strict: Boolean(options['strict routing']) };
}

/** Returns the path below which HTTP-in nodes listen. */
export function httpRoot({ httpNodeRoot }: HttpSettings): string {
  return rooted(httpNodeRoot || '/');
}

/** Returns a path with one slash at its start and none at its end. */
export function rooted(root: string): string {
  return `/${root.split('/').filter(Boolean).join('/')}`;
}

/** Whether a function of the settings decides for each request which origins may call. */
function isByRequest(cors: unknown): boolean {
  return typeof cors === 'function' || typeof (cors as { readonly origin?: unknown } | null)?.origin === 'function';
}

/** Returns why the settings keep every HTTP-in node from being compiled; null if they do not. */
export function barredBySettings(settings: HttpSettings): string | null {
  const { httpNodeAuth, httpNodeMiddleware, httpNodeCors, httpServerOptions } = settings;
  if (httpNodeAuth) return 'Node-RED asks HTTP clients to log in (httpNodeAuth)';
  if (httpNodeMiddleware) return 'Node-RED has a middleware for HTTP requests (httpNodeMiddleware)';
  if (Object.keys(httpServerOptions ?? {}).some((name) => /^jsonp? /.test(name)))
    return 'Node-RED has settings for how JSON is written (httpServerOptions)';
  return isByRequest(httpNodeCors)
    ? 'a function decides about requests of other origins (httpNodeCors), and may take its time'
    : null;
}
