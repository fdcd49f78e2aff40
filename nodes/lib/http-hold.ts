/**
 * In front of the HTTP-in nodes that lead to a pipeline. Prepares for what comes in and what goes out. And is a gate:
 * while a deploy replaces the flows their routes do not exist, and Node-RED would answer 404, so requests wait here until
 * the new flows have started. A request whose body was still being read when its HTTP-in node was replaced is handed to
 * nobody, and goes through the gate again. When the flows stop for good, requests are answered 503.
 */
import type { NodeAPI } from 'node-red';
import { Fifo, ModeletError } from '../../src/index.ts';
import { prepareAnswer } from './answer-form.ts';
import { BodyErrors } from './body-errors.ts';
import type { Endpoint } from './endpoints.ts';
import { GuardedEndpoints } from './guarded-endpoints.ts';
import { asksOnly, type HttpRequest, type HttpResponse } from './http-types.ts';
import { answerError } from './messages.ts';
import { keepBody } from './request-body.ts';

type Handler = (request: HttpRequest, response: HttpResponse, next: () => void) => void;

type GateState =
  | { readonly tag: 'open' }
  | { readonly tag: 'holding'; readonly held: Set<() => void> }
  | { readonly tag: 'closed'; readonly error: ModeletError };

interface Passed {
  readonly request: HttpRequest;
  readonly response: HttpResponse;
  readonly node: string;
}

const MOST_HELD = 1000;
const LONGEST_HOLD_MS = 15_000;

export class HttpHold {
  readonly #RED: NodeAPI;
  readonly #wasAccepted: (response: object) => boolean;
  #state: GateState = { tag: 'open' };
  readonly #endpoints: GuardedEndpoints = new GuardedEndpoints();
  readonly #bodyErrors: BodyErrors;
  readonly #prepared: WeakSet<HttpResponse> = new WeakSet();
  /** Let through and not answered, with the HTTP-in node they go to. */
  readonly #passed: Fifo<Passed> = new Fifo();

  /** `wasAccepted`: whether a pipeline has had the request's message. */
  constructor(RED: NodeAPI, wasAccepted: (response: object) => boolean) {
    this.#RED = RED;
    this.#wasAccepted = wasAccepted;
    this.#bodyErrors = new BodyErrors(RED);
    const app = RED.httpNode as { use(handler: Handler): void } | false;
    // Once, and before any HTTP-in node: Express goes on with whatever routes exist when it is let through.
    if (app) app.use((request, response, next) => this.#handle(request, response, next));
  }

  /** The endpoints to stand in front of from now on. */
  guard(endpoints: readonly Endpoint[]): void {
    this.#endpoints.set(endpoints);
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

  #handle(request: HttpRequest, response: HttpResponse, next: () => void): void {
    // The client went away while the request was held: nobody would notice its end any more.
    if (response.destroyed) return;
    const endpoint = this.#endpoints.find(request);
    if (!endpoint) {
      next();
      return;
    }
    this.#prepare(request, response, endpoint);
    this.#admit(request, response, endpoint, next);
  }

  /** Once a request, also if it comes again after a deploy. */
  #prepare(request: HttpRequest, response: HttpResponse, { maxBytes, countRefused }: Endpoint): void {
    if (this.#prepared.has(response)) return;
    this.#prepared.add(response);
    prepareAnswer(request, response);
    if (asksOnly(request)) return;
    keepBody(request, maxBytes);
    this.#bodyErrors.watch(request, response, countRefused);
  }

  #admit(request: HttpRequest, response: HttpResponse, endpoint: Endpoint, next: () => void): void {
    if (!endpoint.held) {
      next();
    } else if (this.#state.tag === 'open') {
      const place = this.#passed.push({ request, response, node: endpoint.id });
      response.once('close', () => this.#passed.remove(place));
      next();
    } else if (this.#state.tag === 'closed') {
      answerError(request.headers, response, this.#state.error);
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
  #watchHandOver(request: HttpRequest, response: HttpResponse, node: string, wholesale: boolean): void {
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

  #routeAgain(request: HttpRequest, response: HttpResponse): void {
    if (response.headersSent || this.#wasAccepted(response)) return;
    const unread = !asksOnly(request) && request._body !== true;
    const lost = (): void => {
      if (!response.headersSent)
        answerError(request.headers, response, new ModeletError('shutting_down', 'lost in a deploy'));
    };
    if (unread) lost();
    else (this.#RED.httpNode as unknown as Handler)(request, response, lost);
  }
}
