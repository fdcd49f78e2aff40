/** What machines ask of the runtimes: metrics. On the admin side, and below the public paths of runtimes. */
import type { RequestHandler } from 'express';
import type { NodeAPI } from 'node-red';
import { Exposition, ModeletError, type Service } from '../../src/index.ts';
import type { Pipeline } from './pipeline.ts';

interface Request {
  readonly method: string;
  readonly path: string;
}

interface Response {
  status(code: number): Response;
  set(name: string, value: string): Response;
  send(body: string): unknown;
}

type Middleware = (request: Request, response: Response, next: () => void) => void;

/** One per process of Node-RED. */
export class Observation {
  readonly #RED: NodeAPI;
  readonly #pipeline: Pipeline;
  readonly #exposition: Exposition = new Exposition();

  constructor(RED: NodeAPI, pipeline: Pipeline) {
    this.#RED = RED;
    this.#pipeline = pipeline;
  }

  /** To be called once: which runtimes and public paths there are is asked at each request. */
  serve(mayRead: RequestHandler): void {
    this.#RED.httpAdmin.get('/modelets/metrics', mayRead, (_request, response) => {
      this.#answerMetrics(this.#pipeline.services, response);
    });
    const app = this.#RED.httpNode as { use(handler: Middleware): void } | false;
    // Before any HTTP-in node: a flow cannot take the place of what watches it.
    if (app) {
      app.use((request, response, next) => {
        const services = request.method === 'GET' ? this.#servicesAt(request.path, '/metrics') : [];
        if (services.length > 0) this.#answerMetrics(services, response);
        else next();
      });
    }
  }

  #answerMetrics(services: readonly Service[], response: Response): void {
    const measured = services.map((service) => ({ snapshot: service.snapshot(), durations: service.durations() }));
    this.#exposition.text(measured).then(
      (text) => response.set('Content-Type', this.#exposition.contentType).send(text),
      (error: Error) => response.status(500).send(error.message),
    );
  }

  /** The services that have `path` as their public path followed by `what`. */
  #servicesAt(path: string, what: string): readonly Service[] {
    if (!path.endsWith(what)) return [];
    const publicPath = path.slice(0, -what.length) || '/';
    return this.#pipeline.services.filter(({ id }) => {
      const runtime = this.#pipeline.live.get(id);
      if (runtime?.kind !== 'runtime' || runtime.config instanceof ModeletError) return false;
      return runtime.config.publicPath === publicPath;
    });
  }
}
