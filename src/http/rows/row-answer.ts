/**
 * Answers rows in the order of their request: `{"result": ...}` or `{"error": {...}}` for each, as one body. Or in lines as
 * the rows settle: `{"index": 0, "result": ...}` or `{"index": 1, "error": {...}}`, and at last
 * `{"done": {"rows": 2, "failed": 1}}`.
 */
import { asModeletError, type ErrorCode, isLasting, type ModeletError } from '../../core/errors.ts';
import type { Outcome, Payload } from '../../core/model.ts';
import type { Settlement } from '../../core/routes/route.ts';
import { decodePayload } from '../../wire/codec/codec.ts';
import { type AnswerBody, JSON_UTF8, writeAnswer } from '../answer.ts';
import { errorBody } from '../client-text.ts';
import type { HttpCall } from '../exchange.ts';
import { type AnswerForm, JSON_TYPE, MSGPACK_TYPE, typesNamed } from '../request-head.ts';
import { nameStage, type PreparedAnswer } from '../served-endpoint.ts';
import { ResultStream, whenRead } from '../streaming/result-stream.ts';
import { isLines, jsonOf, LINES } from '../streaming/stream-form.ts';
import { encodeMsgpack, joinMsgpack } from '../values/msgpack.ts';
import type { RowItems, RowsOutcome } from './rows.ts';

/** Header with the number of rows that have failed. */
export const FAILED_ROWS = 'X-Failed-Rows';

/** Whether a client wants lines. @param inParts whether the flow says so to a client without a preference */
export function wantsLines(accept: string | undefined, inParts: boolean): boolean {
  const first = typesNamed(accept).find((type) => isLines(type) || type === JSON_TYPE || type === MSGPACK_TYPE);
  return first === undefined ? inParts : isLines(first);
}

/** How an answer says what became of a row. Each method may throw for a value that the form cannot hold. */
interface EntryForm<Entry> {
  result(payload: Payload): Entry;
  error(body: object): Entry;
}

const AS_JSON: EntryForm<string> = {
  result: (payload) => `{"result":${jsonOf(payload)}}`,
  error: (body) => JSON.stringify(body),
};
const AS_MSGPACK: EntryForm<Buffer> = {
  result: (payload) => encodeMsgpack({ result: decodePayload(payload) }),
  error: encodeMsgpack,
};

interface RowsCall extends HttpCall {
  readonly form: AnswerForm;
  readonly inLines: boolean;
  /** Answers a request of which no row has run. */
  refuse(error: ModeletError): void;
}

export class RowAnswer implements Pick<RowItems, 'onRow' | 'onSettled'> {
  readonly #call: RowsCall;
  readonly #stream: ResultStream | null;
  readonly pace: RowItems['pace'];
  /** Results that no answer can hold, by row. */
  readonly #unwritten: Map<number, ModeletError> = new Map();
  #failed = 0;

  constructor(call: RowsCall) {
    const { inLines, response, requestId } = call;
    this.#call = call;
    const answer = ofRows(call.endpoint.answer);
    this.#stream = inLines ? new ResultStream(response, { requestId, answer, form: LINES, heartbeatMs: 0 }) : null;
    this.pace = inLines ? (next) => whenRead(response, next) : undefined;
  }

  onRow(row: number, settlement: Settlement): void {
    nameStage(this.#call.endpoint.stageNames, settlement);
    if (!this.#stream) return;
    const text = this.#entry(row, settlement.outcome, AS_JSON);
    this.#stream.write(`{"index":${row},${text.slice(1)}\n`);
  }

  onSettled(outcome: RowsOutcome): void {
    if (!outcome.ok) {
      if (this.#stream?.hasBegun) this.#stream.fail(errorBody(outcome.error, this.#call.requestId));
      else this.#call.refuse(outcome.error);
      return;
    }
    const rows = outcome.value;
    if (!this.#stream) this.#answer(rows);
    else this.#stream.close(`${JSON.stringify({ done: { rows: rows.length, failed: this.#failed } })}\n`);
  }

  #answer(rows: readonly Outcome<Payload>[]): void {
    const { endpoint, response, requestId, form } = this.#call;
    let body: AnswerBody;
    try {
      body = form === 'msgpack' ? this.#msgpack(rows) : this.#json(rows);
    } catch (thrown) {
      this.#call.refuse(asModeletError(thrown, 'modelet_failed'));
      return;
    }
    const errors = rows.flatMap((row, index) => (row.ok ? (this.#unwritten.get(index) ?? []) : row.error));
    const haveFailed = rows.length > 0 && errors.length === rows.length;
    const worst = largest(errors.map(({ statusCode }) => statusCode));
    const answer = haveFailed ? (endpoint.failure ?? endpoint.direct) : endpoint.answer;
    const head = {
      status: answer.statusCode ?? (haveFailed ? worst : 200),
      ...{ requestId, answer: ofRows(answer, [FAILED_ROWS, String(errors.length)]) },
      ...(haveFailed ? whenAgain(errors) : {}),
    };
    writeAnswer(response, head, body);
  }

  #json(rows: readonly Outcome<Payload>[]): AnswerBody {
    const entries = rows.map((outcome, row) => this.#entry(row, outcome, AS_JSON));
    return { contentType: JSON_UTF8, body: `[${entries.join()}]`, nosniff: true };
  }

  #msgpack(rows: readonly Outcome<Payload>[]): AnswerBody {
    const entries = rows.map((outcome, row) => this.#entry(row, outcome, AS_MSGPACK));
    return { contentType: MSGPACK_TYPE, body: joinMsgpack(entries) };
  }

  /** Returns what became of a row. A result that the form cannot hold is an error of this row alone. */
  #entry<Entry>(row: number, outcome: Outcome<Payload>, form: EntryForm<Entry>): Entry {
    const { endpoint, requestId } = this.#call;
    let error: ModeletError;
    try {
      if (outcome.ok) return form.result(outcome.value);
      error = outcome.error;
    } catch (thrown) {
      error = asModeletError(thrown, 'modelet_failed');
      error.stage ??= endpoint.stageNames.at(-1);
      endpoint.runtime.unwritten(error, endpoint.stageNames.at(-1), requestId);
      this.#unwritten.set(row, error);
    }
    this.#failed += 1;
    return form.error(errorBody(error, requestId));
  }
}

/** Returns an answer for rows: the type that a flow sets is that of one result. */
function ofRows(answer: PreparedAnswer, more: readonly string[] = []): PreparedAnswer {
  return { ...answer, headers: [...answer.headers, ...more], contentType: null };
}

/** Says whether and when the same request may succeed. */
function whenAgain(errors: readonly ModeletError[]): { retryAfterSeconds?: number; isLasting: boolean } {
  const pauses = errors.flatMap(({ retryAfterSeconds }) => retryAfterSeconds ?? []);
  const lasting = errors.every(({ code }) => isLasting(code as ErrorCode));
  return { ...(pauses.length > 0 ? { retryAfterSeconds: largest(pauses) } : {}), isLasting: lasting };
}

/** Math.max has too little stack for the rows of a large table. */
function largest(numbers: readonly number[]): number {
  return numbers.reduce((most, number) => Math.max(most, number), 0);
}
