/**
 * The compiled endpoints as models of the KServe v2 protocol, which NVIDIA Triton speaks, too:
 *
 *   GET   /v2                        the server
 *   GET   /v2/health/live, /ready    whether it lives, and whether all models are ready
 *   GET   /v2/models/NAME            a model
 *   GET   /v2/models/NAME/ready      whether it is ready
 *   POST  /v2/models/NAME/infer      one request
 *
 * `/versions/1` may follow each name. A name may contain slashes.
 */
import type { IncomingMessage, ServerResponse } from 'node:http';
import { createRequire } from 'node:module';
import { asModeletError } from '../../core/errors.ts';
import { decoded, quoted } from '../../core/text.ts';
import { writeAnswer } from '../answer.ts';
import { Exchange } from '../exchange.ts';
import { isInRanges, JSON_TYPE, REQUEST_ID, requestIdOf } from '../request-head.ts';
import { prepareAnswer, type ServedEndpoint } from '../served-endpoint.ts';
import { jsonAnswer, VERSION } from './infer-answer.ts';
import { InferForm } from './infer-form.ts';
import { inputsOf, outputsOf } from './metadata.ts';

const OURS = createRequire(import.meta.url)('@modelet/node-red-pipeline/package.json') as { version: string };

type Served = ReadonlyMap<string, ServedEndpoint>;

interface ModelAnswer {
  readonly status: number;
  readonly value: object;
}

/** Extensions of Triton that concern no model. */
const SERVER_EXTENSION =
  /^\/(repository|systemsharedmemory|cudasharedmemory|trace|logging|models\/stats|models\/trace)(?:\/|$)/;
const OF_VERSION = /^versions\/[^/]+\//;
const MODEL = /^\/models\/(.+?)(?:\/versions\/([^/]+))?(?:\/(ready|infer))?$/;

export class Models {
  /** Models by base path and name. */
  readonly #bases: ReadonlyMap<string, Served>;

  constructor(endpoints: readonly ServedEndpoint[]) {
    const bases = new Map<string, Map<string, ServedEndpoint>>();
    for (const endpoint of endpoints) {
      const { model, mediaTypes } = endpoint.spec;
      // A stage that takes no JSON expects other values than tensors by name.
      if (!model || (mediaTypes && !isInRanges(JSON_TYPE, mediaTypes))) continue;
      const served = bases.get(model.base) ?? new Map<string, ServedEndpoint>();
      bases.set(model.base, served.set(model.name, endpoint));
    }
    this.#bases = bases;
  }

  /**
   * Answers a request of the protocol. Returns false, and leaves the request as it is, if the path is not part of it.
   * @param parsed the body, if a parser has read it already
   */
  take(request: IncomingMessage, response: ServerResponse, path: string, parsed?: unknown): boolean {
    for (const [base, served] of this.#bases) {
      if (path !== base && !path.startsWith(`${base}/`)) continue;
      const [any] = served.values();
      if (any?.origins?.preflight(request, response)) return true;
      any?.origins?.mark(request, response);
      const place = placeOf(path.slice(base.length), served);
      const { name, action, endpoint } = place;
      if (endpoint && action === 'infer' && request.method === 'POST')
        new Exchange(endpoint, request, response, (call) => new InferForm(name, call, parsed)).begin();
      else tell(request, response, place, served);
      return true;
    }
    return false;
  }
}

/** A path below the base, and its parts. */
interface ModelPath {
  readonly path: string;
  /** '' for the server itself. */
  readonly name: string;
  readonly version: string;
  readonly action: string;
  /** undefined: there is no such model. */
  readonly endpoint: ServedEndpoint | undefined;
}

function placeOf(path: string, served: Served): ModelPath {
  const [, encoded = '', version = VERSION, action = ''] = MODEL.exec(path) ?? [];
  const name = decoded(encoded);
  return { path, name, version, action, endpoint: version === VERSION ? served.get(name) : undefined };
}

/** Answers any request but one for an inference. */
function tell(request: IncomingMessage, response: ServerResponse, place: ModelPath, served: Served): void {
  const { path, name, action, endpoint } = place;
  const takes = action === 'infer' ? ['POST'] : ['GET', 'HEAD'];
  const refused = action === '' && endpoint ? refusalOf(request, response, endpoint) : null;
  const found =
    refused ?? (name === '' || SERVER_EXTENSION.test(path) ? ofServer(path, served) : ofModel(place, served));
  const isWrong = !refused && found.status !== 404 && !takes.includes(request.method ?? '');
  const { status, value } = isWrong ? { status: 405, value: { error: `this path takes ${takes[0]}` } } : found;
  const [any] = served.values();
  const direct = (any as ServedEndpoint).direct;
  const allow = isWrong ? prepareAnswer({ statusCode: null, headers: { Allow: takes.join(', ') } }).headers : [];
  const requestId = requestIdOf(request.headers, response.getHeader(REQUEST_ID));
  const head = { status, requestId, answer: { ...direct, headers: [...direct.headers, ...allow] } };
  writeAnswer(response, head, jsonAnswer(value));
}

/** A client that may not use an endpoint is told nothing about its model, except whether it is ready. */
function refusalOf(
  request: IncomingMessage,
  response: ServerResponse,
  { clients, spec }: ServedEndpoint,
): ModelAnswer | null {
  try {
    clients?.check(request.headers, response, spec.path);
    return null;
  } catch (thrown) {
    const { statusCode, message } = asModeletError(thrown, 'unauthorized');
    return { status: statusCode, value: { error: message } };
  }
}

function ofServer(path: string, served: Served): ModelAnswer {
  switch (path) {
    case '':
      return ok({ name: 'modelet', version: OURS.version, extensions: ['binary_tensor_data', 'sequence'] });
    case '/health/live':
      return ok({ live: true });
    case '/health/ready':
      return readiness({}, [...served.values()]);
    default: {
      const [, extension] = SERVER_EXTENSION.exec(path) ?? [];
      return unknown(extension === undefined ? 'there is nothing at this path' : notSupported(extension));
    }
  }
}

function ofModel({ name, version, action, endpoint }: ModelPath, served: Served): ModelAnswer {
  if (!endpoint) {
    const model = action === '' ? [...served.keys()].find((known) => name.startsWith(`${known}/`)) : undefined;
    if (model !== undefined) return unknown(notSupported(name.slice(model.length + 1).replace(OF_VERSION, ''), model));
    return unknown(`there is no model ${JSON.stringify(name)} of version ${JSON.stringify(version)}`);
  }
  if (action === 'ready') return readiness({ name }, [endpoint]);
  const { first, last } = endpoint.runtime.described();
  const tensors = { inputs: inputsOf(first), outputs: outputsOf(last) };
  return ok({ name, versions: [VERSION], platform: 'modelet', ...tensors });
}

function readiness(of: object, endpoints: readonly ServedEndpoint[]): ModelAnswer {
  const ready = endpoints.every(
    ({ runtime, stageNames }) => !runtime.missing().some((name) => stageNames.includes(name)),
  );
  return { status: ready ? 200 : 503, value: { ...of, ready } };
}

function ok(value: object): ModelAnswer {
  return { status: 200, value };
}

function notSupported(extension: string, model?: string): string {
  const of = model === undefined ? '' : ` of the model ${JSON.stringify(model)}`;
  return `the extension ${JSON.stringify(quoted(extension))}${of} is not supported; the server has binary_tensor_data`;
}

function unknown(error: string): ModelAnswer {
  return { status: 404, value: { error } };
}
