/** Pairs of endpoints that are the same but for a function node, which keeps one of each pair from being compiled. */
import assert from 'node:assert/strict';
import { type Answer, CALLERS } from '../../fixtures/callers.ts';
import { gather, junction, streamOut } from '../../fixtures/drawn.ts';
import { batcher, collector, func, httpIn, node, runtime, stage, TAB } from '../../fixtures/flow.ts';
import type { FlowNode } from '../../fixtures/node-red.ts';

type Properties = Readonly<Record<string, unknown>>;

const ANY = { mediaTypes: '*/*' };

/** It waits until its caller's time is up, so that the next request finds the worker free, however slow the machine is. */
const DOES = `
  const wait = () => require('node:timers/promises').setTimeout(input.ms, null, { signal: ctx.signal }).catch(() => {});
  if (input === null || typeof input !== 'object') return input;
  if (input.parts) return (async function* () {
    for (const part of input.parts) yield eval('(' + part + ')');
    if (input.ms) await wait();
    if (input.late) throw Object.assign(new Error(input.late), { code: 'invalid_input', details: [1] });
    if (input.exit) process.exit(3);
    return input.result;
  })();
  if (input.exit) process.exit(3);
  if (input.error) throw Object.assign(new Error(input.error), { code: input.code });
  if (input.ms) await wait();
  return input.give ? eval('(' + input.give + ')') : input;`;
const SCHEMA = JSON.stringify({ type: 'object', properties: { n: { type: 'number' } }, required: ['n'] });

function response(id: string, statusCode = '', headers: object = {}): FlowNode {
  return node(id, 'http response', [], { statusCode, headers });
}

/** A collector that leads to a stream response with both outputs: in the flow that is not compiled, by another node. */
function toStream(at: string, properties: Properties): FlowNode[] {
  const direct = at.startsWith('c');
  return [
    collector(`${at}collect`, direct ? `${at}out` : `${at}between`, `${at}out`, {
      results: 'parts',
      errorPayload: 'keep',
    }),
    ...(direct ? [] : [func(`${at}between`, 'return msg;', `${at}out`)]),
    streamOut(`${at}out`, properties),
  ];
}

/** The kinds of endpoints: what stands behind the HTTP-in node, with ids that begin with `at`. */
export const KINDS: Readonly<Record<string, (at: string) => FlowNode[]>> = {
  '/plain': (at) => [stage(`${at}first`, DOES, `${at}out`), response(`${at}out`)],
  '/caught': (at) => [
    batcher(`${at}first`, `${at}stage`, { maxBatchSize: '8', policy: 'greedy' }),
    stage(`${at}stage`, DOES, `${at}collect`, ANY),
    collector(`${at}collect`, `${at}out`, `${at}failed`),
    response(`${at}out`, '201', { 'X-Own': 'yes' }),
    response(`${at}failed`, '', { 'X-Failed': 'yes' }),
  ],
  '/kept': (at) => [
    stage(`${at}first`, DOES, `${at}second`, ANY),
    stage(`${at}second`, "if (input.late) throw new Error('late'); return input;", `${at}collect`),
    collector(`${at}collect`, `${at}out`, `${at}failed`, { errorPayload: 'keep' }),
    response(`${at}out`, '', { 'Content-Type': 'application/vnd.own' }),
    response(`${at}failed`, '418', { 'content-type': 'text/plain' }),
  ],
  '/checked': (at) => [
    stage(`${at}first`, 'return input;', `${at}collect`, { inputSchema: SCHEMA }),
    collector(`${at}collect`, `${at}out`, `${at}failed`),
    response(`${at}out`, '204'),
    response(`${at}failed`),
  ],
  '/parts': (at) => [
    stage(`${at}first`, DOES, `${at}collect`, ANY),
    collector(`${at}collect`, `${at}out`, `${at}failed`, { results: 'parts' }),
    response(`${at}out`, '201', { 'X-Own': 'yes' }),
    response(`${at}failed`, '', { 'X-Failed': 'yes' }),
  ],
  '/bytes': (at) => [
    stage(`${at}first`, DOES, `${at}collect`, ANY),
    collector(`${at}collect`, `${at}out`, [], { results: 'parts' }),
    response(`${at}out`, '', { 'Content-Type': 'text/plain', 'Cache-Control': 'no-store' }),
  ],
  '/sse': (at) => [
    stage(`${at}first`, DOES, `${at}collect`, ANY),
    // Parts are passed on to a stream response without being asked for.
    collector(`${at}collect`, `${at}out`, `${at}failed`),
    streamOut(`${at}out`, { event: 'token' }),
    response(`${at}failed`, '', { 'X-Failed': 'yes' }),
  ],
  '/openai': (at) => [stage(`${at}first`, DOES, `${at}collect`, ANY), ...toStream(at, { format: 'openai' })],
  '/jsonl': (at) => [stage(`${at}first`, DOES, `${at}out`, ANY), streamOut(`${at}out`, { format: 'jsonl' })],
  '/raw': (at) => [stage(`${at}first`, DOES, `${at}collect`, ANY), ...toStream(at, { format: 'raw' })],
  // Behind the function node of the pair, Node-RED copies the message and gathers the copies.
  '/gathered': (at) => [
    junction(`${at}first`, [`${at}a`, `${at}b`]),
    stage(`${at}a`, DOES, `${at}gather`),
    stage(`${at}b`, 'return typeof input;', `${at}gather`),
    gather(`${at}gather`, `${at}out`, `${at}failed`),
    response(`${at}out`, '201', { 'X-Own': 'yes' }),
    response(`${at}failed`, '', { 'X-Failed': 'yes' }),
  ],
  '/switched': (at) => [
    node(`${at}first`, 'switch', [`${at}a`, `${at}b`], {
      ...{ property: 'payload.n', propertyType: 'msg', checkall: 'true', repair: false, outputs: 2 },
      rules: [{ t: 'eq', v: '1', vt: 'num' }, { t: 'else' }],
    }),
    stage(`${at}a`, "return 'one';", `${at}collect`),
    stage(`${at}b`, DOES, `${at}collect`),
    collector(`${at}collect`, `${at}out`, `${at}failed`),
    response(`${at}out`),
    response(`${at}failed`, '', { 'X-Failed': 'yes' }),
  ],
  '/batched': (at) => [
    stage(`${at}first`, 'return [];', `${at}out`, { source: 'inline', predict: 'batch' }),
    response(`${at}out`),
  ],
};

function drawn(kind: string): FlowNode[] {
  const make = KINDS[kind] as (at: string) => FlowNode[];
  return [
    httpIn(`c${kind} in`, `/c${kind}`, `c${kind} first`),
    ...make(`c${kind} `),
    httpIn(`f${kind} in`, `/f${kind}`, `f${kind} pass`),
    func(`f${kind} pass`, 'return msg;', `f${kind} first`),
    ...make(`f${kind} `),
  ];
}

export function flows(more: Properties = {}): FlowNode[] {
  const limits: Properties = { maxPayloadMb: '0.15', timeoutMs: '20000', listen: '127.0.0.1:0' };
  return [TAB, runtime('runtime', { ...limits, ...more }), ...Object.keys(KINDS).flatMap(drawn)];
}

/** The headers that a client could depend on. */
const HEADERS = [
  ...[
    'content-type',
    'content-length',
    'retry-after',
    'x-request-id',
    'x-own',
    'x-failed',
    'vary',
    'allow',
    'x-should-retry',
    'www-authenticate',
  ],
  ...['transfer-encoding', 'cache-control', 'x-accel-buffering'],
];

export interface Asked {
  readonly headers: Record<string, string>;
  readonly body: Buffer;
  readonly method?: string;
  readonly kind?: string;
}

function told({ status, headers, bytes }: Answer): object {
  const kept = HEADERS.flatMap((name) => (headers[name] === undefined ? [] : [[name, headers[name]]]));
  // Names of stages and process ids differ.
  const body = bytes
    .toString('latin1')
    .replaceAll('c/', 'f/')
    .replace(/\bpid \d+/g, 'pid')
    .replaceAll(/"created":\d+/g, '"created":0');
  return { status, headers: Object.fromEntries(kept), body };
}

/** Whether only a flow can read a body, so that the engine refuses it. */
function needsFlow({ 'Content-Type': type = '' }: Record<string, string>, kind: string): boolean {
  return /utf-(?:16|32)/.test(type) || (type.includes('urlencoded') && kind === '/caught');
}

/**
 * Asserts that the flow, the compiled endpoint and the engine's listener answer a request alike.
 * @returns the status
 */
export async function answeredAlike(
  at: { readonly red: string; readonly engine: string },
  { headers, body, method = 'POST', kind = '/plain' }: Asked,
  about: string,
): Promise<number> {
  const given = { 'X-Request-Id': 'same', ...headers };
  const ask = (url: string): Promise<Answer> => CALLERS['node:http'](`${url}${kind}`, { ...given }, body, method);
  // The stage of the compiled endpoint runs one request after the other.
  const inTurn = async (): Promise<Answer[]> => [await ask(`${at.red}/c`), await ask(`${at.engine}/c`)];
  const [first, rest] = await Promise.all([ask(`${at.red}/f`), inTurn()]);
  const answers = [first, ...rest];
  const [flow, compiled, listened] = answers.map(told);
  assert.deepEqual(compiled, flow, about);
  if (needsFlow(headers, kind)) assert.equal(answers[2]?.status, 415, about);
  else assert.deepEqual(listened, compiled, `${about}, at the engine`);
  return (answers[0] as Answer).status;
}
