/**
 * Delivers a failed request to exactly one handler: the one found at deploy (the collector, or the node's own error
 * output), else Node-RED's Catch nodes. If no handler takes it, the HTTP client still gets an answer.
 */
import type { Node, NodeAPI } from 'node-red';
import { systemClock } from '../../core/clock.ts';
import { asError, type ModeletError } from '../../core/errors.ts';
import { errorBody } from '../../http/client-text.ts';
import { Failures } from '../../observe/log/failures.ts';
import { isRefusal } from '../../observe/log/refusals.ts';
import type { LiveNode } from '../live-nodes.ts';
import { logAtNode, oneLine } from '../log.ts';
import { flowsChanged, type RequestContext } from './context.ts';
import { answerDirectly } from './direct-answers.ts';
import {
  continueTrace,
  type Done,
  keepingClient,
  type ModeletTrace,
  type PipelineMessage,
  sendFrom,
  writeError,
} from './messages.ts';

/** A message that leaves the pipeline, with everything needed to end it. */
export interface Leaving {
  readonly msg: PipelineMessage;
  readonly trace: ModeletTrace;
  /** Called once, without an error: the handler has the error already, and `done(error)` would report it again. */
  readonly done: Done;
  /** Called before `done` if a node that gathers branches has taken the message: its leases go on with it. */
  readonly gathered?: () => void;
}

/**
 * Delivers an error to its handler and ends the message.
 * @param failingId the stage, batcher or gate that failed
 * @param input the value that the failing node received
 */
export function deliverError(
  context: RequestContext,
  leaving: Leaving,
  error: ModeletError,
  failingId: string,
  input: unknown,
): void {
  deliver(context.RED, leaving, error, () => handOver(context, leaving, error, failingId, input));
  leaving.done();
}

/** Sends the error of a paced split, which has no route, to Catch nodes, else to the HTTP client. Never throws. */
export function deliverToCatchNodes(RED: NodeAPI, failing: Node, msg: PipelineMessage, error: ModeletError): void {
  const failed = { msg, trace: continueTrace(msg, Number.POSITIVE_INFINITY) };
  deliver(RED, failed, error, () => {
    writeError(msg, error, undefined, failing);
    toCatchNodes(RED, failing, error, failed);
  });
}

type FailedMessage = Pick<Leaving, 'msg' | 'trace'>;

/**
 * Runs `act`, which hands a failed message on. If that fails, logs why and answers the HTTP client. Node-RED clones
 * each message for a Catch node or a second wire, and some values cannot be cloned.
 */
function deliver(RED: NodeAPI, { msg, trace }: FailedMessage, error: ModeletError, act: () => void): void {
  try {
    keepingClient(msg, act);
  } catch (thrown) {
    const reason = `${error.code}: ${error.message}; Node-RED cannot hand it on: ${asError(thrown).message}`;
    const fields = { code: error.code, requestId: trace.requestId };
    RED.log.log({ ...fields, level: RED.log.ERROR, msg: `modelet: ${oneLine(reason)}` });
    answerDirectly(msg, error, trace.requestId);
  }
}

function handOver(
  context: RequestContext,
  failed: Omit<Leaving, 'done'>,
  error: ModeletError,
  failingId: string,
  input: unknown,
): void {
  const { msg, trace } = failed;
  const found = context.live.get(failingId);
  if (!found || context.isStopped()) {
    answerDirectly(msg, error, trace.requestId);
    return;
  }
  const { nodes } = context.deployment();
  trace.input = input;
  const failing = found.node;
  const stage = failingStage(context, error, found);
  error.stage ??= stage;
  const handler = nodes.get(failingId)?.handler;
  if (handler?.kind === 'join' && context.joins.failed(handler.id, msg, error, failingId)) {
    failed.gathered?.();
    return;
  }
  const info = writeError(msg, error, stage, failing);
  const collector = handler?.kind === 'collector' ? context.live.get(handler.id) : undefined;
  if (handler?.kind === 'output') {
    msg.payload = errorBody(info, info.requestId);
    sendFrom(context.RED, failing, [null, msg]);
  } else if (collector?.kind === 'collector') {
    const { errorPayload } = context.live.settings('collector', collector.node.id) ?? {};
    if (errorPayload !== 'keep') msg.payload = errorBody(info, info.requestId);
    sendFrom(context.RED, collector.node, [null, msg]);
  } else if (error.code !== 'dropped' || msg.res) {
    // The runtime counts requests that it drops on purpose; an error for each would flood the Catch nodes.
    toCatchNodes(context.RED, failing, error, failed);
  }
}

/** Returns the name of the stage that failed, which may be a version of the node's stage; undefined: no stage did. */
function failingStage(context: RequestContext, error: ModeletError, { kind, node }: LiveNode): string | undefined {
  const { nodes, stageIds } = context.deployment();
  const name = nodes.get(node.id)?.name ?? undefined;
  const isOfVersion = nodes.get(stageIds.get(error.stage ?? '') ?? '')?.base === node.id;
  if (isOfVersion || kind === 'join') return error.stage ?? name;
  // A stage with invalid settings has no name there.
  return name ?? (kind === 'stage' ? node.name || node.id : undefined);
}

/** Ends a message whose next nodes are gone: only an HTTP client can still get an answer. */
export function endWithoutFlow(leaving: Leaving, error?: ModeletError): void {
  const reason = error ?? flowsChanged();
  answerDirectly(leaving.msg, reason, leaving.trace.requestId);
  leaving.done();
}

interface FlowOfNode {
  handleError?(node: Node, error: Error, msg: object): boolean;
}

function toCatchNodes(RED: NodeAPI, failing: Node, error: ModeletError, { msg, trace }: FailedMessage): void {
  // node.error() does the same but does not say whether a Catch node took it.
  const flow = (failing as unknown as { _flow?: FlowOfNode })._flow;
  if (!flow?.handleError) {
    failing.error(error, msg);
    return;
  }
  // Node-RED increments this count to stop a message that keeps failing at the same node.
  if (msg.error) msg.error = { ...msg.error, source: { ...msg.error.source, count: msg.error.source.count - 1 } };
  if (flow.handleError(failing, error, msg)) return;
  // If the client gets the refusal as its answer, the runtime's log reports the number of refusals.
  if (!msg.res || !isRefusal(error.code)) noteUnhandled(RED, failing, error, trace.requestId);
  answerDirectly(msg, error, trace.requestId);
}

/** Failures that each node has logged. A deploy that replaces the node starts an empty record. */
const told: WeakMap<Node, Failures> = new WeakMap();

/** Logs an error of a request that no node handles. */
export function noteUnhandled(RED: NodeAPI, failing: Node, error: ModeletError, requestId: string): void {
  const failures =
    told.get(failing) ?? new Failures(systemClock, (line, fields) => logAtNode(RED, failing, line, fields));
  told.set(failing, failures);
  failures.note(error, requestId);
}

/** Refuses a message that has no usable route. The error takes the same way as any other. */
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
