/** OpenAPI documents as they are asked for. */
import { type Deadline, systemClock } from '../../core/clock.ts';
import { buildDocument, type OpenApiDocument } from '../../openapi/document.ts';
import type { Service } from '../../server/service.ts';
import type { Deployment } from '../deploy/deployment.ts';
import type { Pipeline } from '../pipeline.ts';
import { apiOf } from './api.ts';

/** Schemas may be large, and anybody may ask in public: within this time everybody gets the same. */
const FRESH_MS = 500;

interface Made {
  readonly document: OpenApiDocument;
  readonly deployment: Deployment;
  readonly until: Deadline;
}

export class ApiDocuments {
  readonly #pipeline: Pipeline;
  /** By the runtimes that it is about. */
  readonly #made: Map<string, Made> = new Map();

  constructor(pipeline: Pipeline) {
    this.#pipeline = pipeline;
  }

  /** @param services null: all. */
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
