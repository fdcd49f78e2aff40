/**
 * Lets endpoints that lead to a pipeline take every JSON value. Node-RED's JSON parser takes objects and arrays only: it
 * reads the body, then calls the refusal an error. Here the text that it has read is parsed once more, for our requests.
 * They are also refused for what the parser would change in silence, as json-text.ts refuses it.
 */
import { isUtf8 } from 'node:buffer';
import { EventEmitter } from 'node:events';
import type { NodeAPI } from 'node-red';
import { asError } from '../../../core/errors.ts';
import { BEYOND_NUMBERS, hasFiniteNumbers, NO_UTF8 } from '../../../wire/codec/json-text.ts';
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
const OTHER_CHARSET = /;\s*charset\s*=\s*"?(?!utf-?8)/i;

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
  return (request, response, next) => {
    if (!isOurs(request)) {
      parse(request, response, next);
      return;
    }
    const wasUtf8 = watchUtf8(request);
    parse(request, response, (error) => {
      const isText = wasUtf8();
      if (error === undefined || isParseError(error)) next(takenOver(request, error, isText));
      else next(error);
    });
  };
}

/**
 * Gives the request its body if the parser did not take it for being no object.
 * @returns why the request is refused; undefined if it is not
 */
function takenOver(request: HttpRequest, error: ParseError | undefined, isText: boolean): Error | undefined {
  if (!isText) return new SyntaxError(NO_UTF8);
  if (error) {
    try {
      request.body = JSON.parse(error.body);
    } catch (thrown) {
      // Says what is wrong with the text; the parser's own message is about objects and arrays.
      error.message = asError(thrown).message;
      return error;
    }
    keepParsed(request);
  }
  return hasFiniteNumbers(request.body) ? undefined : new SyntaxError(BEYOND_NUMBERS);
}

/** Watches the bytes of a body while a parser reads them. The returned function says whether they were UTF-8. */
function watchUtf8(request: HttpRequest): () => boolean {
  const { 'content-type': type = '', 'content-encoding': coding = 'identity' } = request.headers;
  // What is compressed or in UTF-16 cannot be told from its bytes.
  if (coding !== 'identity' || OTHER_CHARSET.test(String(type))) return () => true;
  const chunks: Buffer[] = [];
  const keep = (chunk: Buffer): void => {
    chunks.push(chunk);
  };
  const stream = request as unknown as EventEmitter;
  // The stream's own methods would start and stop its flow.
  EventEmitter.prototype.on.call(stream, 'data', keep);
  return () => {
    EventEmitter.prototype.removeListener.call(stream, 'data', keep);
    return isUtf8(chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks));
  };
}

function isParseError(error: unknown): error is ParseError {
  const { type, body } = (error ?? {}) as Partial<ParseError>;
  return type === 'entity.parse.failed' && typeof body === 'string';
}
