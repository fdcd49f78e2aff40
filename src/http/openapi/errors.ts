/** Describes the errors that an endpoint may answer with, one response per HTTP status. */
import { ERROR_CODES, type ErrorCode, HTTP_STATUS } from '../../core/errors.ts';
import type { Components } from './components.ts';
import type { ApiEndpoint, JsonObject } from './endpoint.ts';

/** Text that follows "the answer has this code where ...". */
const WHEN: Readonly<Record<ErrorCode, string>> = {
  invalid_input: 'the input is not what the model takes; `details` has what is wrong with it',
  bad_request: 'the body is not what its `Content-Type` says, or `timeout` is no positive number',
  payload_too_large: 'the body is larger than is taken',
  unsupported_media: 'the body is of a media type that is not taken',
  capacity_exceeded: 'too many requests wait already; try again after `Retry-After`',
  dropped: 'the request was dropped in favour of newer or more important ones, or had waited too long',
  unauthorized: 'it bears no key, or an unknown key',
  forbidden: 'its key is not for this path',
  rate_limited: 'its key has sent too many; try again after `Retry-After`',
  gate_refused: 'there is no capacity for it now; try again after `Retry-After`',
  deadline_exceeded: 'it could not be answered in time',
  cancelled: 'the client went away',
  modelet_failed: 'the model failed',
  bad_batch_length: 'the model did not answer each request of a batch',
  worker_lost: 'the process that ran it died',
  engine_lost: 'the engine died; try again after `Retry-After`',
  stage_unavailable: 'no process that could run it starts',
  shutting_down: 'the server stops, or the pipeline was changed',
  store_unavailable: 'what stores requests cannot be used',
  config_invalid: 'the pipeline cannot be used as it is configured',
  protocol_error: 'something between the processes went wrong',
};

const OF_KEYS: ReadonlySet<ErrorCode> = new Set(['unauthorized', 'forbidden', 'rate_limited']);

/** Returns the error responses by HTTP status. */
export function errorResponses(
  { gates, needsKey }: Pick<ApiEndpoint, 'gates' | 'needsKey'>,
  hasBody: boolean,
  components: Components,
): Record<string, JsonObject> {
  const codes = ERROR_CODES.filter((code) => {
    // The client is gone and never sees this answer.
    if (code === 'cancelled') return false;
    if (OF_KEYS.has(code)) return needsKey;
    if (code === 'unsupported_media') return hasBody;
    if (code === 'gate_refused') return gates !== 'none';
    return code !== 'store_unavailable' || gates === 'durable';
  });
  const statuses = [...new Set(codes.map((code) => HTTP_STATUS[code]))].sort((one, other) => one - other);
  return Object.fromEntries(
    statuses.map((status) => {
      const response = errorResponse(
        codes.filter((code) => HTTP_STATUS[code] === status),
        components,
      );
      return [String(status), components.refer('responses', `Error${status}`, response)];
    }),
  );
}

function errorResponse(codes: readonly ErrorCode[], components: Components): JsonObject {
  const schema = components.refer('schemas', 'Error', ERROR_BODY);
  const lines = codes.map((code) => `- \`${code}\`: ${WHEN[code]}`);
  return {
    description: ['The `code` says why:', '', ...lines].join('\n'),
    headers: {
      'X-Request-Id': components.refer('headers', 'X-Request-Id', REQUEST_ID_HEADER),
      ...(codes.some((code) => MAY_SAY_WHEN.has(code))
        ? { 'Retry-After': components.refer('headers', 'Retry-After', RETRY_AFTER) }
        : {}),
    },
    content: { 'application/json': { schema }, 'application/msgpack': { schema } },
  };
}

/** Errors that may have a `Retry-After` header. */
const MAY_SAY_WHEN: ReadonlySet<ErrorCode> = new Set([
  'rate_limited',
  'capacity_exceeded',
  'gate_refused',
  'engine_lost',
  'stage_unavailable',
]);

export const REQUEST_ID_HEADER: JsonObject = {
  description: 'Identifies the request: the id that it came with, or a new id.',
  schema: { type: 'string' },
};

const RETRY_AFTER: JsonObject = {
  description: 'Seconds after which to try again, where that is known.',
  schema: { type: 'integer', minimum: 0 },
};

export const ERROR_BODY: JsonObject = {
  type: 'object',
  required: ['error'],
  properties: {
    error: {
      type: 'object',
      required: ['code', 'message'],
      properties: {
        code: { type: 'string', enum: ERROR_CODES },
        message: { type: 'string', description: 'For people.' },
        stage: { type: 'string', description: 'Of the pipeline, where it failed.' },
        requestId: { type: 'string' },
        details: {
          description: 'What is wrong with the input: of a JSON Schema, where and which rule.',
          anyOf: [
            {
              type: 'array',
              items: {
                type: 'object',
                properties: {
                  path: { type: 'string', description: 'JSON pointer into the input.' },
                  message: { type: 'string' },
                  keyword: { type: 'string' },
                },
              },
            },
            true,
          ],
        },
      },
    },
  },
};
