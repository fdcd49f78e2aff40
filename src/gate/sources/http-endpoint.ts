/**
 * Sends repeated requests to one HTTP server over a kept connection, one at a time.
 *
 * Does not follow redirects, because they would carry the credentials along. Limits the size of an answer, and accepts
 * no compressed answers. The caller's signal is the only time limit.
 */
import type { Client, Dispatcher } from 'undici';
import { httpDate } from '../../core/clock.ts';
import type { Credentials, SourceServices, TlsOptions } from '../source.ts';
import { NoSample } from './reading.ts';

export interface Question {
  readonly url: URL;
  readonly accept: string;
  /** Form fields; if present, the request is a POST. */
  readonly form?: Readonly<Record<string, string>>;
}

export interface HttpAnswer {
  readonly status: number;
  readonly type: string;
  /** The server's Date header, in ms since 1970; NaN without one. */
  readonly date: number;
  readonly body: string;
}

const MAX_BYTES = 8 * 1024 * 1024;
/** Time for which an idle connection is kept. A gate may read its source less often than the default of 4 s. */
const KEPT_MS = 60_000;
/** Codes of a connection that the server closed. */
const CLOSED: ReadonlySet<string | undefined> = new Set(['ECONNRESET', 'EPIPE', 'UND_ERR_SOCKET']);

export class HttpEndpoint {
  /** Texts that must not appear in anything shown to people. */
  readonly secrets: readonly string[];
  readonly #origin: string;
  readonly #tls: TlsOptions | undefined;
  #client: Promise<Client> | null = null;
  readonly #authorization: Readonly<Record<string, string>>;

  constructor(url: URL, { credentials, tls }: Pick<SourceServices, 'credentials' | 'tls'>) {
    const authorization = authorizationOf(credentials);
    this.#authorization = authorization === null ? {} : { authorization };
    const { token = '', password = '' } = credentials;
    const sent = authorization?.split(' ').at(-1) ?? '';
    this.secrets = [token, password, encodeURIComponent(token), encodeURIComponent(password), sent];
    this.#origin = url.origin;
    this.#tls = tls;
  }

  /** @throws NoSample, or the error of the network. */
  async ask(question: Question, signal: AbortSignal): Promise<HttpAnswer> {
    this.#client ??= this.#connect();
    const client = await this.#client;
    const request = this.#requestOf(question, signal);
    const response = await client.request(request).catch((error: NodeJS.ErrnoException) => {
      // The server may close a kept connection at any time, so this does not mean that it is down.
      if (!CLOSED.has(error.code)) throw error;
      return client.request(request);
    });
    return readAnswer(response);
  }

  async close(): Promise<void> {
    await (await this.#client)?.destroy();
  }

  /** Loads the package when a gate first needs it: it takes 30 MB. */
  async #connect(): Promise<Client> {
    const { Client } = await import('undici');
    return new Client(this.#origin, {
      connect: { ...this.#tls, timeout: 0 },
      headersTimeout: 0,
      bodyTimeout: 0,
      keepAliveTimeout: KEPT_MS,
      maxResponseSize: MAX_BYTES,
    });
  }

  #requestOf({ url, accept, form }: Question, signal: AbortSignal): Dispatcher.RequestOptions {
    const headers = { accept, 'accept-encoding': 'identity', ...this.#authorization };
    const path = url.pathname + url.search;
    if (!form) return { path, method: 'GET', headers, signal };
    const type = { 'content-type': 'application/x-www-form-urlencoded' };
    const body = new URLSearchParams(form).toString();
    return { path, method: 'POST', headers: { ...headers, ...type }, body, signal };
  }
}

async function readAnswer({ statusCode, headers, body }: Dispatcher.ResponseData): Promise<HttpAnswer> {
  try {
    const encoding = headers['content-encoding'];
    if (encoding && encoding !== 'identity') throw new NoSample(`the answer is compressed (${String(encoding)})`);
    if (Number(headers['content-length'] ?? 0) > MAX_BYTES) throw tooLong();
    return {
      status: statusCode,
      type: String(headers['content-type'] ?? ''),
      date: httpDate(String(headers['date'] ?? '')),
      body: await body.text(),
    };
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'UND_ERR_RES_EXCEEDED_MAX_SIZE') throw tooLong();
    throw CLOSED.has(code) ? new NoSample('the answer breaks off') : error;
  } finally {
    // Does nothing if the answer was read to its end: the connection is kept. Otherwise the body reports the abort.
    body.on('error', () => {}).destroy();
  }
}

function tooLong(): NoSample {
  return new NoSample(`the answer is longer than ${MAX_BYTES / 1024 / 1024} MB`);
}

function authorizationOf({ token, username, password }: Credentials): string | null {
  if (token) return `Bearer ${token}`;
  if (username || password) return `Basic ${Buffer.from(`${username ?? ''}:${password ?? ''}`).toString('base64')}`;
  return null;
}

/** Returns why an answer with this status cannot be used. */
export function refusalOf({ status }: HttpAnswer): string {
  if (status === 401 || status === 403) return `HTTP ${status}: the credentials were not accepted`;
  if (status >= 300 && status < 400) return `HTTP ${status}: redirects are not followed`;
  return `HTTP ${status}`;
}

/** Returns the address without its user, password and query, which may be secret. */
export function placeOf(url: URL): string {
  return `${url.origin}${url.pathname === '/' ? '' : url.pathname}`;
}
