/**
 * Messages of a pipeline: continues `msg.modelet`, reads from a message what a request needs, and writes results, timings
 * and errors.
 */
import type { Node, NodeAPI, NodeMessage, NodeMessageInFlow } from 'node-red';
import type { RuntimeConfig } from '../../config/compile.ts';
import { systemClock } from '../../core/clock.ts';
import { asModeletError, type ErrorCode, isLasting, ModeletError } from '../../core/errors.ts';
import type { StageTiming } from '../../core/model.ts';
import type { GatherReport } from '../../core/routes/gather.ts';
import { SHOULD_RETRY } from '../../http/answer.ts';
import { enterRequest, type Headers, PROCESS_TAG, parseTimeout } from '../../http/request-head.ts';
import type { HttpResponse } from '../http/http-types.ts';

/** Node-RED's `done` of a received message. */
export type Done = (error?: Error) => void;

/** The content of `msg.modelet`. Later passes of the same message append to it. */
export interface ModeletTrace {
  requestId: string;
  /** Tag of the Node-RED process whose clock gave the times below. */
  process: string;
  /** Number of the current pass through a pipeline. A request may make several passes, even at the same time. */
  pass: number;
  /** Time since the first pipeline node, in ms. */
  totalMs: number;
  gateMs: number;
  /** Timings of each stage. `worker` is -1 if no worker ran for the request; `cache` says why. */
  stages: (Omit<StageTiming, 'stage'> & { readonly name: string })[];
  /** Start time and `deadline` of the request, on the machine's monotonic clock in ms. */
  startedAt: number;
  deadline?: number;
  /** Leases of gates that have admitted the message; see gate-port.ts. */
  leases?: readonly string[];
  /** Item id and attempt (counted from 1) of a message that a durable gate has sent. */
  job?: { readonly id: string; readonly attempt: number };
  /**
   * The nodes that have gathered branches of the message, by id: how often, and the number of stages that the message
   * had passed at the last time.
   */
  gathers?: GatherTraces;
  /** The value that the failing stage received. */
  input?: unknown;
  /** Options of the flow for the known models that the message passes. */
  options?: unknown;
}

export type GatherTraces = Readonly<Record<string, { readonly times: number; readonly stages: number }>>;

export interface ErrorInfo {
  readonly code: string;
  readonly message: string;
  readonly stage: string | undefined;
  readonly requestId: string;
  readonly source: {
    readonly id: string;
    readonly type: string;
    readonly name: string | undefined;
    readonly count: number;
  };
  readonly stack?: string;
  /** Details of the error; for a schema check `[{path, message, keyword}]`. */
  readonly details?: unknown;
}

export type PipelineMessage = NodeMessageInFlow & {
  modelet?: ModeletTrace;
  error?: ErrorInfo;
  /** The outcome of each branch, from a node that gathers them. */
  branches?: object;
  /** The previous `error`, which Node-RED moves here when it writes its own for a Catch node. */
  _error?: ErrorInfo;
  statusCode?: number;
  headers?: Record<string, string>;
  req?: { readonly headers?: Headers; readonly originalUrl?: string };
  res?: { readonly _res?: HttpResponse };
};

let lastPass = 0;

/** Starts or continues a message's trace. A message that comes back keeps its request id and deadline. */
export function continueTrace(msg: PipelineMessage, deadline: number): ModeletTrace {
  const pass = nextPass();
  const known = msg.modelet;
  // Times from another process mean nothing on this process's clock.
  if (known?.process === PROCESS_TAG && typeof known.requestId === 'string' && Array.isArray(known.stages)) {
    // A copy, because a function node or a split may have made several messages that share the object.
    msg.modelet = { ...known, pass, ...lastTimings(known) };
    return msg.modelet;
  }
  const trace = newTrace(enterRequest(msg.req?.headers, msg.res?._res), deadline, pass);
  // A flow may have set them before the first stage.
  msg.modelet = known?.options === undefined ? trace : { ...trace, options: known.options };
  return msg.modelet;
}

/** Most timings of earlier passes. A message may go round in a flow for as long as Node-RED runs. */
const MOST_TIMINGS = 1000;

/** Returns copies of the last timings, and of the places of the nodes that gathered among them. */
function lastTimings({ stages, gathers = {} }: ModeletTrace): Pick<ModeletTrace, 'stages' | 'gathers'> {
  const last = stages.slice(-MOST_TIMINGS);
  const dropped = stages.length - last.length;
  if (dropped === 0) return { stages: last };
  const moved = Object.entries(gathers).map(([id, at]) => [id, { ...at, stages: at.stages - dropped }] as const);
  return { stages: last, gathers: Object.fromEntries(moved) };
}

/** Starts the trace of a request that enters its first pipeline. */
export function newTrace(requestId: string, deadline: number, pass: number = nextPass()): ModeletTrace {
  return {
    requestId,
    process: PROCESS_TAG,
    pass,
    totalMs: 0,
    gateMs: 0,
    stages: [],
    startedAt: systemClock.now(),
    ...(deadline === Number.POSITIVE_INFINITY ? {} : { deadline }),
  };
}

function nextPass(): number {
  lastPass += 1;
  return lastPass;
}

/** Errors that a pipeline node has set. A later success removes these and no others. */
const setByPipeline: WeakSet<object> = new WeakSet();

export function writeValue(RED: NodeAPI, msg: PipelineMessage, property: string, value: unknown): void {
  if (property === 'payload') msg.payload = value;
  else RED.util.setMessageProperty(msg, property, value, true);
}

export function writeResult(RED: NodeAPI, msg: PipelineMessage, property: string, value: unknown): void {
  writeValue(RED, msg, property, value);
  forgetError(msg);
  if (msg.modelet) delete msg.modelet.input;
}

/** Removes an error that a pipeline node has set, with its status. Leaves errors of other nodes. */
export function forgetError(msg: PipelineMessage): void {
  const ours = caughtError(msg);
  if (!ours && !isOurs(msg, msg.error)) return;
  if (ours) delete msg._error;
  delete msg.error;
  delete msg.statusCode;
  for (const name of ['Retry-After', SHOULD_RETRY]) if (msg.headers) delete msg.headers[name];
}

/**
 * Returns the error that a pipeline node has set and a Catch node has handed over. For the Catch node, Node-RED has written
 * its own error for the same failure, and moved ours to `_error`.
 */
export function caughtError(msg: PipelineMessage): ErrorInfo | undefined {
  const { error, _error: before } = msg;
  return before?.source?.id === error?.source?.id && isOurs(msg, before) ? before : undefined;
}

/** Clones for wires and Catch nodes are not in `setByPipeline`, but error and trace have the same request id. */
function isOurs(msg: PipelineMessage, error: ErrorInfo | undefined): boolean {
  if (!error) return false;
  return setByPipeline.has(error) || (error.requestId !== undefined && error.requestId === msg.modelet?.requestId);
}

export function appendTimings(
  trace: ModeletTrace,
  timings: readonly StageTiming[],
  nameOf: (ref: number) => string,
): void {
  for (const { stage, ...timing } of timings) trace.stages.push({ name: nameOf(stage), ...timing });
  trace.totalMs = systemClock.now() - trace.startedAt;
}

/** Notes that a node has gathered. Its entry moves to the end: the last is the node that gathered last. */
export function withGather(traces: GatherTraces, id: string, stages: number): GatherTraces {
  const { [id]: before, ...others } = traces;
  return { ...others, [id]: { times: (before?.times ?? 0) + 1, stages } };
}

/**
 * Notes in a message what nodes that gather branches did with it inside the engine.
 * @param before number of stages that the message had passed before
 */
export function noteGathers(
  msg: PipelineMessage,
  { gathered, branches }: GatherReport,
  before: number,
  nodeOf: (ref: number) => string | undefined,
): void {
  msg.branches = branches;
  const trace = msg.modelet;
  for (const { node, passed } of trace ? gathered : []) {
    const id = nodeOf(node);
    if (trace && id !== undefined) trace.gathers = withGather(trace.gathers ?? {}, id, before + passed);
  }
}

/** Writes `msg.error`, `msg.statusCode` and `Retry-After`, for a collector and for Catch nodes alike. */
export function writeError(
  msg: PipelineMessage,
  error: ModeletError,
  stage: string | undefined,
  failing: Node,
): ErrorInfo {
  const trace = msg.modelet;
  const previous = msg.error?.source;
  const info: ErrorInfo = {
    code: error.code,
    message: error.message,
    stage,
    requestId: trace?.requestId ?? '',
    source: {
      id: failing.id,
      type: failing.type,
      name: failing.name,
      count: previous?.id === failing.id ? previous.count + 1 : 1,
    },
    ...(error.stack === undefined ? {} : { stack: error.stack }),
    ...(error.details === undefined ? {} : { details: error.details }),
  };
  setByPipeline.add(info);
  msg.error = info;
  msg.statusCode = error.statusCode;
  if (error.retryAfterSeconds !== undefined) {
    msg.headers = { ...msg.headers, 'Retry-After': String(error.retryAfterSeconds) };
  }
  if (isLasting(error.code)) msg.headers = { ...msg.headers, [SHOULD_RETRY]: 'false' };
  return info;
}

/**
 * Sends messages from a node. Where Node-RED will clone them for a second wire, a clone is tried before: it sends the first
 * on at once, and a message that it then cannot clone would be both delivered and failed.
 * @param messages one, several or none for each output
 * @throws Node-RED's error if it cannot clone a message; no node gets any then
 */
export function sendFrom(RED: NodeAPI, node: Node, messages: readonly (object | readonly object[] | null)[]): void {
  const { wires } = node as Node & { readonly wires: readonly (readonly string[])[] };
  const all = messages.map((sent) => [sent ?? []].flat() as PipelineMessage[]);
  const deliveries = all.reduce((sum, sent, output) => sum + sent.length * (wires[output]?.length ?? 0), 0);
  if (deliveries > 1) for (const msg of all.flat()) keepingClient(msg, () => void RED.util.cloneMessage(msg));
  node.send([...messages] as NodeMessage[]);
}

/** Runs `act`, which clones the message. If that fails, restores the `req` and `res` that Node-RED removed. */
export function keepingClient(msg: PipelineMessage, act: () => void): void {
  const { req, res } = msg as { req?: unknown; res?: unknown };
  try {
    act();
  } catch (thrown) {
    Object.assign(msg, req === undefined ? {} : { req }, res === undefined ? {} : { res });
    throw thrown;
  }
}

/** Sends a message along the first output of a node. Returns the error if Node-RED cannot clone it for a second wire. */
export function sendAlong(RED: NodeAPI, node: Node, msg: PipelineMessage, otherwise: ErrorCode): ModeletError | null {
  try {
    sendFrom(RED, node, [msg, null]);
    return null;
  } catch (thrown) {
    return asModeletError(thrown, otherwise);
  }
}

export type TimeLimits = Pick<RuntimeConfig, 'timeoutMs' | 'flowTimeoutMs'>;

const LARGEST_PRIORITY = 2 ** 31 - 1;

/**
 * Returns the time limit in ms; 0: no limit. `msg.timeout`, else the header `timeout` of an HTTP request, can only
 * shorten the runtime's limit.
 */
export function timeoutOf(msg: PipelineMessage, { timeoutMs, flowTimeoutMs }: TimeLimits): number {
  const limit = msg.res ? timeoutMs : flowTimeoutMs;
  const own = numberIn(msg['timeout'] ?? timeoutHeader(msg));
  if (!(own > 0)) return limit;
  return limit === 0 ? own : Math.min(limit, own);
}

/** @throws ModeletError `bad_request` if `msg.timeout` is not set and the header `timeout` is not a positive number */
export function checkTimeout(msg: PipelineMessage): void {
  const header = timeoutHeader(msg);
  if (msg['timeout'] === undefined) parseTimeout(header);
}

/** Returns the header `timeout`, or undefined if no HTTP client waits for the request. */
function timeoutHeader({ req, res }: PipelineMessage): string | string[] | undefined {
  return res ? req?.headers?.['timeout'] : undefined;
}

export function priorityOf(msg: PipelineMessage): number {
  const priority = numberIn(msg['priority']);
  if (!Number.isFinite(priority)) return 0;
  return Math.trunc(Math.min(LARGEST_PRIORITY, Math.max(-LARGEST_PRIORITY, priority)));
}

/** Returns the value of a property; undefined also if the object that would hold the value is missing. */
export function valueIn(RED: NodeAPI, msg: NodeMessage, property: string): unknown {
  try {
    return RED.util.getMessageProperty(msg, property);
  } catch {
    return undefined;
  }
}

/** Returns a number or a numeric string as a number; NaN for any other value. */
export function numberIn(property: unknown): number {
  return typeof property === 'number' || typeof property === 'string' ? Number(property) : Number.NaN;
}

/**
 * Returns the value that a stage reads. A missing property is undefined, as in Node-RED's core nodes.
 * @throws ModeletError `invalid_input` if the object that would hold the property is missing; names the missing part
 */
export function readMessageProperty(RED: NodeAPI, msg: NodeMessage, expression: string): unknown {
  try {
    return RED.util.getMessageProperty(msg, expression);
  } catch (thrown) {
    const missing = missingPart(RED, msg, expression);
    if (missing === null) throw thrown;
    const what = /^req\.files\b/.test(missing) ? 'no file was sent' : `${missing} is missing`;
    throw new ModeletError('invalid_input', `${what}: the stage reads msg.${expression}`);
  }
}

/** Returns the first missing part of a path, for example `payload.image` of `payload.image.data`; null if none is. */
function missingPart(RED: NodeAPI, msg: NodeMessage, expression: string): string | null {
  let part: unknown = msg;
  let way = '';
  for (const key of RED.util.normalisePropertyExpression(expression, msg)) {
    if (part === undefined || part === null) return way;
    part = (part as Record<string | number, unknown>)[key as string];
    way += typeof key === 'number' ? `[${key}]` : `${way === '' ? '' : '.'}${String(key)}`;
  }
  return null;
}

/** Header with which an `http request` node marks the headers that it leaves. */
const MARK = 'x-node-red-request-node';

const OF_THE_CONNECTION: ReadonlySet<string> = new Set([
  'connection',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authorization',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  'content-length',
  'content-encoding',
  MARK,
]);

/** Removes connection headers if `http request` left them. Headers without the mark are the user's own and stay. */
export function stripConnectionHeaders(msg: PipelineMessage): void {
  const { headers } = msg;
  if (headers === null || typeof headers !== 'object' || !Object.hasOwn(headers, MARK)) return;
  const named = String(headers['connection'] ?? '').split(',');
  const stripped = new Set([...OF_THE_CONNECTION, ...named.map((name) => name.trim().toLowerCase())]);
  msg.headers = Object.fromEntries(Object.entries(headers).filter(([name]) => !stripped.has(name.toLowerCase())));
}
