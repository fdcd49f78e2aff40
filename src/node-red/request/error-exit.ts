/**
 * The way out of a request that failed: to exactly one handler, which is the collector found at deploy, else
 * Node-RED's Catch nodes. Where none takes it, an HTTP client still gets its answer.
 */
import type { Node, NodeAPI } from 'node-red';
import { systemClock } from '../../core/clock.ts';
import { asError, ModeletError } from '../../core/errors.ts';
import { Failures } from '../../observe/log/failures.ts';
import { isRefusal } from '../../observe/log/refusals.ts';
import type { LiveCollector } from '../live-nodes.ts';
import { oneLine } from '../log.ts';
import type { RequestContext } from './context.ts';
import {
  answerDirectly,
  type Done,
  errorBody,
  keepingClient,
  type ModeletTrace,
  type PipelineMessage,
  sendFrom,
  writeError,
} from './messages.ts';
import { continueTrace } from './trace.ts';

/** A message on its way out, with what is needed to end it. */
export interface Leaving {
  readonly msg: PipelineMessage;
  readonly trace: ModeletTrace;
  /** Called once, with nothing: the handler has the error already, and `done(error)` would report it again. */
  readonly done: Done;
}

/** `failingId`: the stage, batcher or gate that failed. `input`: the value that it was given. Never throws. */
export function deliverError(
  context: RequestContext,
  leaving: Leaving,
  error: ModeletError,
  failingId: string,
  input: unknown,
): void {
  try {
    keepingClient(leaving.msg, () => handOver(context, leaving, error, failingId, input));
  } catch (thrown) {
    logUndelivered(context.RED, error, thrown);
    endWithoutFlow(leaving, error);
  }
}

/** Of a node that is on no route, a paced split: to the Catch nodes, else to an HTTP client. Never throws. */
export function deliverToCatchNodes(RED: NodeAPI, failing: Node, msg: PipelineMessage, error: ModeletError): void {
  const trace = continueTrace(msg, Number.POSITIVE_INFINITY);
  try {
    keepingClient(msg, () => {
      writeError(msg, error, undefined, failing);
      toCatchNodes(failing, error, { msg, trace });
    });
  } catch (thrown) {
    logUndelivered(RED, error, thrown);
    answerDirectly(msg, error, trace.requestId);
  }
}

/** Node-RED clones what goes to a Catch node or along a second wire, and there are values that it cannot clone. */
function logUndelivered(RED: NodeAPI, { code, message }: ModeletError, thrown: unknown): void {
  const reason = `${code}: ${message}; Node-RED cannot hand it on: ${asError(thrown).message}`;
  RED.log.error(`modelet: ${oneLine(reason)}`);
}

function handOver(
  context: RequestContext,
  leaving: Leaving,
  error: ModeletError,
  failingId: string,
  input: unknown,
): void {
  const found = context.live.get(failingId);
  if (!found || context.isStopped()) {
    endWithoutFlow(leaving, error);
    return;
  }
  const { msg, trace, done } = leaving;
  const { handlers, stageNames } = context.deployment();
  trace.input = input;
  const failing = found.node;
  // A stage that cannot be used is not among those with names.
  const stage = stageNames.get(failingId) ?? (found.kind === 'stage' ? failing.name || failingId : undefined);
  error.stage ??= stage;
  const info = writeError(msg, error, stage, failing);
  const handler = handlers.get(failingId);
  const collector = handler?.kind === 'collector' ? context.live.get(handler.id) : undefined;
  if (handler?.kind === 'output') {
    msg.payload = errorBody(info);
    sendFrom(failing, [null, msg]);
  } else if (collector?.kind === 'collector') {
    if (!keepsPayload(collector)) msg.payload = errorBody(info);
    sendFrom(collector.node, [null, msg]);
  } else if (error.code !== 'dropped' || msg.res) {
    // What is dropped on purpose is counted; an event for each would flood the Catch nodes.
    toCatchNodes(failing, error, leaving);
  }
  done();
}

/** The nodes that would have sent it on are gone: only an HTTP client can still be told. */
export function endWithoutFlow(leaving: Leaving, error?: ModeletError): void {
  const reason = error ?? new ModeletError('shutting_down', 'the flow was changed or stopped');
  answerDirectly(leaving.msg, reason, leaving.trace.requestId);
  leaving.done();
}

function keepsPayload({ config }: LiveCollector): boolean {
  return !(config instanceof ModeletError) && config.errorPayload === 'keep';
}

interface FlowOfNode {
  handleError?(node: Node, error: Error, msg: object): boolean;
}

function toCatchNodes(failing: Node, error: ModeletError, { msg, trace }: Omit<Leaving, 'done'>): void {
  // node.error() does the same but does not say whether a Catch node took it.
  const flow = (failing as unknown as { _flow?: FlowOfNode })._flow;
  if (!flow?.handleError) {
    failing.error(error, msg);
    return;
  }
  // Node-RED adds one to the count it finds, to stop a message that fails at the same node for ever.
  if (msg.error) msg.error = { ...msg.error, source: { ...msg.error.source, count: msg.error.source.count - 1 } };
  if (flow.handleError(failing, error, msg)) return;
  // Where the client hears of a refusal, the runtime's log tells how many there were.
  if (!msg.res || !isRefusal(error.code)) failuresOf(failing).note(error.code, `${error.code}: ${error.message}`);
  answerDirectly(msg, error, trace.requestId);
}

/** What a node has told of failures, until a deploy replaces it. */
const told: WeakMap<Node, Failures> = new WeakMap();

function failuresOf(failing: Node): Failures {
  const known = told.get(failing);
  if (known) return known;
  const failures = new Failures(systemClock, (line) => failing.error(oneLine(line)));
  told.set(failing, failures);
  return failures;
}

/** Answers a message that has no usable route, the way any other error is answered. */
export function refuse(
  context: RequestContext,
  entry: Node,
  msg: PipelineMessage,
  done: Done,
  error: ModeletError,
): void {
  const trace = continueTrace(msg, Number.POSITIVE_INFINITY);
  deliverError(context, { msg, trace, done }, error, entry.id, msg.payload);
}
