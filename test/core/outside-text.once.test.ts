/**
 * Text that others write must not cost more than its length: a client, a server that is asked for metrics, a child's
 * stderr. Each reader gets long runs of what its expressions are about, at one length and at twice that.
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { parseMediaRanges } from '../../src/config/formats/media-types.ts';
import { parsePins } from '../../src/config/formats/pins.ts';
import { parsePublicPath } from '../../src/config/formats/urls.ts';
import { parseModuleName } from '../../src/config/modules.ts';
import { compilePayloadSchema, describeProblems } from '../../src/config/payload-schema.ts';
import { isDecimal, withoutSurrounding, withoutTrailing } from '../../src/core/text.ts';
import { receipt } from '../../src/gate/node-red/durable/durable-answers.ts';
import { gateBadge } from '../../src/gate/node-red/gate-badge.ts';
import { endOfMessage } from '../../src/gate/node-red/message-leases.ts';
import { readSeries } from '../../src/gate/sources/exposition.ts';
import { selectorsOf } from '../../src/gate/sources/selectors.ts';
import { checkMediaType, decodeBody } from '../../src/http/body.ts';
import { textForClient } from '../../src/http/client-text.ts';
import { templatesOf } from '../../src/http/openapi/path-template.ts';
import { answerForm, enterRequest } from '../../src/http/request-head.ts';
import { GuardedEndpoints } from '../../src/node-red/http/http-hold.ts';
import { oneLine } from '../../src/node-red/log.ts';
import type { PipelineMessage } from '../../src/node-red/request/messages.ts';
import { checkTimeout, numberIn, stripConnectionHeaders } from '../../src/node-red/request/messages.ts';
import { parseTraceparent } from '../../src/observe/export/tracing.ts';
import { withoutSecrets } from '../../src/observe/log/log.ts';
import { Lines } from '../../src/process/lines.ts';
import { StderrTail } from '../../src/process/parent/output.ts';
import { WITHOUT_PYTHON } from '../fixtures/python.ts';

const LENGTH = 1000;
/** Quadratic code takes four times as long for twice the text. */
const MOST_GROWTH = 3;
const DOUBLINGS = 3;
const ATTEMPTS = 40;

/** Repeated, they are what one or another expression could read in more than one way. */
const UNITS = [
  ...['://', '://a:', '@', ':'],
  ...['\n', ' ', '\t\n', '\n at', '/', '//a', '/a', 'a/', '_', '-', 'a', 'a-', '0', '0.', '.', '1e', '+'],
  ...['"', '\\', '\\"', "'", '`', '"\\', '{', '}', '[', '[]', '(', ')', 'a{', 'a="",', 'a[]', '#', ' # ', ',', ' ,'],
  ...[';', '; q', 'q=', '=', '*', '*/', ':', ':\\', 'a:\\', '!a:\\a', '!/', '<', '%', '%2f', '\0', 'ä', ']'],
];
/** Behind the run: nothing, what no expression takes, and what several of them end with. */
const ENDS = ['', '\u0001', 'x!', '"'];

const strict = compilePayloadSchema({ type: 'object', additionalProperties: false });
const nested = compilePayloadSchema({ type: 'object', additionalProperties: { type: 'number' } });

type Endpoints = GuardedEndpoints<{ readonly method: string; readonly url: string }>;

function endpointsAt(...urls: string[]): Endpoints {
  const guarded: Endpoints = new GuardedEndpoints();
  guarded.set(urls.map((url) => ({ method: 'post', url })));
  return guarded;
}

const ENDPOINTS = endpointsAt('/a/:from-:to', '/*a*a/b', '/:a?/:b?/:c-:d-:e');

/** The origin of each text and its reader. A reader has read a text that it refuses, too. */
const READERS: Readonly<Record<string, (text: string) => unknown>> = {
  'a message of a modelet, for a client': (text) => textForClient('modelet_failed', `wrong: ${text}`),
  'a message of a process, for a client': (text) => textForClient('worker_lost', `wrong: '${text}`),
  'a key that a schema does not know': (text) => told(strict({ [text]: 1 }, true)),
  'a key of a value that a schema refuses': (text) => told(nested({ [text]: 'a' }, true)),
  'a line of a metrics page': (text) => readSeries(`load${text}`, 'load'),
  'the value on a metrics page': (text) => readSeries(`load ${text}`, 'load'),
  'the time on a metrics page': (text) => readSeries(`load 1 ${text}`, 'load'),
  'the labels on a metrics page': (text) => readSeries(`load{${text}`, 'load'),
  'a label on a metrics page': (text) => readSeries(`load{a="${text}`, 'load'),
  'the last label on a metrics page': (text) => readSeries(`load{a="1"${text}`, 'load'),
  'the value of a key in Redis': (text) => isDecimal(text.trim()),
  'a PromQL expression': (text) => selectorsOf(text),
  'the address of a Prometheus': (text) => withoutTrailing(text, '/'),
  'an Accept header': (text) => answerForm(text, null),
  'a Content-Type': (text) => checkMediaType(text, ['application/json']),
  'a Content-Encoding': (text) =>
    decodeBody(
      { contentType: 'application/msgpack', contentEncoding: text, given: Buffer.alloc(1) },
      { mediaTypes: null, maxBytes: 1000 },
    ),
  'a traceparent': (text) => parseTraceparent(`00-${'a'.repeat(32)}-${'b'.repeat(16)}-01-${text}`),
  'an X-Request-Id': (text) => enterRequest({ 'x-request-id': text, traceparent: text }, undefined),
  'a path of a request': (text) =>
    ENDPOINTS.find({ method: 'POST', path: `/a/${text}` } as Parameters<Endpoints['find']>[0]),
  'a path of a request to a durable gate': (text) => receipt({ req: { originalUrl: text } } as PipelineMessage, 'id'),
  'a Retry-After': (text) => endOfMessage({ headers: { 'retry-after': text } } as unknown as PipelineMessage),
  'a Connection header': (text) =>
    stripConnectionHeaders({
      headers: { connection: text, 'x-node-red-request-node': '1' },
    } as unknown as PipelineMessage),
  'the time limit of a message': (text) => checkTimeout({ timeout: text } as unknown as PipelineMessage),
  'the priority of a message': (text) => numberIn(text),
  'a message for the log': (text) => [
    oneLine(text),
    withoutSecrets(`://${text}`),
    withoutSecrets(`authorization: ${text}`),
  ],
  'what a child prints': (text) => {
    const tail = new StderrTail();
    const lines = new Lines((line) => tail.add(line));
    lines.push(`- Native${text}`);
    lines.push(`-${text}`);
    return tail.text;
  },
  'why a gate is closed, on its badge': (text) =>
    gateBadge({
      ...{ open: false, control: 'auto', why: text, budget: 0, waiting: 0, quota: 0 },
      ...{ store: null, source: { available: false, error: text } },
    } as unknown as Parameters<typeof gateBadge>[0]),
  'a path that OpenAPI describes': (text) => templatesOf(`/${text}`),
  'the name of a part of an OpenAPI document': (text) => withoutSurrounding(text.replace(/[^\w.-]+/g, '_'), '_'),
  'an id in an OpenAPI document': (text) => withoutTrailing(text.replaceAll(/\W+/g, '_'), '_'),
  'media types of a stage': parseMediaRanges,
  'cores of a stage': parsePins,
  'a module of a stage': parseModuleName,
  'a public path': parsePublicPath,
};

function told(problems: ReturnType<typeof strict>): string {
  return textForClient('invalid_input', describeProblems('input', problems ?? []));
}

function timeOf(read: (text: string) => unknown, text: string): number {
  const started = process.hrtime.bigint();
  try {
    read(text);
  } catch {
    // It is not what the reader takes.
  }
  return Number(process.hrtime.bigint() - started);
}

/**
 * How many times longer twice the text takes, on average of some doublings. Others use this machine as well, so the
 * least of several times counts, and what has not grown too much once need not be measured again.
 */
function growthOf(read: (text: string) => unknown, textOf: (length: number) => string): number {
  const [short, long] = [textOf(LENGTH), textOf(LENGTH * 2 ** DOUBLINGS)];
  const least = { short: Number.POSITIVE_INFINITY, long: Number.POSITIVE_INFINITY };
  let growth = Number.POSITIVE_INFINITY;
  for (let attempt = 0; attempt < ATTEMPTS && growth > MOST_GROWTH; attempt += 1) {
    least.short = Math.min(least.short, timeOf(read, short));
    least.long = Math.min(least.long, timeOf(read, long));
    growth = (least.long / least.short) ** (1 / DOUBLINGS);
  }
  return growth;
}

describe('twice the text from outside takes at most three times as long', () => {
  for (const [name, read] of Object.entries(READERS)) {
    test(name, () => {
      for (const unit of UNITS) {
        for (const end of ENDS) {
          const textOf = (length: number): string => unit.repeat(length / unit.length) + end;
          const growth = growthOf(read, textOf);
          assert.ok(growth <= MOST_GROWTH, `${JSON.stringify(unit + end)}: ${growth.toFixed(1)} times as long`);
        }
      }
    });
  }

  test('a result of a Python modelet', { skip: WITHOUT_PYTHON }, () => {
    const folder = fileURLToPath(new URL('../../src/runtime/worker/python', import.meta.url));
    const script = `
import sys, time
sys.path.insert(0, ${JSON.stringify(folder)})
from modelet_worker.codec import _may_be_unsafe
def least(text):
    times = []
    for _ in range(${ATTEMPTS}):
        started = time.perf_counter()
        _may_be_unsafe(text)
        times.append(time.perf_counter() - started)
    return min(times)
for unit in [b"0", b"0.", b"0000000000000000.", b",", b"[", b"-", b"[0", b",000000000000000", b"a"]:
    short, long = [unit * (length // len(unit)) + b"x" for length in (${LENGTH}, ${LENGTH * 2 ** DOUBLINGS})]
    growth = (least(long) / least(short)) ** (1 / ${DOUBLINGS})
    assert growth <= ${MOST_GROWTH}, (unit, growth)
`;
    const { status, stderr } = spawnSync('python3', ['-c', script]);
    assert.equal(status, 0, String(stderr));
  });
});

test('a key that a schema refuses is cut before anything else reads it', () => {
  const problems = strict({ ['k'.repeat(100_000)]: 1 }, true);
  assert.ok(describeProblems('input', problems ?? []).length < 1000);
});

test('an error for a client ends before its stack, wherever that begins', () => {
  assert.equal(textForClient('modelet_failed', 'bad\n    at x (/a/b/c.js:1)\n  at y'), 'bad');
  assert.equal(textForClient('modelet_failed', 'bad\n\n\t at x'), 'bad');
  assert.equal(textForClient('modelet_failed', 'look\nat this\n  attic'), 'look\nat this\n  attic');
});

test('requests are found by the patterns of HTTP-in nodes, in any case and with a slash more', () => {
  const found = (path: string): string | undefined =>
    endpointsAt('/jobs/:id', '/range/:from-:to', '/files/*', '/maybe/:x?', '/a*b').find({
      ...{ method: 'POST', path },
    } as Parameters<Endpoints['find']>[0])?.url;
  const expected = {
    '/jobs/1': '/jobs/:id',
    '/JOBS/1/': '/jobs/:id',
    '/jobs/': undefined,
    '/jobs/1/2': undefined,
    '/range/1-2-3': '/range/:from-:to',
    '/range/12': undefined,
    '/range/-12': undefined,
    '/files/': '/files/*',
    '/files/a/b/c': '/files/*',
    '/maybe': '/maybe/:x?',
    '/maybe/': '/maybe/:x?',
    '/maybe/1': '/maybe/:x?',
    '/maybe/1/2': undefined,
    '/a/x/yb': '/a*b',
    '/ab': '/a*b',
  };
  assert.deepEqual(Object.fromEntries(Object.keys(expected).map((path) => [path, found(path)])), expected);
});
