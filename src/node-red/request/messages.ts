/** What a pipeline writes into messages: results, timings, errors. And the answer where no flow is left to give it. */
import type { Node, NodeAPI, NodeMessage, NodeMessageInFlow } from 'node-red';
import { systemClock } from '../../core/clock.ts';
import type { ModeletError } from '../../core/errors.ts';
import type { StageTiming } from '../../core/model.ts';
import type { DirectAnswer } from '../deploy/endpoints.ts';
import { textForClient } from '../http/client-text.ts';
import type { HttpResponse } from '../http/http-types.ts';
import { enterRequest, type Headers } from './request-id.ts';

/** Node-RED's `done` of a received message. */
export type Done = (error?: Error) => void;

/** `msg.modelet`. Later passes of the same message append to it. */
export interface ModeletTrace {
  requestId: string;
  /** The process of Node-RED that the times below are of. */
  process: string;
  /** Number of the present way through a pipeline: a request may have several, also at the same time. */
  pass: number;
  /** From the first pipeline node to now, in ms. */
  totalMs: number;
  gateMs: number;
  /** What each stage has cost; `worker` is -1 where no run was made for it, and `cache` says why. */
  stages: (Omit<StageTiming, 'stage'> & { readonly name: string })[];
  /** When the request began and must end, on the machine's monotonic clock in ms. */
  startedAt: number;
  deadline?: number;
  /** What it holds of the gates that have admitted it; see leases.ts. */
  leases?: readonly string[];
  /** Of a message that a durable gate has sent: which item it is, and which attempt at it, from 1. */
  job?: { readonly id: string; readonly attempt: number };
  /** The value that the failing stage was given. */
  input?: unknown;
}

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
  /** What is wrong in particular: of a schema's check, `[{path, message, keyword}]`. */
  readonly details?: unknown;
}

export type PipelineMessage = NodeMessageInFlow & {
  modelet?: ModeletTrace;
  error?: ErrorInfo;
  /** What `error` was before a Catch node wrote its own. */
  _error?: ErrorInfo;
  statusCode?: number;
  headers?: Record<string, string>;
  req?: { readonly headers?: Headers; readonly originalUrl?: string };
  res?: { readonly _res?: HttpResponse };
};

/** Marks errors that a pipeline node has set, so that a later success may remove them and nobody else's. */
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

/** Removes the error that a pipeline node has set, with its status; nobody else's. */
export function forgetError(msg: PipelineMessage): void {
  const { error, _error: before } = msg;
  // What a Catch node has got is ours under Node-RED's own account of the same failure.
  const caught = before?.source?.id === error?.source?.id && isOurs(msg, before);
  if (!caught && !isOurs(msg, error)) return;
  if (caught) delete msg._error;
  delete msg.error;
  delete msg.statusCode;
  if (msg.headers) delete msg.headers['Retry-After'];
}

/** Clones made by wires and Catch nodes lose the mark, but carry the request's own number in both places. */
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

/** Writes `msg.error` and `msg.statusCode`; both ways to a handler begin with it. */
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
  return info;
}

/** Sends by a node, as Node-RED's own types would have it. @param messages by output */
export function sendFrom(node: Node, messages: readonly (object | null)[]): void {
  node.send([...messages] as NodeMessage[]);
}

/** Does what may make Node-RED clone the message: where it cannot, it throws and has taken `req` and `res` off it. */
export function keepingClient(msg: PipelineMessage, act: () => void): void {
  const { req, res } = msg as { req?: unknown; res?: unknown };
  try {
    act();
  } catch (thrown) {
    Object.assign(msg, req === undefined ? {} : { req }, res === undefined ? {} : { res });
    throw thrown;
  }
}

/** What a client may see of an error: what is wrong in particular only where that is about what it sent. */
export function errorBody({ code, message, stage, requestId, details }: Omit<ErrorInfo, 'source'>): object {
  const own = code === 'invalid_input' && details !== undefined ? { details } : {};
  return { error: { code, message: textForClient(code, message), stage, requestId, ...own } };
}

/** Responses that a flow may have begun with the first part of a result. */
const begun: WeakSet<HttpResponse> = new WeakSet();

/** The flow has been given what it may begin the client's response with, and will be given more. */
export function willAnswer(msg: PipelineMessage): void {
  if (msg.res?._res) begun.add(msg.res._res);
}

/** Answers an HTTP client as the HTTP response node would have that its result did not reach. */
export function answerWithResult(msg: PipelineMessage, payload: unknown, answer: DirectAnswer): void {
  const response = msg.res?._res;
  if (!response || response.headersSent || response.destroyed) return;
  for (const [name, value] of Object.entries({ ...msg.headers, ...answer.headers })) response.set(name, value);
  response.status(answer.statusCode ?? msg.statusCode ?? 200);
  if (payload !== null && typeof payload === 'object' && !Buffer.isBuffer(payload)) response.json(payload);
  else response.send(typeof payload === 'number' ? String(payload) : payload);
}

/** Answers an HTTP request whose way through the flow is gone: a client must never hang. Ends one that has been begun. */
export function answerDirectly(msg: PipelineMessage, error: ModeletError, requestId: string): void {
  const response = msg.res?._res;
  if (!response || response.destroyed) return;
  const answer = (): void => {
    if (response.headersSent) {
      if (begun.has(response) && !response.writableEnded) response.end();
      return;
    }
    writeAnswer(response, error, requestId);
  };
  if (!begun.has(response)) {
    answer();
    return;
  }
  // Parts that Node-RED is about to deliver go first. What the flow writes later is lost, and must not end Node-RED.
  response.on('error', () => {});
  setImmediate(answer);
}

/** Answers a request that no flow has got. */
export function answerError(headers: Headers, response: HttpResponse, error: ModeletError): void {
  writeAnswer(response, error, enterRequest(headers, response));
}

function writeAnswer(response: HttpResponse, error: ModeletError, requestId: string): void {
  response.status(error.statusCode);
  if (error.retryAfterSeconds !== undefined) response.set('Retry-After', String(error.retryAfterSeconds));
  const { code, message, stage, details } = error;
  response.json(errorBody({ code, message, stage, requestId, details }));
}
