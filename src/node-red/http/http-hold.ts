/**
 * In front of the HTTP-in nodes that lead to a pipeline. Prepares for what comes in and what goes out. And is a gate:
 * while a deploy replaces the flows their routes do not exist, and Node-RED would answer 404, so requests wait here until
 * the new flows have started. When the flows stop for good, requests are answered 503.
 */
import type { NodeAPI } from 'node-red';
import type { ModeletError } from '../../core/errors.ts';
import type { Endpoint } from '../deploy/endpoints.ts';
import type { HttpIn } from '../deploy/http-ins.ts';
import type { HttpClients } from '../request/http-clients.ts';
import { answerError } from '../request/messages.ts';
import { prepareAnswer } from './answer-form.ts';
import { BodyErrors } from './body-errors.ts';
import { GuardedEndpoints } from './guarded-endpoints.ts';
import { asksOnly, type HttpRequest, type HttpResponse } from './http-types.ts';
import { keepBody } from './request-body.ts';

type Handler = (request: HttpRequest, response: HttpResponse, next: () => void) => void;

type GateState =
  | { readonly tag: 'open' }
  | { readonly tag: 'holding'; readonly held: Set<() => void> }
  | { readonly tag: 'closed'; readonly error: ModeletError };

const MOST_HELD = 1000;
const LONGEST_HOLD_MS = 15_000;

export class HttpHold {
  readonly #clients: HttpClients;
  #state: GateState = { tag: 'open' };
  readonly #endpoints: GuardedEndpoints<Endpoint> = new GuardedEndpoints();
  readonly #others: GuardedEndpoints<HttpIn> = new GuardedEndpoints();
  readonly #bodyErrors: BodyErrors;
  readonly #prepared: WeakSet<HttpResponse> = new WeakSet();

  /** @param clients hears of each request that is let through */
  constructor(RED: NodeAPI, clients: HttpClients) {
    this.#clients = clients;
    this.#bodyErrors = new BodyErrors(RED);
    const app = RED.httpNode as { use(handler: Handler): void } | false;
    // Once, and before any HTTP-in node: Express goes on with whatever routes exist when it is let through.
    if (app) app.use((request, response, next) => this.#handle(request, response, next));
  }

  /** The endpoints to stand in front of from now on. @param others whose clients a deploy must not leave without answer */
  guard(endpoints: readonly Endpoint[], others: readonly HttpIn[]): void {
    this.#endpoints.set(endpoints);
    this.#others.set(others);
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

  #handle(request: HttpRequest, response: HttpResponse, next: () => void): void {
    // The client went away while the request was held: nobody would notice its end any more.
    if (response.destroyed) return;
    const endpoint = this.#endpoints.find(request);
    if (!endpoint) {
      const other = this.#others.find(request);
      if (other) this.#clients.enter(request, response, other.id, false);
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
    if (!endpoint.held || this.#state.tag === 'open') {
      this.#clients.enter(request, response, endpoint.id, true);
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
}
