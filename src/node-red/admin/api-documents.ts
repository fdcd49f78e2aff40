/** Builds OpenAPI documents on request and caches them briefly. */
import { type Deadline, systemClock } from '../../core/clock.ts';
import { buildDocument, type OpenApiDocument } from '../../openapi/document.ts';
import type { Service } from '../../server/service.ts';
import type { Deployment } from '../deploy/deployment.ts';
import type { Pipeline } from '../pipeline.ts';
import { apiOf } from './api.ts';

/** Time for which a document is reused. Schemas may be large, and the public route is open to anybody. */
const FRESH_MS = 500;

interface Made {
  readonly document: OpenApiDocument;
  readonly deployment: Deployment;
  readonly until: Deadline;
}

export class ApiDocuments {
  readonly #pipeline: Pipeline;
  /** Documents, by the ids of the runtimes that they describe. */
  readonly #made: Map<string, Made> = new Map();

  constructor(pipeline: Pipeline) {
    this.#pipeline = pipeline;
  }

  /** Returns the document of some services. @param services null: all. */
  of(services: readonly Service[] | null): OpenApiDocument {
    const { deployment } = this.#pipeline;
    const key = JSON.stringify(services?.map(({ id }) => id) ?? null);
    const known = this.#made.get(key);
    if (known?.deployment === deployment && systemClock.now() < known.until) return known.document;
    for (const [other, made] of this.#made) if (made.deployment !== deployment) this.#made.delete(other);
    const document = buildDocument(apiOf(this.#pipeline, services));
    this.#made.set(key, { document, deployment, until: systemClock.now() + FRESH_MS });
    return document;
  }
}
