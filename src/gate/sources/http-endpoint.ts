/**
 * Sends repeated requests to one HTTP server over kept connections.
 *
 * Does not follow redirects, because they would carry the credentials along. Limits the size of an answer, and accepts
 * no compressed answers.
 */
import { type IncomingMessage, Agent as PlainAgent, request as plainRequest } from 'node:http';
import { Agent as TlsAgent, type AgentOptions as TlsAgentOptions, request as tlsRequest } from 'node:https';
import { NoSample } from './reading.ts';

export interface Credentials {
  /** Sent as a bearer token; takes precedence over user and password. */
  readonly token?: string | undefined;
  readonly username?: string | undefined;
  readonly password?: string | undefined;
}

/** Options that a TLS configuration node of Node-RED sets. */
export type TlsOptions = Pick<
  TlsAgentOptions,
  'ca' | 'cert' | 'key' | 'passphrase' | 'servername' | 'rejectUnauthorized'
>;

export interface Question {
  readonly url: URL;
  readonly accept: string;
  /** Form fields; if present, the request is a POST. */
  readonly form?: Readonly<Record<string, string>>;
}

export interface Answer {
  readonly status: number;
  readonly type: string;
  /** The server's Date header, in ms since 1970; NaN without one. */
  readonly date: number;
  readonly body: string;
}

const MAX_BYTES = 8 * 1024 * 1024;

export class HttpEndpoint {
  /** Texts that must not appear in anything shown to people. */
  readonly secrets: readonly string[];
  readonly #agent: PlainAgent;
  readonly #authorization: Readonly<Record<string, string>>;

  constructor(url: URL, credentials: Credentials, tls: TlsOptions | undefined) {
    const authorization = authorizationOf(credentials);
    this.#authorization = authorization === null ? {} : { authorization };
    const { token = '', password = '' } = credentials;
    const sent = authorization?.split(' ').at(-1) ?? '';
    this.secrets = [token, password, encodeURIComponent(token), encodeURIComponent(password), sent];
    const options = { keepAlive: true, maxSockets: 2 };
    this.#agent = url.protocol === 'https:' ? new TlsAgent({ ...options, ...tls }) : new PlainAgent(options);
  }

  /** @throws NoSample, or the error of the network. */
  async ask(question: Question, signal: AbortSignal): Promise<Answer> {
    try {
      return await this.#askOnce(question, signal);
    } catch (error) {
      // The server may close a kept connection at any time, so this does not mean that it is down.
      if (!(error instanceof LostKeptConnection)) throw error;
      return await this.#askOnce(question, signal);
    }
  }

  close(): void {
    this.#agent.destroy();
  }

  #askOnce({ url, accept, form }: Question, signal: AbortSignal): Promise<Answer> {
    const body = form && new URLSearchParams(form).toString();
    const headers = {
      accept,
      'accept-encoding': 'identity',
      ...this.#authorization,
      ...(body !== undefined && { 'content-type': 'application/x-www-form-urlencoded' }),
    };
    const options = { agent: this.#agent, method: body === undefined ? 'GET' : 'POST', headers, signal };
    return new Promise((resolve, reject) => {
      const send = url.protocol === 'https:' ? tlsRequest : plainRequest;
      const request = send(url, options, (response) => readAnswer(response).then(resolve, reject));
      request.on('error', (error: NodeJS.ErrnoException) => {
        const lost = error.code === 'ECONNRESET' || error.code === 'EPIPE';
        reject(lost && request.reusedSocket ? new LostKeptConnection() : error);
      });
      request.end(body);
    });
  }
}

class LostKeptConnection extends NoSample {
  constructor() {
    super('the connection was closed');
  }
}

async function readAnswer(response: IncomingMessage): Promise<Answer> {
  const encoding = response.headers['content-encoding'];
  try {
    if (encoding && encoding !== 'identity') throw new NoSample(`the answer is packed (${encoding})`);
    return {
      status: response.statusCode ?? 0,
      type: response.headers['content-type'] ?? '',
      // biome-ignore lint/style/noRestrictedGlobals: this reads text, not the clock.
      date: Date.parse(response.headers.date ?? ''),
      body: await readBody(response),
    };
  } catch (error) {
    throw (error as NodeJS.ErrnoException).code === 'ECONNRESET' ? new NoSample('the answer breaks off') : error;
  } finally {
    // Does nothing if the answer was read to its end: the connection is kept.
    response.destroy();
  }
}

async function readBody(response: IncomingMessage): Promise<string> {
  if (Number(response.headers['content-length'] ?? 0) > MAX_BYTES) throw tooLong();
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of response as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > MAX_BYTES) throw tooLong();
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
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
export function refusalOf({ status }: Answer): string {
  if (status === 401 || status === 403) return `HTTP ${status}: the credentials were not accepted`;
  if (status >= 300 && status < 400) return `HTTP ${status}: redirects are not followed`;
  return `HTTP ${status}`;
}

/** Returns the address without its user, password and query, which may be secret. */
export function placeOf(url: URL): string {
  return `${url.origin}${url.pathname === '/' ? '' : url.pathname}`;
}
