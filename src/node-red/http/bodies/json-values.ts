/**
 * Lets endpoints that lead to a pipeline take every JSON value. Node-RED's JSON parser takes objects and arrays only: it
 * reads the body, then calls the refusal an error. Here the text that it has read is parsed once more, for our requests.
 */
import type { NodeAPI } from 'node-red';
import { asError } from '../../../core/errors.ts';
import { type Layer, layersOf } from '../../deploy/http-facts.ts';
import type { HttpRequest } from '../http-types.ts';
import { keepParsed } from './request-body.ts';

type Next = (error?: unknown) => void;
type Parser = (request: HttpRequest, response: unknown, next: Next) => void;

/** The error of a `body-parser` that has read text and cannot parse it. */
interface ParseError extends Error {
  readonly type: 'entity.parse.failed';
  readonly body: string;
}

const PARSER = 'jsonParser';

/** The layers of Express whose parser is wrapped. */
const wrapped: WeakSet<Layer> = new WeakSet();

/**
 * Wraps the JSON parsers of all HTTP-in nodes, and the editor's, which comes first where the editor has the same root.
 * Call after each deploy: HTTP-in nodes make new parsers.
 * @param isOurs whether a request leads to a pipeline; others are refused as before
 */
export function takeJsonValues(RED: NodeAPI, isOurs: (request: HttpRequest) => boolean): void {
  const routes = layersOf(RED.httpNode).flatMap(({ route }) => route?.stack ?? []);
  // The application of the nodes' own admin routes, mounted in the editor's.
  const { parent } = (RED.httpAdmin || {}) as unknown as { readonly parent?: unknown };
  for (const layer of [...routes, ...layersOf(parent)]) {
    if (layer.name !== PARSER || wrapped.has(layer)) continue;
    wrapped.add(layer);
    layer.handle = tolerant(layer.handle as Parser, isOurs) as Layer['handle'];
  }
}

function tolerant(parse: Parser, isOurs: (request: HttpRequest) => boolean): Parser {
  return (request, response, next) =>
    parse(request, response, (error) => {
      if (!isParseError(error) || !isOurs(request)) {
        next(error);
        return;
      }
      try {
        request.body = JSON.parse(error.body);
      } catch (thrown) {
        // Says what is wrong with the text; the parser's own message is about objects and arrays.
        error.message = asError(thrown).message;
        next(error);
        return;
      }
      keepParsed(request);
      next();
    });
}

function isParseError(error: unknown): error is ParseError {
  const { type, body } = (error ?? {}) as Partial<ParseError>;
  return type === 'entity.parse.failed' && typeof body === 'string';
}
