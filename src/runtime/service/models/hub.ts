/**
 * Speaks the protocol of model hubs: lists the files of a model, and opens one from a byte on. Names of files come from another
 * machine, so none that leads out of its folder is taken. The token goes to the hub alone, not where it redirects to.
 */
import type { Dispatcher } from 'undici';
import { type HubFile, type HubModel, hubText, isSafeName } from '../../../config/tasks/hub-model.ts';
import { asError } from '../../../core/errors.ts';

/** Variable with the token of commands: only Node-RED can read the credentials of a flow file. */
export const HUB_TOKEN = 'MODELET_HUB_TOKEN';
const USUAL_HUB = 'https://huggingface.co';
const CONNECT_MS = 30_000;
/** Longest silence of a server, in ms. */
const SILENT_MS = 60_000;
const MOST_REDIRECTS = 5;
const LONGEST_LIST = 32 * 1024 * 1024;
/** Statuses that a server has for a while. */
const PASSING: ReadonlySet<number> = new Set([408, 425, 429, 500, 502, 503, 504]);

export type DownloadCode =
  | ('offline' | 'no_access' | 'not_found' | 'hub_failed' | 'unsafe_name' | 'incomplete')
  | ('wrong_content' | 'disk_full' | 'over_limit' | 'cancelled' | 'failed');

export class DownloadError extends Error {
  readonly code: DownloadCode;
  /** Whether the same may work in a moment. */
  readonly isPassing: boolean;

  constructor(
    code: DownloadCode,
    message: string,
    { cause, isPassing = false }: ErrorOptions & { isPassing?: boolean } = {},
  ) {
    super(message, { cause });
    this.code = code;
    this.isPassing = isPassing;
  }
}

export interface HubListing {
  /** The commit that the revision is at. */
  readonly commit: string;
  readonly files: readonly HubFile[];
}

/** The rest of a file. */
export interface OpenedFile {
  /** The first byte that comes. */
  readonly from: number;
  readonly body: AsyncIterable<Buffer>;
}

type Answer = Pick<Dispatcher.ResponseData, 'statusCode' | 'headers' | 'body'>;

export class Hub {
  readonly #addresses: readonly URL[];
  readonly #token: string;
  #dispatcher: Dispatcher | null = null;
  /** The address that has listed the model. */
  #used: URL;

  /**
   * @param addresses hubs in the order in which they are asked; none: the usual one
   * @param token for the first of them; blank: none
   * @throws DownloadError if an address cannot be read
   */
  constructor(addresses: string | readonly string[] = [], token: string = '') {
    const given = [addresses].flat().filter((text) => text !== '');
    this.#addresses = (given.length > 0 ? given : [USUAL_HUB]).map(readAddress);
    this.#used = this.#addresses[0] as URL;
    this.#token = token;
  }

  /** Lists a model at the first hub that can be reached and has it. */
  async list(model: HubModel, signal: AbortSignal): Promise<HubListing> {
    let first: unknown;
    for (const address of this.#addresses) {
      try {
        const listing = await this.#listAt(address, model, signal);
        this.#used = address;
        return listing;
      } catch (thrown) {
        if (signal.aborted) throw thrown;
        first ??= thrown;
      }
    }
    throw first;
  }

  async #listAt(address: URL, model: HubModel, signal: AbortSignal): Promise<HubListing> {
    const path = `api/models/${model.name}/revision/${encodeURIComponent(model.revision)}?blobs=true`;
    const { statusCode, body } = await this.#get(new URL(path, address), {}, signal);
    if (statusCode !== 200) {
      body.on('error', () => {}).destroy();
      throw refusal(statusCode, `${hubText(model)} at ${address.host}`);
    }
    let text = '';
    try {
      for await (const chunk of body) {
        text += String(chunk);
        if (text.length > LONGEST_LIST)
          throw new DownloadError('hub_failed', `the list of ${address.host} is too long`);
      }
    } catch (thrown) {
      throw unreachable(thrown, address);
    }
    return readListing(text, address);
  }

  /**
   * Opens a file at a byte, or at its start if the server cannot do better.
   * @param commit as `list` has returned it
   */
  async open(model: HubModel, commit: string, file: HubFile, from: number, signal: AbortSignal): Promise<OpenedFile> {
    const name = file.name.split('/').map(encodeURIComponent).join('/');
    const url = new URL(`${model.name}/resolve/${encodeURIComponent(commit)}/${name}`, this.#used);
    const { statusCode, headers, body } = await this.#get(url, from > 0 ? { range: `bytes=${from}-` } : {}, signal);
    if (statusCode === 200) return { from: 0, body };
    const [, start] = /^bytes (\d+)-/.exec(String(headers['content-range'] ?? '')) ?? [];
    if (statusCode === 206 && Number(start) === from) return { from, body };
    body.on('error', () => {}).destroy();
    if (statusCode === 206) throw new DownloadError('hub_failed', `the hub sends another part of ${file.name}`);
    throw refusal(statusCode, file.name);
  }

  async close(): Promise<void> {
    await this.#dispatcher?.destroy();
  }

  /** Follows redirects. */
  async #get(url: URL, more: Readonly<Record<string, string>>, signal: AbortSignal): Promise<Answer> {
    let place = url;
    for (let redirects = 0; redirects <= MOST_REDIRECTS; redirects += 1) {
      const answer = await this.#ask(place, more, signal);
      const { location } = answer.headers;
      if (answer.statusCode < 300 || answer.statusCode >= 400 || typeof location !== 'string') return answer;
      answer.body.on('error', () => {}).destroy();
      const next = new URL(location, place);
      const isSafe = next.protocol === 'https:' || (next.protocol === 'http:' && place.protocol === 'http:');
      if (!isSafe)
        throw new DownloadError('hub_failed', `${place.host} redirects to an address without TLS: ${next.origin}`);
      place = next;
    }
    throw new DownloadError('hub_failed', `${url.host} redirects more than ${MOST_REDIRECTS} times`);
  }

  async #ask(url: URL, more: Readonly<Record<string, string>>, signal: AbortSignal): Promise<Answer> {
    const hasToken = this.#token !== '' && url.origin === this.#addresses[0]?.origin;
    const headers = {
      ...{ 'accept-encoding': 'identity', 'user-agent': 'modelet' },
      ...(hasToken ? { authorization: `Bearer ${this.#token}` } : {}),
      ...more,
    };
    try {
      const { request, EnvHttpProxyAgent } = await import('undici');
      const limits = { connect: { timeout: CONNECT_MS }, headersTimeout: SILENT_MS, bodyTimeout: SILENT_MS };
      this.#dispatcher ??= new EnvHttpProxyAgent(limits);
      return await request(url, { headers, signal, dispatcher: this.#dispatcher });
    } catch (thrown) {
      throw unreachable(thrown, url);
    }
  }
}

function readAddress(text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : null;
  if (url?.protocol !== 'https:' && url?.protocol !== 'http:')
    throw new DownloadError('hub_failed', `modelets.hub in settings.js is not an address: ${text}`);
  return new URL(`${url.origin}${url.pathname.replace(/\/*$/, '/')}`);
}

function refusal(status: number, what: string): DownloadError {
  if (status === 401 || status === 403)
    return new DownloadError(
      'no_access',
      `HTTP ${status}: ${what} is not there, or needs a token that may read it (Hub token of the runtime)`,
    );
  if (status === 404) return new DownloadError('not_found', `HTTP 404: there is no ${what}`);
  return new DownloadError('hub_failed', `HTTP ${status} for ${what}`, { isPassing: PASSING.has(status) });
}

/** An error of the network; any other stays. */
export function unreachable(thrown: unknown, { host }: { readonly host: string }): Error {
  const cause = asError(thrown);
  if (cause instanceof DownloadError || cause.name === 'AbortError') return cause;
  return new DownloadError('offline', `${host} cannot be reached: ${cause.message}`, { cause, isPassing: true });
}

interface Sibling {
  readonly rfilename?: unknown;
  readonly size?: unknown;
  readonly blobId?: unknown;
  readonly lfs?: { readonly sha256?: unknown; readonly size?: unknown } | null;
}

function readListing(text: string, { host }: URL): HubListing {
  let list: { readonly sha?: unknown; readonly siblings?: unknown };
  try {
    list = JSON.parse(text) as typeof list;
  } catch (cause) {
    throw new DownloadError('hub_failed', `${host} answers no list of files`, { cause });
  }
  const { sha, siblings } = list ?? {};
  if (typeof sha !== 'string' || !/^\w+$/.test(sha) || !Array.isArray(siblings))
    throw new DownloadError('hub_failed', `${host} answers no list of files`);
  return { commit: sha, files: (siblings as Sibling[]).map(readFile) };
}

function readFile({ rfilename, size, blobId, lfs }: Sibling): HubFile {
  const name = String(rfilename);
  if (!isSafeName(name))
    throw new DownloadError('unsafe_name', `the hub lists a file that would lie elsewhere: ${JSON.stringify(name)}`);
  const bytes = Number(lfs?.size ?? size);
  if (!Number.isSafeInteger(bytes) || bytes < 0)
    throw new DownloadError('hub_failed', `the hub does not tell the size of ${name}`);
  const sha256 = lfs?.sha256;
  if (typeof sha256 === 'string') return { name, size: bytes, hash: { kind: 'sha256', value: sha256 } };
  return { name, size: bytes, hash: typeof blobId === 'string' ? { kind: 'git', value: blobId } : null };
}
