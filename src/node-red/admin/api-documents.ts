/** Serves the OpenAPI document and its page. Documents are built on request and cached briefly. */
import { createRequire } from 'node:module';
import { dirname } from 'node:path';
import type { Request, Response } from 'express';
import { type HttpSettings, httpRoot } from '../../config/http/http-settings.ts';
import { type Deadline, systemClock } from '../../core/clock.ts';
import { apiOf, type Described } from '../../http/openapi/api.ts';
import { buildDocument, type OpenApiDocument } from '../../http/openapi/document.ts';
import {
  PAGE_POLICY,
  PLAIN_PAGE,
  VIEWER_FILES,
  VIEWER_PACKAGE,
  VIEWER_PAGE,
  VIEWER_SCRIPT,
  VIEWER_START,
} from '../../http/openapi/page.ts';
import type { Service } from '../../runtime/service/service.ts';
import type { Deployment } from '../deploy/deployment.ts';
import type { Pipeline } from '../pipeline.ts';

/** Time for which a document is reused. Schemas may be large, and the public route needs no permission. */
const FRESH_MS = 500;

interface Made {
  readonly document: OpenApiDocument;
  readonly deployment: Deployment;
  readonly until: Deadline;
}

export interface ClientView {
  readonly services: readonly Service[];
  /** Whether the client may see details that are not public. */
  readonly inside: boolean;
}

export type ViewAnswer = (view: ClientView, response: Response, request: Pick<Request, 'query'>) => void;

export class ApiDocuments {
  readonly #pipeline: Pipeline;
  /** Documents, by the ids of the runtimes that they describe. */
  readonly #made: Map<string, Made> = new Map();
  /** Folder of the viewer's package; null: it is not installed. */
  readonly #viewer: string | null = viewerFolder();
  /** All that is served, by its path. */
  readonly answers: readonly (readonly [path: string, ViewAnswer])[] = [
    ['/openapi.json', (view, response) => response.json(this.#of(view.inside ? null : view.services))],
    ['/openapi', (_view, response) => this.#sendPage(response)],
    [VIEWER_START, (_view, response) => response.set('Content-Type', 'text/javascript').send(VIEWER_SCRIPT)],
    ...Object.entries(VIEWER_FILES).map(([path, file]): [string, ViewAnswer] => [
      path,
      (_view, response) => this.#sendFile(file, response),
    ]),
  ];

  constructor(pipeline: Pipeline) {
    this.#pipeline = pipeline;
    pipeline.registry.documentedBy((service) => {
      const compiled = new Set(pipeline.deployment.compiled.endpoints.map(({ id }) => id));
      return JSON.stringify(buildDocument(apiOf(describedBy(pipeline), [service], (httpIn) => compiled.has(httpIn))));
    });
  }

  /** @param services the services to describe; null: all */
  #of(services: readonly Service[] | null): OpenApiDocument {
    const { deployment } = this.#pipeline;
    const key = JSON.stringify(services?.map(({ id }) => id) ?? null);
    const known = this.#made.get(key);
    if (known?.deployment === deployment && systemClock.now() < known.until) return known.document;
    for (const [other, made] of this.#made) if (made.deployment !== deployment) this.#made.delete(other);
    const document = buildDocument(apiOf(describedBy(this.#pipeline), services));
    this.#made.set(key, { document, deployment, until: systemClock.now() + FRESH_MS });
    return document;
  }

  #sendPage(response: Response): void {
    response.set('Content-Type', 'text/html; charset=utf-8').set('Content-Security-Policy', PAGE_POLICY);
    response.send(this.#viewer === null ? PLAIN_PAGE : VIEWER_PAGE);
  }

  #sendFile(file: string, response: Response): void {
    if (this.#viewer === null) response.sendStatus(404);
    else response.sendFile(file, { root: this.#viewer });
  }
}

function describedBy({ RED, deployment, live, services, access }: Pipeline): Described {
  const { graph, nodes, routes, gates, compiled } = deployment;
  return {
    nameOf: (id) => nodes.get(id)?.name ?? id,
    ...{ graph, nodes: live, services, compiled: compiled.endpoints, root: httpRoot(RED.settings as HttpSettings) },
    runtimeOf: (id) => routes.get(id)?.service.id ?? gates.get(id)?.runtime,
    needsKey: (service) => access.of(service).clients.areNeeded,
  };
}

function viewerFolder(): string | null {
  try {
    return dirname(createRequire(import.meta.url).resolve(`${VIEWER_PACKAGE}/package.json`));
  } catch {
    return null;
  }
}
