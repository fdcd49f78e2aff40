/**
 * Answers about the items of a durable gate: receipts for stored messages, and replies to store orders.
 * Answers leave by the gate's second output if that is wired, else they go straight to the HTTP client.
 */
import type { Node } from 'node-red';
import { asModeletError, HTTP_STATUS, isErrorCode, ModeletError } from '../../../core/errors.ts';
import { withoutTrailing } from '../../../core/text.ts';
import { textForClient } from '../../../http/client-text.ts';
import { logFault } from '../../../node-red/log.ts';
import type { RequestContext } from '../../../node-red/request/context.ts';
import { refuse } from '../../../node-red/request/error-exit.ts';
import { type Done, type PipelineMessage, sendFrom } from '../../../node-red/request/messages.ts';
import { decodePayload } from '../../../wire/codec/codec.ts';
import { type ItemResult, isItemId } from '../../store/work-queue.ts';
import type { DurableRoom } from './durable-room.ts';
import type { KeptError } from './durable-verdict.ts';

export interface JobAnswer {
  readonly statusCode: number;
  readonly payload: object;
  readonly headers?: Readonly<Record<string, string>>;
}

/** Orders that a message can give to the store. */
export type StoreOrder = 'status' | 'cancel' | 'redrive';

const ORDERS: Readonly<Record<StoreOrder, (room: DurableRoom, jobId: unknown) => Promise<JobAnswer>>> = {
  status,
  cancel,
  redrive,
};

export function isStoreOrder(order: unknown): order is StoreOrder {
  return typeof order === 'string' && Object.hasOwn(ORDERS, order);
}

/** Carries out the order of a message and answers it. Never throws. */
export function obey(
  context: RequestContext,
  entry: Node,
  room: DurableRoom,
  order: StoreOrder,
  msg: PipelineMessage,
  done: Done,
): void {
  ORDERS[order](room, msg['jobId']).then(
    (answer) =>
      context.whenRunning(() => {
        answerFrom(context, entry.id, msg, answer);
        done();
      }),
    (thrown: unknown) => {
      const error = asModeletError(thrown, 'invalid_input');
      context.whenRunning(() => refuse(context, entry, msg, done, error));
    },
  );
}

/** Returns the answer to the client of a stored message. `Location` is the request's URL followed by the item's id. */
export function receipt(msg: PipelineMessage, id: string): JobAnswer {
  const [path = ''] = (msg.req?.originalUrl ?? '').split('?', 1);
  return {
    statusCode: 202,
    payload: { id, state: 'pending' },
    headers: { Location: `${withoutTrailing(path, '/')}/${encodeURIComponent(id)}` },
  };
}

export function answerFrom(context: RequestContext, gate: string, msg: PipelineMessage, answer: JobAnswer): void {
  const { statusCode, payload, headers = {} } = answer;
  const node = context.live.get(gate)?.node;
  if (node && context.deployment().nodes.get(gate)?.handler?.kind === 'output') {
    Object.assign(msg, { statusCode, payload, headers: { ...msg.headers, ...headers } });
    try {
      sendFrom(context.RED, node, [null, msg]);
      return;
    } catch (thrown) {
      logFault(context.RED, 'an answer could not be handed on', thrown);
    }
  }
  const response = msg.res?._res;
  if (!response || response.headersSent || response.destroyed) return;
  for (const [name, value] of Object.entries(headers)) response.set(name, value);
  response.status(statusCode).json(payload);
}

async function status(room: DurableRoom, jobId: unknown): Promise<JobAnswer> {
  const id = idIn(jobId);
  const result = await room.result(id);
  return result ? describe(id, result) : unknown(id);
}

async function cancel(room: DurableRoom, jobId: unknown): Promise<JobAnswer> {
  const id = idIn(jobId);
  const cancelled = await room.cancel(id);
  if (cancelled === 'cancelled') return { statusCode: 200, payload: { id, state: 'cancelled' } };
  const result = await room.result(id);
  // The item runs or has ended.
  return result ? { ...describe(id, result), statusCode: 409 } : unknown(id);
}

/** Puts back one dead letter, or all of them if `jobId` is undefined. */
async function redrive(room: DurableRoom, jobId: unknown): Promise<JobAnswer> {
  const redriven = await room.redrive(jobId === undefined ? null : [idIn(jobId)]);
  return { statusCode: 200, payload: { redriven } };
}

function describe(id: string, { state, result, attempts, reason }: ItemResult): JobAnswer {
  switch (state) {
    case 'pending':
    case 'running':
      return { statusCode: 202, payload: { id, state, attempts } };
    case 'done':
      return { statusCode: 200, payload: { id, state, result: result && decodePayload(result) } };
    case 'dead':
      return failure(id, state, { code: 'modelet_failed', message: reason ?? '' });
    case 'failed':
      if (!result) return { statusCode: 410, payload: { id, state: 'cancelled' } };
      return failure(id, state, decodePayload(result) as KeptError);
  }
}

function failure(id: string, state: ItemResult['state'], { code, message }: KeptError): JobAnswer {
  const statusCode = isErrorCode(code) ? HTTP_STATUS[code] : 500;
  return { statusCode, payload: { id, state, error: { code, message: textForClient(code, message) } } };
}

function unknown(id: string): JobAnswer {
  return { statusCode: 404, payload: { id, state: 'unknown' } };
}

/** Returns the item id in `msg.jobId`. @throws ModeletError `invalid_input` */
function idIn(jobId: unknown): string {
  if (typeof jobId === 'string' && isItemId(jobId)) return jobId;
  throw new ModeletError('invalid_input', 'msg.jobId must be the id of an item');
}
