/** The meaning of each error code for the author of a flow: the texts of docs/reference/errors.md. */
import type { ErrorCode } from '../../src/core/errors.ts';

export const ERROR_CAUSES: Readonly<Record<ErrorCode, { readonly cause: string; readonly remedy: string }>> = {
  unauthorized: {
    cause: 'The runtime has keys, and the HTTP request bears none of them',
    remedy: 'Send a key: `Authorization: Bearer KEY`, or `X-API-Key: KEY`',
  },
  forbidden: {
    cause: 'The key of the HTTP request is not for this path',
    remedy: 'Use another key, or add the path to the client in the `modelet-keys` node',
  },
  rate_limited: {
    cause:
      'The client has sent more requests per second, or has more open requests, than its key allows. `Retry-After` is set',
    remedy: 'Try again later; raise the limits of the client',
  },
  invalid_input: {
    cause:
      'The modelet or its schema refused this item, or the input cannot be sent to another process. Other items of the batch are answered',
    remedy: 'Send another input. `details` has the JSON pointers of what is wrong',
  },
  bad_request: {
    cause:
      'The body of an HTTP request does not match its `Content-Type`, its header `timeout` is not a positive number, or a line of a paced split is not JSON',
    remedy: 'Correct the request',
  },
  payload_too_large: {
    cause:
      'The payload is larger than `maxPayloadMb`, the results of a list are larger together, or a JSON body is larger than `apiMaxLength` of Node-RED',
    remedy: 'Raise the limit, or send less',
  },
  unsupported_media: {
    cause: 'The stage does not take the media type of the HTTP body',
    remedy: 'Send JSON or msgpack, or add the type to `mediaTypes`',
  },
  capacity_exceeded: {
    cause: 'The queue of a stage or the runtime is full. `Retry-After` is set',
    remedy: 'Try again later; add workers, larger batches or `capacity`',
  },
  dropped: {
    cause:
      'The item was dropped on purpose: `drop-oldest`, `maxAgeMs`, `msg.reset`, `drop` at a gate, or inline code that sends no message. Only a wired catch output gets it; an HTTP client is always answered',
    remedy: 'Nothing, if the drop is intended',
  },
  gate_refused: {
    cause: 'A dispatch gate is closed and set to refuse, or as many requests wait as it may hold. `Retry-After` is set',
    remedy: 'Try again later; the badge of the gate says why it is closed',
  },
  deadline_exceeded: {
    cause:
      'The time limit passed, `runTimeoutMs` ended the batch, or under overload the stage skipped a request that could not finish in time',
    remedy: 'Raise `timeoutMs`, add workers, or look for a batch that hangs',
  },
  cancelled: {
    cause: 'The HTTP client closed its connection. The request is counted, and no node gets it',
    remedy: 'Nothing',
  },
  modelet_failed: {
    cause:
      '`predict` threw (the whole batch fails), returned an `Error` (that item fails) or `undefined`, or its result breaks the output schema or cannot be sent',
    remedy: 'Read `msg.error.stack`, and correct the modelet',
  },
  bad_batch_length: {
    cause: '`predict` returned another number of results than it got inputs',
    remedy: 'Return one result per input, in the same order',
  },
  worker_lost: {
    cause: 'The worker died while it ran the item. With `retryLost`, a second worker died of it too',
    remedy: 'Read the cause in the message and the log: a crash, an exit, or memory',
  },
  engine_lost: {
    cause: 'The engine died, or was silent for 10 s and was replaced. `Retry-After` is set',
    remedy: 'Try again; read the cause in the log',
  },
  stage_unavailable: {
    cause:
      'No worker of the stage starts, or its circuit is open after five deaths within a minute. `Retry-After` may be set',
    remedy: 'Correct the cause in the message; a deploy, a changed file or *Restart workers* tries again at once',
  },
  shutting_down: {
    cause: 'Node-RED stops, or a deploy removed the flow or the way to the answer',
    remedy: 'Try again when Node-RED runs',
  },
  store_unavailable: {
    cause:
      'The file of a durable gate is full, damaged, locked, missing, replaced or not writable. The message names it',
    remedy: 'See [durable gates](../guides/durable.md#when-the-file-is-lost)',
  },
  config_invalid: {
    cause: 'A node cannot be used as it is configured or wired',
    remedy: 'Read its badge; the log has the whole message',
  },
  protocol_error: {
    cause: 'A process sent a malformed frame or payload',
    remedy: 'Restart Node-RED; if it happens again, report it',
  },
};
