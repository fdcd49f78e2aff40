/** What machines ask of the runtimes: metrics, health, OpenAPI. On the admin side, and below the public paths of runtimes. */
import type { RequestHandler } from 'express';
import type { NodeAPI } from 'node-red';
import {
  type ErrorCode,
  Exposition,
  type Missing,
  missingIn,
  type OpenApiDocument,
  pageOf,
  type Service,
  type StageCheck,
} from '../../src/index.ts';
import { ApiDocuments } from './api-documents.ts';
import type { Pipeline } from './pipeline.ts';

interface Request {
  readonly method: string;
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
}

type Middleware = (request: Request, response: Response, next: () => void) => void;

interface View {
  readonly services: readonly Service[];
  /** Whether whoever asks may see what is not for everybody. */
  readonly inside: boolean;
}

type Answer = (view: View, response: Response, request: Omit<Request, 'method' | 'path'>) => void;

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
    const app = this.#RED.httpNode as { use(handler: Middleware): void } | false;
    // Before any HTTP-in node: a flow cannot take the place of what watches it.
    if (app) app.use((request, response, next) => this.#answerPublicly(request, response, next));
  }

  #answerPublicly(request: Request, response: Response, next: () => void): void {
    const { method, path } = request;
    const { publicPaths } = this.#pipeline.deployment;
    // Most Node-REDs have none, and every request to an endpoint comes by here.
    const asks = publicPaths.size > 0 && (method === 'GET' || method === 'HEAD');
    const asked = asks ? [...this.#answers].find(([what]) => path.endsWith(what)) : undefined;
    const publicPath = asked ? path.slice(0, -asked[0].length) || '/' : '';
    const runtimes = [...publicPaths].flatMap(([id, its]) => (its === publicPath ? [id] : []));
    if (!asked || runtimes.length === 0) {
      next();
      return;
    }
    const services = this.#pipeline.services.filter(({ id }) => runtimes.includes(id));
    asked[1]({ services, inside: false }, response, request);
  }

  #answerMetrics({ services, inside }: View, response: Response): void {
    const shown = new Set<string | null>(services.map(({ id }) => id));
    const gates = this.#pipeline.gates.measured.filter(({ runtime }) => inside || shown.has(runtime));
    const looks = services.map((service) => service.look());
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
