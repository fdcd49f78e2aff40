/** Makes the body of an HTTP answer. */
import type { AnswerForm } from './accept.ts';
import { MSGPACK_TYPE } from './media-type.ts';
import { jsonable } from './values/jsonable.ts';
import { encodeMsgpack } from './values/msgpack.ts';

export interface AnswerBody {
  readonly contentType: string;
  readonly body: string | Buffer;
}

/**
 * Encodes a value in the given form.
 * @throws ModeletError `modelet_failed` for a value that msgpack cannot hold; Error for one that JSON cannot hold.
 */
export function answerBody(form: Exclude<AnswerForm, 'usual'>, value: unknown): AnswerBody {
  if (form === 'msgpack') return { contentType: MSGPACK_TYPE, body: encodeMsgpack(value) };
  return { contentType: 'application/json; charset=utf-8', body: JSON.stringify(jsonable(value)) ?? 'null' };
}
