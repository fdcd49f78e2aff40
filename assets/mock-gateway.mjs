// An inference gateway to try a dispatch gate on: it speaks as much of OpenAI's API as clients need, computes nothing,
// and is full when it is full. `servers` x `max-concurrency` requests run at a time, each for a time that its tokens
// give; `queue` more wait; the next is refused with 429 and Retry-After. Needs Node and nothing else.
//
//   npx @modelet/node-red-pipeline mock-gateway [--port 8000] [--servers 2] [--max-concurrency 4] [--queue 16]
//       [--first-token-ms 20] [--token-ms 5] [--retry-after 1] [--unavailable]
//
// Each flag may be given as a variable of the environment too: GATEWAY_MAX_CONCURRENCY=8.
//
//   POST /v1/chat/completions, /v1/completions    {"max_tokens": 16, "stream": false, ...}
//   GET  /metrics                                 for Prometheus
//   GET  /health                                  200, or 503 while unavailable
//   POST /control                                 {"unavailable": true, "servers": 1}: changes the running gateway
import { randomUUID } from 'node:crypto';
import { realpathSync } from 'node:fs';
import { createServer } from 'node:http';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

const NUMBERS = {
  port: 8000,
  servers: 2,
  'max-concurrency': 4,
  queue: 16,
  'first-token-ms': 20,
  'token-ms': 5,
  'retry-after': 1,
};
const DEFAULT_TOKENS = 16;
const MAX_TOKENS = 100_000;
const MAX_BODY_BYTES = 1024 * 1024;
const WORDS = ['some', 'words', 'that', 'mean', 'nothing'];

const settings = {};
/** Requests that run, and requests that wait for their turn, the longest waiting first. */
const running = new Set();
const queued = new Set();
/** How many requests ended with each status. */
const ended = new Map([200, 400, 404, 413, 429, 499, 503].map((status) => [status, 0]));
let tokensMade = 0;

const server = createServer((request, response) => {
  route(request, response).catch((error) => refuse(response, error.status ?? 500, error.message));
});
// A connection that is closed just when its client uses it again looks like a failure: as long as gateways keep theirs.
server.keepAliveTimeout = 75_000;

/** Runs the gateway in this process until SIGINT or SIGTERM. `args` are the flags as above; a wrong one ends the process. */
export function mockGateway(args) {
  Object.assign(settings, readSettings(args));
  server.listen(settings.port, '127.0.0.1', () => {
    console.log(`Mock gateway at http://127.0.0.1:${server.address().port} (Ctrl-C ends it)`);
  });
  server.on('error', (error) => {
    console.error(error.message);
    process.exit(1);
  });
  for (const signal of ['SIGINT', 'SIGTERM']) {
    process.once(signal, () => {
      server.close();
      server.closeAllConnections();
    });
  }
}

async function route(request, response) {
  const { pathname } = new URL(request.url, 'http://127.0.0.1');
  switch (`${request.method} ${pathname}`) {
    case 'GET /metrics':
      return send(response, 200, metrics(), 'text/plain; version=0.0.4; charset=utf-8');
    case 'GET /health':
      return send(response, settings.unavailable ? 503 : 200, '{}');
    case 'POST /control':
      return control(response, await readJson(request));
    case 'POST /v1/chat/completions':
    case 'POST /v1/completions':
      return admit(response, await readJson(request), pathname.includes('chat'));
    default:
      return refuse(response, 404, 'there is nothing here');
  }
}

/** Runs it, lets it wait, or refuses it. */
function admit(response, { max_tokens: tokens = DEFAULT_TOKENS, stream = false, model = 'mock' }, chat) {
  if (!Number.isInteger(tokens) || tokens < 1 || tokens > MAX_TOKENS) {
    return refuse(response, 400, `max_tokens must be a whole number from 1 to ${MAX_TOKENS}`);
  }
  if (settings.unavailable) return refuse(response, 503, 'no server is ready');
  if (running.size >= slots() && queued.size >= settings.queue) {
    response.setHeader('retry-after', String(settings['retry-after']));
    return refuse(response, 429, 'all servers are busy and the queue is full');
  }
  const work = { response, tokens, stream, model, chat, id: `mock-${randomUUID()}`, timer: undefined };
  queued.add(work);
  response.once('close', () => leave(work));
  startNext();
}

function startNext() {
  for (const work of queued) {
    if (running.size >= slots()) return;
    queued.delete(work);
    running.add(work);
    run(work);
  }
}

/** Makes its tokens, each at its time from now: a late timer delays none of the next. */
function run(work) {
  const startedAt = performance.now();
  const dueAt = (token) => startedAt + settings['first-token-ms'] + (token - 1) * settings['token-ms'];
  const next = (made) => {
    if (work.stream) streamToken(work, made);
    if (made === work.tokens) return finish(work);
    const token = work.stream ? made + 1 : work.tokens;
    work.timer = setTimeout(() => next(token), Math.max(0, dueAt(token) - performance.now()));
  };
  const first = work.stream ? 1 : work.tokens;
  work.timer = setTimeout(() => next(first), Math.max(0, dueAt(first) - performance.now()));
}

function finish(work) {
  const { response, tokens, stream } = work;
  tokensMade += tokens;
  if (stream) {
    response.end(`data: ${JSON.stringify(answer(work, '', 'length'))}\n\ndata: [DONE]\n\n`);
  } else {
    const usage = { prompt_tokens: 1, completion_tokens: tokens, total_tokens: tokens + 1 };
    const text = Array.from({ length: tokens }, (_, index) => WORDS[index % WORDS.length]).join(' ');
    send(response, 200, JSON.stringify({ ...answer(work, text, 'length'), usage }));
  }
  count(200);
  leave(work);
}

function streamToken(work, made) {
  if (made === 1) work.response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-store' });
  const text = `${WORDS[(made - 1) % WORDS.length]} `;
  work.response.write(`data: ${JSON.stringify(answer(work, text, null))}\n\n`);
}

function answer({ id, model, chat, stream }, text, reason) {
  const kind = chat ? 'chat.completion' : 'text_completion';
  const said = chat ? { [stream ? 'delta' : 'message']: { role: 'assistant', content: text } } : { text };
  return {
    id,
    object: chat && stream ? 'chat.completion.chunk' : kind,
    created: Math.floor(Date.now() / 1000),
    model,
    choices: [{ index: 0, ...said, finish_reason: reason }],
  };
}

/** It has been answered, or its client went away: either way its place is free. */
function leave(work) {
  const wasHere = running.delete(work) || queued.delete(work);
  clearTimeout(work.timer);
  if (!wasHere) return;
  if (!work.response.writableEnded) count(499);
  startNext();
}

function slots() {
  return settings.unavailable ? 0 : settings.servers * settings['max-concurrency'];
}

/** Running requests go on; fewer servers take fewer new requests. */
function control(response, wanted) {
  for (const [name, value] of Object.entries(wanted)) {
    const known = name === 'unavailable' ? typeof value === 'boolean' : name in NUMBERS && isAmount(value);
    if (!known || name === 'port') return refuse(response, 400, `${name} cannot be set to ${JSON.stringify(value)}`);
  }
  Object.assign(settings, wanted);
  startNext();
  send(response, 200, JSON.stringify(settings));
}

function metrics() {
  const lines = [];
  const add = (name, type, help, series) => {
    lines.push(`# HELP ${name} ${help}`, `# TYPE ${name} ${type}`);
    for (const [labels, value] of series) lines.push(`${name}${labels} ${value}`);
  };
  const total = slots();
  const saturation = total === 0 ? 1 : (running.size + queued.size) / total;
  add('gateway_requests_running', 'gauge', 'Requests that run.', [['', running.size]]);
  add('gateway_queue_length', 'gauge', 'Requests that wait.', [['', queued.size]]);
  add('gateway_servers_ready', 'gauge', 'Servers that take requests.', [
    ['', settings.unavailable ? 0 : settings.servers],
  ]);
  add('gateway_saturation', 'gauge', 'Running and waiting requests, of those that can run.', [['', saturation]]);
  add('gateway_tokens_total', 'counter', 'Tokens of answered requests.', [['', tokensMade]]);
  const byCode = [...ended].map(([status, number]) => [`{code="${status}"}`, number]);
  add('gateway_requests_total', 'counter', 'Requests that ended, by status; 499: the client went away.', byCode);
  return `${lines.join('\n')}\n`;
}

function refuse(response, status, message) {
  if (response.headersSent) return response.destroy();
  count(status);
  send(response, status, JSON.stringify({ error: { message, type: status === 429 ? 'rate_limit_error' : 'error' } }));
}

function send(response, status, body, type = 'application/json') {
  response.writeHead(status, { 'content-type': type, 'content-length': Buffer.byteLength(body) }).end(body);
}

function count(status) {
  ended.set(status, (ended.get(status) ?? 0) + 1);
}

async function readJson(request) {
  const chunks = [];
  let bytes = 0;
  for await (const chunk of request) {
    // Read to its end, or the client would not see the answer.
    bytes += chunk.length;
    if (bytes <= MAX_BODY_BYTES) chunks.push(chunk);
  }
  if (bytes > MAX_BODY_BYTES) throw Object.assign(new Error('the request is too large'), { status: 413 });
  try {
    const body = JSON.parse(Buffer.concat(chunks).toString());
    if (body !== null && typeof body === 'object') return body;
  } catch {
    // Said below.
  }
  throw Object.assign(new Error('the request must be a JSON object'), { status: 400 });
}

function readSettings(args) {
  const strings = Object.keys(NUMBERS).map((name) => [name, { type: 'string' }]);
  const { values } = parseFlags(args, { ...Object.fromEntries(strings), unavailable: { type: 'boolean' } });
  const fromEnvironment = (name) => process.env[`GATEWAY_${name.toUpperCase().replaceAll('-', '_')}`];
  const numbers = Object.entries(NUMBERS).map(([name, standard]) => {
    const given = Number(values[name] ?? fromEnvironment(name) ?? standard);
    if (isAmount(given)) return [name, given];
    console.error(`--${name} must be a number from 0`);
    return process.exit(2);
  });
  return {
    ...Object.fromEntries(numbers),
    unavailable: values.unavailable ?? fromEnvironment('unavailable') === 'true',
  };
}

function parseFlags(args, options) {
  try {
    return parseArgs({ args, options });
  } catch (error) {
    console.error(error.message);
    return process.exit(2);
  }
}

function isAmount(value) {
  return typeof value === 'number' && Number.isFinite(value) && value >= 0;
}

if (process.argv[1] && realpathSync(process.argv[1]) === fileURLToPath(import.meta.url)) {
  mockGateway(process.argv.slice(2));
}
