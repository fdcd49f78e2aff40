/**
 * A gate in front of the HTTP-in nodes that lead to a pipeline. While a deploy replaces the flows their routes do not
 * exist, and Node-RED would answer 404: requests wait here until the new flows have started. When the flows stop for
 * good they are answered 503.
 */
import type { NodeAPI } from 'node-red';
import type { ModeletError } from '../../src/index.ts';

interface Request {
  readonly method: string;
  readonly path: string;
}

interface Response {
  status(code: number): Response;
  json(body: unknown): Response;
}

export interface Endpoint {
  readonly method: string;
  /** As the HTTP-in node has it; may have `:name` and `*`. */
  readonly url: string;
}

type GateState =
  | { readonly tag: 'open' }
  | { readonly tag: 'holding'; readonly held: Set<() => void> }
  | { readonly tag: 'closed'; readonly error: ModeletError };

const MOST_HELD = 1000;
const LONGEST_HOLD_MS = 15_000;

export class HttpHold {
  #state: GateState = { tag: 'open' };
  #patterns: { readonly method: string; readonly path: RegExp }[] = [];

  constructor(RED: NodeAPI) {
    const app = RED.httpNode as { use(handler: (...args: never[]) => void): void } | false;
    // Once, and before any HTTP-in node: Express goes on with whatever routes exist when it is let through.
    if (app) app.use((request: Request, response: Response, next: () => void) => this.#handle(request, response, next));
  }

  /** The endpoints to hold from now on. */
  guard(endpoints: readonly Endpoint[]): void {
    this.#patterns = endpoints.map(({ method, url }) => ({ method: method.toUpperCase(), path: toPattern(url) }));
  }

  hold(): void {
    if (this.#state.tag !== 'holding') this.#state = { tag: 'holding', held: new Set() };
  }

  /** Lets everything through, what was held first. */
  open(): void {
    this.#leave({ tag: 'open' });
  }

  /** Answers the guarded endpoints with an error. */
  close(error: ModeletError): void {
    this.#leave({ tag: 'closed', error });
  }

  #leave(next: GateState): void {
    const held = this.#state.tag === 'holding' ? this.#state.held : [];
    this.#state = next;
    for (const release of [...held]) release();
  }

  #handle(request: Request, response: Response, next: () => void): void {
    if (this.#state.tag === 'open' || !this.#isGuarded(request)) {
      next();
    } else if (this.#state.tag === 'closed') {
      const { code, message, statusCode } = this.#state.error;
      response.status(statusCode).json({ error: { code, message } });
    } else {
      this.#wait(this.#state.held, () => this.#handle(request, response, next), next);
    }
  }

  #wait(held: Set<() => void>, again: () => void, giveUp: () => void): void {
    if (held.size >= MOST_HELD) {
      giveUp();
      return;
    }
    const timer = setTimeout(() => {
      held.delete(release);
      giveUp();
    }, LONGEST_HOLD_MS).unref();
    const release = (): void => {
      clearTimeout(timer);
      held.delete(release);
      again();
    };
    held.add(release);
  }

  #isGuarded({ method, path }: Request): boolean {
    return this.#patterns.some((pattern) => pattern.method === method && pattern.path.test(path));
  }
}

/** Express' path patterns, as far as HTTP-in nodes use them: `:name`, `:name?` and `*`. */
function toPattern(url: string): RegExp {
  const path = url.startsWith('/') ? url : `/${url}`;
  const source = path
    .split(/(\/:\w+\?|:\w+|\*)/)
    .map((part) => {
      if (/^\/:\w+\?$/.test(part)) return '(?:/[^/]+)?';
      if (part.startsWith(':')) return '[^/]+';
      return part === '*' ? '.*' : part.replace(/[.+^${}()|[\]\\]/g, '\\$&');
    })
    .join('');
  return new RegExp(`^${source}/?$`, 'i');
}
