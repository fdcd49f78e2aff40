/** Bugs that could be in how requests and answers over HTTP are read and written. */
import type { Mutation } from './edits.ts';

export const HTTP_MUTATIONS: readonly Mutation[] = [
  {
    bug: 'room is made for what a few bytes of msgpack claim',
    file: 'src/endpoint/values/msgpack.ts',
    find: 'const { wide } = shapeOf(bytes);',
    replace: 'const wide = shapeOf.length > 0;',
    suite: 'endpoint/msgpack',
    test: 'more small values than memory should hold get payload_too_large',
  },
  {
    bug: 'msgpack is read from the text that Node-RED makes of it',
    file: 'src/node-red/http/bodies/body-reader.ts',
    find: "kind === 'msgpack' && body.length > 0 ? body :",
    replace: "kind === 'msgpack' && body.length > 0 ? body.toString() :",
    suite: 'nodered/http-bodies',
    // The flow reads this body: an endpoint that forks is not compiled.
    test: 'arrives whole at both of two stages',
  },
  {
    bug: 'a client that does not read its stream does not slow the modelet down',
    file: 'src/endpoint/streaming/result-stream.ts',
    find: 'if (!response.writableNeedDrain || response.destroyed) {',
    replace: 'if (response !== null) {',
    suite: 'processes/endpoint-streams',
    test: 'a client that stops reading stops the generator, and the deadline ends both',
  },
  {
    bug: 'an error overtakes the parts that are on their way to a stream response',
    file: 'src/node-red/request/direct-answers.ts',
    find: 'if (begun.has(response)) inTurns(LONGEST_WAY, act);',
    replace: 'if (begun.has(response)) inTurns(LONGEST_WAY * 0, act);',
    suite: 'nodered/stream-response',
    test: 'says an error in the stream, whether a collector, a Catch node or nobody hands it over',
  },
  {
    bug: 'a stream that a node ends early leaves its generator running',
    file: 'src/node-red/request/pipeline-request.ts',
    find: 'if (isStreamOver(this.#msg)) this.#abandon(',
    replace: 'if (isStreamOver(this.#msg) && this.#parts === null) this.#abandon(',
    suite: 'nodered/stream-response',
    test: 'closes the generator when the client goes away, and when a node ends the stream early',
  },
  {
    bug: 'a body that Node-RED cannot parse gets its bare 500',
    file: 'src/node-red/http/bodies/body-reader.ts',
    find: 'if (!terms || request._body) {',
    replace: 'if (!terms || request._body !== true) {',
    suite: 'nodered/http-errors',
    test: 'a body that is cut off: 400 bad_request',
  },
  {
    bug: 'a JSON text is parsed once by Node-RED and once more by the stage',
    file: 'src/node-red/http/bodies/body-reader.ts',
    find: 'keepParsed(request);',
    replace: 'void keepParsed;',
    suite: 'nodered/http-bodies',
    test: 'of JSON may be any value, as for the nodes in between, and is parsed once',
  },
  {
    bug: 'an endpoint that leads to no pipeline is answered like one that does',
    file: 'src/node-red/deploy/endpoints.ts',
    find: 'return first ? [{ id, method, url, ...first, ...widest(found), clients: clientsBehind(graph, id, services) }] : [];',
    replace:
      'const any = first ? { ...first, ...widest(found) } : { held: false, maxBytes: 1e6, countRefused: () => {} };\n    return [{ id, method, url, ...any, clients: clientsBehind(graph, id, services) }];',
    suite: 'nodered/http-bodies',
    test: 'stays as Node-RED made it',
  },
  {
    bug: 'the editor parses the bodies of clients that have not logged in to the HTTP-in nodes',
    file: 'src/node-red/http/bodies/body-reader.ts',
    find: 'if (!request._body && isOurs(request)) this.#spare(request);',
    replace: 'if (request._body && isOurs(request)) this.#spare(request);',
    suite: 'nodered/http-one-root',
    test: 'nothing reads the body of a client that has not logged in',
  },
  {
    bug: 'text that is not UTF-8 is changed in silence',
    file: 'src/wire/codec/json-text.ts',
    find: "return isUtf8(bytes) ? bytes.toString('utf8', startOf(bytes)) : null;",
    replace: "return isUtf8.length > 0 ? bytes.toString('utf8', startOf(bytes)) : null;",
    suite: 'nodered/exact-bodies',
    test: 'text that is not UTF-8',
  },
];
