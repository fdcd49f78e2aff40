/** Serves metrics, health and OpenAPI, as admin routes and under the public paths of runtimes. */
import type { ErrorRequestHandler, RequestHandler, Response } from 'express';
import type { NodeAPI } from 'node-red';
import { asError } from '../../core/errors.ts';
import { Exposition } from '../../observe/export/collect.ts';
import {
  type CheckedExamples,
  forThePublic,
  missingIn,
  type Readiness,
  readiness,
} from '../../observe/views/readiness.ts';
import type { Service } from '../../runtime/service/service.ts';
import { coreHandler } from '../http/http-types.ts';
import { logFault } from '../log.ts';
import type { Pipeline } from '../pipeline.ts';
import { ApiDocuments, type ClientView, type ViewAnswer } from './api-documents.ts';

interface HttpNodeApp {
  get(path: RegExp, ...handlers: readonly (RequestHandler | RequestHandler[] | ErrorRequestHandler)[]): void;
}

const ANY_PATH = /^/;

/** Answer and services that a public path selects. */
interface PublicAnswer {
  readonly answer: ViewAnswer;
  readonly services: readonly Service[];
}

/** Answers all observation routes. One instance per Node-RED process. */
export class Observation {
  readonly #RED: NodeAPI;
  readonly #pipeline: Pipeline;
  readonly #exposition: Exposition = new Exposition();
  readonly #answers: ReadonlyMap<string, ViewAnswer>;

  constructor(RED: NodeAPI, pipeline: Pipeline) {
    this.#RED = RED;
    this.#pipeline = pipeline;
    this.#answers = new Map<string, ViewAnswer>([
      ...new ApiDocuments(pipeline).answers,
      ['/metrics', (view, response) => this.#answerMetrics(view, response)],
      ['/health/live', (_view, response) => response.json({ live: true })],
      ['/health/ready', (view, response, { query }) => this.#answerReady(view, response, query['deep'] === '1')],
    ]);
  }

  /** Registers the routes. Call once: each request looks up the current runtimes and public paths. */
  serve(mayRead: RequestHandler): void {
    for (const [path, answer] of this.#answers) {
      this.#RED.httpAdmin.get(`/modelets${path}`, mayRead, (request, response) => {
        answer({ services: this.#pipeline.services, inside: true }, response, request);
      });
    }
    const app = this.#RED.httpNode as unknown as HttpNodeApp | false;
    // Registered before any HTTP-in node, so that a flow cannot replace the routes that observe it.
    if (!app) return;
    app.get(ANY_PATH, this.#passBy, ...protectionOf(this.#RED), this.#answerPublicly, this.#answerFailed);
  }

  readonly #passBy: RequestHandler = ({ path }, _response, next) => next(this.#asked(path) ? undefined : 'route');

  readonly #answerPublicly: RequestHandler = (request, response, next) => {
    const asked = this.#asked(request.path);
    // A deploy may have removed the path since the first check.
    if (!asked) next('route');
    else asked.answer({ services: asked.services, inside: false }, response, request);
  };

  /** Answers like an HTTP-in node whose middleware fails. Express recognizes an error handler by its four parameters. */
  readonly #answerFailed: ErrorRequestHandler = (error, _request, response, _next) => {
    logFault(this.#RED, 'a middleware of the HTTP endpoints failed', asError(error));
    response.sendStatus(500);
  };

  #asked(path: string): PublicAnswer | null {
    const { publicPaths } = this.#pipeline.deployment;
    // Every request to an endpoint passes here, and most installations have no public path: keep that case fast.
    const found = publicPaths.size > 0 ? [...this.#answers].find(([what]) => path.endsWith(what)) : undefined;
    if (!found) return null;
    const publicPath = path.slice(0, -found[0].length) || '/';
    const services = this.#pipeline.services.filter(({ id }) => publicPaths.get(id) === publicPath);
    return [...publicPaths.values()].includes(publicPath) ? { answer: found[1], services } : null;
  }

  #answerMetrics({ services, inside }: ClientView, response: Response): void {
    const shown = new Set<string | null>(services.map(({ id }) => id));
    const gates = this.#pipeline.gates.measured.filter(({ runtime }) => inside || shown.has(runtime));
    const looks = services.map((service) => service.measure());
    this.#exposition.text(looks, gates).then(
      (text) => response.set('Content-Type', this.#exposition.contentType).send(text),
      (error: Error) => response.status(500).send(error.message),
    );
  }

  #answerReady(view: ClientView, response: Response, deep: boolean): void {
    this.#readiness(view, deep).then(
      ({ status, value }) => response.status(status).json(value),
      (error: Error) => response.status(500).send(error.message),
    );
  }

  async #readiness({ services, inside }: ClientView, deep: boolean): Promise<Readiness> {
    const lists = deep ? await Promise.all(services.map((service) => checksOf(service, inside))) : undefined;
    const missing = services.flatMap((service) => missingIn(service.snapshot()));
    const flows = this.#pipeline.isStopped ? 'stopped' : 'running';
    return readiness(inside ? missing : missing.map(forThePublic), lists?.flat(), flows);
  }
}

async function checksOf(service: Service, inside: boolean): Promise<CheckedExamples[]> {
  const runtime = inside ? { runtime: service.name } : {};
  return (await service.check()).map((check) => ({ ...check, ...runtime }));
}

interface HttpNodeSettings {
  readonly httpNodeMiddleware?: unknown;
  readonly httpNodeCors?: unknown;
}

/**
 * Returns the handlers that Node-RED puts before each HTTP-in node, in its order: cookies, `httpNodeMiddleware`,
 * `httpNodeCors`. Node-RED's own command puts `httpNodeAuth` before all of them; an embedding application must do so
 * itself.
 */
function protectionOf(RED: NodeAPI): (RequestHandler | RequestHandler[])[] {
  const { httpNodeMiddleware: middleware, httpNodeCors: cors } = RED.settings as HttpNodeSettings;
  const isMiddleware = typeof middleware === 'function' || Array.isArray(middleware);
  return [
    ...(isMiddleware ? [...loaded(RED, 'cookie-parser'), middleware as RequestHandler | RequestHandler[]] : []),
    ...(cors ? loaded(RED, 'cors', cors) : []),
  ];
}

/** Loads a handler from the packages that HTTP-in nodes use; empty if not found, which skips no access check. */
function loaded(RED: NodeAPI, name: string, ...options: readonly unknown[]): RequestHandler[] {
  try {
    return [coreHandler<RequestHandler>(RED, name, ...options)];
  } catch (thrown) {
    logFault(RED, `${name} is missing, so the public pages run without it`, asError(thrown));
    return [];
  }
}
