/**
 * A gate in front of the HTTP-in nodes that lead to a pipeline. While a deploy replaces the flows their routes do not
 * exist, and Node-RED would answer 404: requests wait here until the new flows have started. A request whose body was
 * still being read when its HTTP-in node was replaced is handed to nobody, and goes through the gate again. When the
 * flows stop for good, requests are answered 503.
 */
import type { NodeAPI } from 'node-red';
import { Fifo, ModeletError } from '../../src/index.ts';
import { type AnswerHeaders, enterRequest, type Headers } from './request-id.ts';

interface Request {
  readonly method: string;
  readonly path: string;
  readonly headers: Headers;
  /** Set by a body parser that has read the body: only then can the request be routed a second time. */
  readonly _body?: boolean;
}

interface Response extends AnswerHeaders {
  /** Set by an HTTP-in node as it makes the request a message. */
  _msgid?: string;
  status(code: number): Response;
  json(body: unknown): Response;
  once(event: 'close', listener: () => void): unknown;
}

type Handler = (request: Request, response: Response, next: () => void) => void;

export interface Endpoint {
  /** Id of the HTTP-in node. */
  readonly id: string;
  readonly method: string;
  /** As the HTTP-in node has it; may have `:name` and `*`. */
  readonly url: string;
}

type GateState =
  | { readonly tag: 'open' }
  | { readonly tag: 'holding'; readonly held: Set<() => void> }
  | { readonly tag: 'closed'; readonly error: ModeletError };

interface Passed {
  readonly request: Request;
  readonly response: Response;
  readonly node: string;
}

const MOST_HELD = 1000;
const LONGEST_HOLD_MS = 15_000;

export class HttpHold {
  readonly #RED: NodeAPI;
  readonly #wasAccepted: (response: object) => boolean;
  #state: GateState = { tag: 'open' };
  #guarded: { readonly id: string; readonly method: string; readonly path: RegExp }[] = [];
  /** Let through and not answered, with the HTTP-in node they go to. */
  readonly #passed: Fifo<Passed> = new Fifo();

  /** `wasAccepted`: whether a pipeline has had the request's message. */
  constructor(RED: NodeAPI, wasAccepted: (response: object) => boolean) {
    this.#RED = RED;
    this.#wasAccepted = wasAccepted;
    const app = RED.httpNode as { use(handler: Handler): void } | false;
    // Once, and before any HTTP-in node: Express goes on with whatever routes exist when it is let through.
    if (app) app.use((request, response, next) => this.#handle(request, response, next));
  }

  /** The endpoints to hold from now on. */
  guard(endpoints: readonly Endpoint[]): void {
    this.#guarded = endpoints.map(({ id, method, url }) => ({
      id,
      method: method.toUpperCase(),
      path: toPattern(url),
    }));
  }

  /** `wholesale`: every node is replaced, and what an old node sends reaches nobody any more. */
  hold(wholesale: boolean): void {
    if (this.#state.tag !== 'holding') this.#state = { tag: 'holding', held: new Set() };
    for (const { request, response, node } of [...this.#passed]) {
      if (response._msgid === undefined) this.#watchHandOver(request, response, node, wholesale);
    }
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
    const node = this.#guarded.find(({ method, path }) => method === request.method && path.test(request.path));
    if (!node) {
      next();
    } else if (this.#state.tag === 'open') {
      const place = this.#passed.push({ request, response, node: node.id });
      response.once('close', () => this.#passed.remove(place));
      next();
    } else if (this.#state.tag === 'closed') {
      refuse(request, response, this.#state.error);
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

  /** Notices when an HTTP-in node that has been replaced meanwhile makes the request a message that reaches nobody. */
  #watchHandOver(request: Request, response: Response, node: string, wholesale: boolean): void {
    const instance = this.#RED.nodes.getNode(node);
    const handedOver = (): void => {
      const replaced = wholesale || this.#RED.nodes.getNode(node) !== instance;
      // While flows restart nothing is delivered; after that only nodes of flows that are gone send in vain.
      if (!replaced || (!wholesale && this.#state.tag !== 'holding')) return;
      const again = (): void => this.#routeAgain(request, response);
      if (this.#state.tag === 'holding') this.#wait(this.#state.held, again, again);
      else setImmediate(again);
    };
    Object.defineProperty(response, '_msgid', {
      configurable: true,
      get: () => undefined,
      set: (value: string) => {
        Object.defineProperty(response, '_msgid', { configurable: true, writable: true, value });
        handedOver();
      },
    });
  }

  #routeAgain(request: Request, response: Response): void {
    if (response.headersSent || this.#wasAccepted(response)) return;
    const unread = request.method !== 'GET' && request._body !== true;
    const lost = (): void => {
      if (!response.headersSent) refuse(request, response, new ModeletError('shutting_down', 'lost in a deploy'));
    };
    if (unread) lost();
    else (this.#RED.httpNode as unknown as Handler)(request, response, lost);
  }
}

/** Answers a request that no flow has got. */
function refuse({ headers }: Request, response: Response, { code, message, statusCode }: ModeletError): void {
  const requestId = enterRequest(headers, response);
  response.status(statusCode).json({ error: { code, message, requestId } });
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
