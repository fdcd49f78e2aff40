/** What machines ask of the runtimes: metrics, health, OpenAPI. On the admin side, and below the public paths of runtimes. */
import { createRequire } from 'node:module';
import { join } from 'node:path';
import type { RequestHandler } from 'express';
import type { NodeAPI } from 'node-red';
import { asError, type ErrorCode } from '../../core/errors.ts';
import { Exposition } from '../../observe/export/collect.ts';
import { type Missing, missingIn } from '../../observe/views/health.ts';
import type { OpenApiDocument } from '../../openapi/document.ts';
import { pageOf } from '../../openapi/page.ts';
import type { StageCheck } from '../../server/checks.ts';
import type { Service } from '../../server/service.ts';
import { logFault } from '../log.ts';
import type { Pipeline } from '../pipeline.ts';
import { ApiDocuments } from './api-documents.ts';

interface Request {
  readonly path: string;
  readonly query: { readonly deep?: unknown };
  readonly protocol: string;
  readonly headers: { readonly host?: string | undefined };
}

interface Response {
  status(code: number): Response;
  set(name: string, value: string): Response;
  send(body: string): unknown;
  json(body: unknown): unknown;
  sendStatus(code: number): unknown;
}

type Handler = (request: Request, response: Response, next: (error?: unknown) => void) => void;
/** Express knows it by its four parameters. */
type ErrorHandler = (error: unknown, request: Request, response: Response, next: unknown) => void;

interface HttpNodeApp {
  get(path: RegExp, ...handlers: readonly (Handler | Handler[] | ErrorHandler)[]): void;
}

const ANY_PATH = /^/;

/** What a request for something public asks for. */
interface Asked {
  readonly answer: Answer;
  readonly services: readonly Service[];
}

interface View {
  readonly services: readonly Service[];
  /** Whether whoever asks may see what is not for everybody. */
  readonly inside: boolean;
}

type Answer = (view: View, response: Response, request: Omit<Request, 'path'>) => void;

/** One per process of Node-RED. */
export class Observation {
  readonly #RED: NodeAPI;
  readonly #pipeline: Pipeline;
  readonly #documents: ApiDocuments;
  readonly #exposition: Exposition = new Exposition();
  readonly #answers: ReadonlyMap<string, Answer> = new Map([
    ['/metrics', (view, response) => this.#answerMetrics(view, response)],
    ['/health/live', (_view, response) => response.json({ live: true })],
    ['/openapi.json', (view, response) => response.json(this.#document(view))],
    ['/openapi', (view, response, request) => this.#answerPage(view, response, request)],
    ['/health/ready', (view, response, { query }) => this.#answerReady(view, response, query.deep === '1')],
  ]);

  constructor(RED: NodeAPI, pipeline: Pipeline) {
    this.#RED = RED;
    this.#pipeline = pipeline;
    this.#documents = new ApiDocuments(pipeline);
  }

  /** To be called once: which runtimes and public paths there are is asked at each request. */
  serve(mayRead: RequestHandler): void {
    for (const [path, answer] of this.#answers) {
      this.#RED.httpAdmin.get(`/modelets${path}`, mayRead, (request, response) => {
        answer({ services: this.#pipeline.services, inside: true }, response, request);
      });
    }
    const app = this.#RED.httpNode as unknown as HttpNodeApp | false;
    // Before any HTTP-in node: a flow cannot take the place of what watches it.
    if (!app) return;
    app.get(ANY_PATH, this.#passBy, ...protectionOf(this.#RED), this.#answerPublicly, this.#answerFailed);
  }

  readonly #passBy: Handler = ({ path }, _response, next) => next(this.#asked(path) ? undefined : 'route');

  readonly #answerPublicly: Handler = (request, response, next) => {
    const asked = this.#asked(request.path);
    // A deploy may have taken the path away since.
    if (!asked) next('route');
    else asked.answer({ services: asked.services, inside: false }, response, request);
  };

  /** As HTTP-in nodes do it where what stands before them fails. */
  readonly #answerFailed: ErrorHandler = (error, _request, response, _next) => {
    logFault(this.#RED, 'what stands before HTTP endpoints failed', asError(error));
    response.sendStatus(500);
  };

  #asked(path: string): Asked | null {
    const { publicPaths } = this.#pipeline.deployment;
    // Most Node-REDs have none, and every request to an endpoint comes by here.
    const found = publicPaths.size > 0 ? [...this.#answers].find(([what]) => path.endsWith(what)) : undefined;
    if (!found) return null;
    const publicPath = path.slice(0, -found[0].length) || '/';
    const services = this.#pipeline.services.filter(({ id }) => publicPaths.get(id) === publicPath);
    return [...publicPaths.values()].includes(publicPath) ? { answer: found[1], services } : null;
  }

  #answerMetrics({ services, inside }: View, response: Response): void {
    const shown = new Set<string | null>(services.map(({ id }) => id));
    const gates = this.#pipeline.gates.measured.filter(({ runtime }) => inside || shown.has(runtime));
    const looks = services.map((service) => service.measure());
    this.#exposition.text(looks, gates).then(
      (text) => response.set('Content-Type', this.#exposition.contentType).send(text),
      (error: Error) => response.status(500).send(error.message),
    );
  }

  #document({ services, inside }: View): OpenApiDocument {
    return this.#documents.of(inside ? null : services);
  }

  #answerPage(view: View, response: Response, { protocol, headers }: Pick<Request, 'protocol' | 'headers'>): void {
    response.set('Content-Type', 'text/html; charset=utf-8');
    // Whatever may be in names and schemas: it is text.
    response.set('Content-Security-Policy', "default-src 'none'; style-src 'unsafe-inline'");
    response.send(pageOf(this.#document(view), `${protocol}://${headers.host ?? 'localhost'}`));
  }

  #answerReady(view: View, response: Response, deep: boolean): void {
    const { services, inside } = view;
    if (!deep) {
      this.#answerChecked(view, response, null);
      return;
    }
    const checks = services.map(async (service) =>
      (await service.check()).map((check) => (inside ? checkInside(service, check) : checkForEverybody(check))),
    );
    void Promise.all(checks).then((lists) => this.#answerChecked(view, response, lists.flat()));
  }

  /** @param checks what came of the stages' examples; null where nobody asked. */
  #answerChecked({ services, inside }: View, response: Response, checks: readonly ShownCheck[] | null): void {
    const missing = services.flatMap((service) => missingIn(service.snapshot()));
    const { isStopped } = this.#pipeline;
    const ready = !isStopped && missing.length === 0 && (checks ?? []).every(({ ok }) => ok);
    response.status(ready ? 200 : 503).json({
      ready,
      flows: isStopped ? 'stopped' : 'running',
      missing: inside ? missing : missing.map(forEverybody),
      ...(checks ? { checks } : {}),
    });
  }
}

/** What came of a stage's examples, for everybody: a message has text of the modelet's code in it. */
interface ShownCheck {
  readonly stage: string;
  readonly ok: boolean;
  readonly examples: number;
  readonly error?: { readonly code: ErrorCode; readonly message?: string };
}

function checkForEverybody({ stage, examples, error }: StageCheck): ShownCheck {
  return { stage, ok: error === null, examples, ...(error ? { error: { code: error.code } } : {}) };
}

function checkInside({ name: runtime }: Service, check: StageCheck): ShownCheck & { readonly runtime: string } {
  const { error } = check;
  const told = error ? { error: { code: error.code, message: error.message } } : {};
  return { runtime, ...checkForEverybody(check), ...told };
}

function forEverybody({ stage, reason }: Missing): Pick<Missing, 'stage' | 'reason'> {
  return { stage, reason };
}

interface HttpNodeSettings {
  readonly coreNodesDir?: string;
  readonly httpNodeMiddleware?: unknown;
  readonly httpNodeCors?: unknown;
}

/**
 * What Node-RED puts before each HTTP-in node, in its order: cookies, `httpNodeMiddleware`, `httpNodeCors`. It has
 * `httpNodeAuth` before all of them, where it is started by its own command; else that is up to its host.
 */
function protectionOf(RED: NodeAPI): (Handler | Handler[])[] {
  const { httpNodeMiddleware: middleware, httpNodeCors: cors } = RED.settings as HttpNodeSettings;
  const isMiddleware = typeof middleware === 'function' || Array.isArray(middleware);
  return [
    ...(isMiddleware ? [...coreHandler(RED, 'cookie-parser'), middleware as Handler | Handler[]] : []),
    ...(cors ? coreHandler(RED, 'cors', cors) : []),
  ];
}

/** What HTTP-in nodes make of a package of theirs; nothing where it is not found, which lets nobody in. */
function coreHandler(RED: NodeAPI, name: string, ...options: readonly unknown[]): Handler[] {
  try {
    const require = createRequire(join((RED.settings as HttpNodeSettings).coreNodesDir ?? '/', 'package.json'));
    return [(require(name) as (...options: readonly unknown[]) => Handler)(...options)];
  } catch (thrown) {
    logFault(RED, `${name} is not there for what is public`, asError(thrown));
    return [];
  }
}
