/** Rows of one request as separate requests: whatever settles or cancels them in any order, the answer comes once. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { type ErrorCode, ModeletError } from '../../src/core/errors.ts';
import type { Outcome, Payload, RequestNumber } from '../../src/core/model.ts';
import type { Settlement } from '../../src/core/routes/route.ts';
import { FAILED_ROWS, RowAnswer } from '../../src/http/rows/row-answer.ts';
import { readRows } from '../../src/http/rows/row-input.ts';
import { type RowInput, Rows, type RowsRuntime } from '../../src/http/rows/rows.ts';
import { type EndpointRequest, prepareAnswer } from '../../src/http/served-endpoint.ts';
import { decodeMsgpack } from '../../src/http/values/msgpack.ts';
import { Desk, type DeskHost } from '../../src/runtime/desk/desk.ts';
import { CODEC, encodePayload } from '../../src/wire/codec/codec.ts';
import { encodeError } from '../../src/wire/codec/error-codec.ts';
import { encodeFailure } from '../../src/wire/frames/failures.ts';
import type { WireItem } from '../../src/wire/frames/frames.ts';
import { FakeClock } from '../fixtures/fake-clock.ts';

interface Batch {
  readonly rows: number;
  /** Rows that cannot be read. */
  readonly broken: readonly number[];
  readonly allOrNone: boolean;
  readonly window: number;
  readonly deadline: number;
}

type Step =
  | { readonly do: 'submit'; readonly batch: Batch }
  | { readonly do: 'answer' | 'fail' | 'find full'; readonly which: number }
  | { readonly do: 'leave'; readonly which: number }
  | { readonly do: 'advance'; readonly ms: number }
  | { readonly do: 'read' }
  | { readonly do: 'close' };

const batch: fc.Arbitrary<Batch> = fc.record({
  rows: fc.nat({ max: 7 }),
  broken: fc.uniqueArray(fc.nat({ max: 6 }), { maxLength: 2 }),
  allOrNone: fc.boolean(),
  window: fc.constantFrom(1, 2, 3, Number.POSITIVE_INFINITY),
  deadline: fc.constantFrom(5, 20, Number.POSITIVE_INFINITY),
});
const which = fc.nat({ max: 40 });
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 3, arbitrary: batch.map((one): Step => ({ do: 'submit', batch: one })) },
  { weight: 12, arbitrary: which.map((at): Step => ({ do: 'answer', which: at })) },
  { weight: 1, arbitrary: which.map((at): Step => ({ do: 'fail', which: at })) },
  { weight: 1, arbitrary: which.map((at): Step => ({ do: 'find full', which: at })) },
  { weight: 1, arbitrary: fc.nat({ max: 5 }).map((at): Step => ({ do: 'leave', which: at })) },
  { weight: 2, arbitrary: fc.nat({ max: 8 }).map((ms): Step => ({ do: 'advance', ms })) },
  { weight: 2, arbitrary: fc.constant<Step>({ do: 'read' }) },
  { weight: 1, arbitrary: fc.constant<Step>({ do: 'close' }) },
);

const CAPACITY = 10;
const HTTP = { headers: {} };

function payloadOf(text: string): Payload {
  return { codec: CODEC.json, bytes: Buffer.from(text) };
}

/** A client's request, and its rows as the desk knows them. */
interface Asked extends Batch {
  readonly request: Rows;
  readonly inputs: readonly RowInput[];
  readonly ids: readonly (RequestNumber | null)[];
  /** Rows in the order in which they went in. */
  readonly entered: number[];
  readonly told: Map<number, Outcome<Payload>>;
  readonly outcomes: Outcome<readonly Outcome<Payload>[]>[];
}

class Model {
  readonly clock = new FakeClock(0);
  /** Items in the engine. */
  readonly inside = new Map<RequestNumber, WireItem>();
  readonly settled = new Map<RequestNumber, ErrorCode | 'ok'>();
  readonly asked: Asked[] = [];
  readonly refused: ModeletError[] = [];
  /** Clients that take another row when they have read. */
  #unread: (() => void)[] = [];
  #onEnter: (id: RequestNumber) => void = () => {};
  readonly #host: DeskHost<object> = {
    entryOf: () => ({}),
    routeOf: () => 1,
    refusalOf: () => null,
    enter: (item) => {
      this.inside.set(item.id, item);
      this.#onEnter(item.id);
    },
    cancel: (id) => this.inside.delete(id),
    taken: () => {},
    onSettled: (id) => this.inside.delete(id),
    onFailed: () => {},
    onLog: (record) => assert.fail(record.message),
  };
  readonly desk: Desk<object> = new Desk(
    { capacity: CAPACITY, maxHeldBytes: 1000, barred: null },
    this.#host,
    this.clock,
  );

  run(what: Step): void {
    switch (what.do) {
      case 'submit':
        this.#submit(what.batch);
        break;
      case 'answer':
      case 'fail':
      case 'find full':
        this.#settle(what.which, what.do);
        break;
      case 'leave':
        this.asked[what.which]?.request.abandon(new ModeletError('cancelled', 'the client left'));
        break;
      case 'advance':
        this.clock.advance(what.ms);
        break;
      case 'read':
        for (const next of this.#unread.splice(0)) next();
        break;
      case 'close':
        this.desk.failAll(() => new ModeletError('shutting_down', 'closing'));
    }
    this.#check();
  }

  #submit(wanted: Batch): void {
    const inputs = Array.from({ length: wanted.rows }, (_, row): RowInput => {
      if (wanted.broken.includes(row)) return new ModeletError('invalid_input', `line ${row}`);
      return payloadOf(`[${this.asked.length},${row}]`);
    });
    const ids: (RequestNumber | null)[] = inputs.map(() => null);
    const readable = [...inputs.keys()].filter((row) => !(inputs[row] instanceof ModeletError));
    const fit = this.desk.backlog + readable.length <= CAPACITY;
    const entered: number[] = [];
    const told: Asked['told'] = new Map();
    const outcomes: Asked['outcomes'] = [];
    const runtime: RowsRuntime = {
      submit: ({ payload, patient = false, http: _, onSettled, onPart: __, ...request }: EndpointRequest) => {
        const settled: EndpointRequest['onSettled'] = (settlement) => {
          const { outcome } = settlement;
          assert.ok(!this.settled.has(id), 'a row settles once');
          this.settled.set(id, outcome.ok ? 'ok' : outcome.error.code);
          onSettled(settlement);
        };
        const shared = { gateMs: 0, entry: 'in', priority: 0, group: 0, meta: null };
        const id: RequestNumber = this.desk.submit({ ...request, ...shared, payload, patient, onSettled: settled });
        ids[inputs.indexOf(payload)] = id;
        return id;
      },
      enter: (id) => this.desk.enter(id),
      abandon: (id, error) => this.desk.abandon(id, error),
      refused: (error) => this.refused.push(error),
    };
    this.#onEnter = (id) => entered.push(ids.indexOf(id));
    const onEnter = this.#onEnter;
    const items = {
      ...{ rows: inputs, allOrNone: wanted.allOrNone, window: wanted.window },
      onRow: (row: number, { outcome }: Settlement) => {
        assert.ok(!told.has(row));
        assert.equal(outcomes.length, 0);
        told.set(row, outcome);
      },
      pace: (next: () => void) => {
        this.#unread.push(() => {
          this.#onEnter = onEnter;
          next();
        });
      },
      onSettled: (outcome: Asked['outcomes'][0]) => outcomes.push(outcome),
    };
    const deadline = this.clock.now() + wanted.deadline;
    try {
      const request = new Rows(runtime, items, { requestId: 'r', deadline, http: HTTP });
      assert.ok(fit || readable.length === 0);
      assert.deepEqual([entered, outcomes], [[], []], 'nothing goes in or comes before it begins');
      this.asked.push({ ...wanted, request, inputs, ids, entered, told, outcomes });
      request.begin();
    } catch (thrown) {
      assert.equal((thrown as ModeletError).code, 'capacity_exceeded');
      assert.ok(!fit);
      assert.deepEqual([entered, outcomes, ids.filter((id) => id !== null)], [[], [], []], 'none of them is admitted');
    }
  }

  #settle(at: number, how: 'answer' | 'fail' | 'find full'): void {
    const items = [...this.inside.values()];
    const item = items[at % items.length];
    if (item === undefined) return;
    this.inside.delete(item.id);
    const code = how === 'fail' ? 'modelet_failed' : 'capacity_exceeded';
    const failure = encodeFailure(encodeError(new ModeletError(code, 'no', { stage: 's' })), null);
    // A row is answered with its own input.
    this.desk.settle(how === 'answer' ? { ...item, ok: true } : { ...item, ok: false, payload: failure });
  }

  #check(): void {
    for (const one of this.asked) {
      const { ids, inputs, entered, window, outcomes, told } = one;
      const isOpen = (id: RequestNumber | null): boolean => id !== null && !this.settled.has(id);
      assert.ok(entered.filter((row) => isOpen(ids[row] as RequestNumber)).length <= window, 'the window holds');
      assert.deepEqual(
        entered,
        [...entered].sort((a, b) => a - b),
        'rows go in in their order',
      );
      assert.ok(outcomes.length <= 1);
      const [outcome] = outcomes;
      if (!outcome) continue;
      assert.ok(!ids.some(isOpen), 'no row is left behind');
      if (outcome.ok) {
        assert.equal(outcome.value.length, inputs.length);
        for (const [row, result] of outcome.value.entries()) {
          assert.equal(told.get(row), result);
          const input = inputs[row] as RowInput;
          if (result.ok) assert.deepEqual(result.value, input, 'each result in the place of its row');
          else if (input instanceof ModeletError) assert.equal(result.error, input);
          else assert.equal(result.error.code, this.settled.get(ids[row] as RequestNumber));
          assert.ok(!one.allOrNone || result.ok || input instanceof ModeletError);
        }
      } else this.#checkRefusal(one, outcome.error);
    }
  }

  /** A request as a whole fails for its client, for the first row that fails if none may, or if no row has found room. */
  #checkRefusal({ allOrNone, ids, told }: Asked, { code, message }: ModeletError): void {
    if (code === 'cancelled') assert.equal(message, 'the client left');
    else if (allOrNone) {
      const row = Number(/^row (\d+): /.exec(message)?.[1]);
      assert.equal(this.settled.get(ids[row] as RequestNumber), code);
    } else {
      assert.equal(code, 'capacity_exceeded');
      assert.ok(![...told.values()].some(({ ok }) => ok));
    }
  }
}

test('every row settles or is cancelled, and the answer comes once', () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 80, size: 'max' }), (steps) => {
      const model = new Model();
      for (const each of steps) model.run(each);
      model.run({ do: 'close' });
      while (model.asked.some(({ outcomes }) => outcomes.length === 0)) model.run({ do: 'read' });
      assert.deepEqual([model.desk.backlog, model.inside.size], [0, 0]);
      for (const { outcomes } of model.asked) assert.equal(outcomes.length, 1);
    }),
    { numRuns: 400 },
  );
});

test('rows that are refused in the middle are cancelled, and the caller gets the refusal', () => {
  const abandoned: RequestNumber[] = [];
  const unexpected = (): never => assert.fail('nothing goes in, and nothing is answered');
  let count = 0;
  const submit = (): RequestNumber => {
    count += 1;
    if (count === 3) throw new ModeletError('capacity_exceeded', 'the channel is full');
    return count;
  };
  const items = {
    ...{ rows: ['1', '2', '3'].map(payloadOf), allOrNone: true, window: Number.POSITIVE_INFINITY },
    onSettled: unexpected,
  };
  const abandon = (id: RequestNumber, { code }: ModeletError): void => {
    assert.equal(code, 'cancelled');
    abandoned.push(id);
  };
  const runtime = { submit, abandon, enter: unexpected, refused: unexpected };
  assert.throws(() => new Rows(runtime, items, { requestId: 'r', deadline: 1, http: HTTP }), {
    code: 'capacity_exceeded',
  });
  assert.deepEqual([abandoned, count], [[1, 2], 3]);
});

test('rows that wait have a separate memory, which one request alone may exceed', () => {
  const model = new Model();
  const large = payloadOf('1'.repeat(400));
  const results: string[] = [];
  const ask = (rows: number): Rows => {
    const runtime: RowsRuntime = {
      submit: ({ http: _, onPart: __, patient = false, ...request }) =>
        model.desk.submit({ ...request, patient, gateMs: 0, entry: 'in', priority: 0, group: 0, meta: null }),
      enter: (id) => model.desk.enter(id),
      abandon: (id, error) => model.desk.abandon(id, error),
      refused: () => {},
    };
    const onSettled = ({ ok }: { readonly ok: boolean }): unknown => results.push(`${rows} ${ok}`);
    const items = { rows: Array.from({ length: rows }, () => large), allOrNone: false, window: 1, onSettled };
    return new Rows(runtime, items, { requestId: 'r', deadline: Number.POSITIVE_INFINITY, http: HTTP });
  };
  const first = ask(4);
  first.begin();
  assert.throws(() => ask(1), { code: 'capacity_exceeded', message: /memory for payloads/ });
  first.abandon(new ModeletError('cancelled', 'the client left'));
  ask(2).begin();
  for (const _ of [1, 2]) model.run({ do: 'answer', which: 0 });
  assert.deepEqual(results, ['4 false', '2 true']);
});

test('the host of a desk hears of no end of a row that never went in', () => {
  let entry: object = {};
  const [ended, codes]: [RequestNumber[], string[]] = [[], []];
  const host: DeskHost<object> = {
    ...{ entryOf: () => entry, routeOf: () => 1, refusalOf: () => null },
    ...{ enter: () => {}, cancel: () => {}, taken: () => {}, onFailed: () => {}, onLog: () => {} },
    onSettled: (id) => ended.push(id),
  };
  const desk = new Desk({ capacity: CAPACITY, maxHeldBytes: 1000, barred: null }, host, new FakeClock());
  const id = desk.submit({
    ...{ requestId: 'r', gateMs: 0, entry: 'in', payload: payloadOf('1'), deadline: Number.POSITIVE_INFINITY },
    ...{ priority: 0, patient: true, isHeld: true, group: 0, meta: null },
    onSettled: ({ outcome }) => codes.push(outcome.ok ? 'ok' : outcome.error.code),
  });
  entry = new ModeletError('shutting_down', 'a deploy has removed the endpoint');
  desk.enter(id);
  assert.deepEqual([codes, ended, desk.backlog], [['shutting_down'], [], 0]);
});

test('a request of which very many rows have failed is answered', () => {
  const heads: { readonly status: number; readonly headers: readonly string[] }[] = [];
  const response = {
    ...{ headersSent: false, destroyed: false, end: () => {} },
    writeHead: (status: number, headers: readonly string[]) => {
      heads.push({ status, headers });
      return response;
    },
  };
  const answer = prepareAnswer({ statusCode: null, headers: {} });
  const endpoint = { stageNames: ['s'], answer, failure: null, direct: answer };
  const call = { endpoint, response, requestId: 'r', form: 'json', inLines: false, refuse: assert.fail };
  const full = new ModeletError('capacity_exceeded', 'no', { retryAfterSeconds: 2 });
  const rows = Array.from({ length: 150_000 }, () => ({ ok: false, error: full }) as const);
  new RowAnswer(call as unknown as ConstructorParameters<typeof RowAnswer>[0]).onSettled({ ok: true, value: rows });
  assert.deepEqual(
    heads.map(({ status, headers }) => [status, headers[headers.indexOf('Retry-After') + 1]]),
    [[429, '2']],
  );
});

test('the rows of an array in JSON are its elements as they are written', () => {
  const space = fc.string({ unit: fc.constantFrom(' ', '\n', '\t', '\r'), maxLength: 2 });
  const text = fc.string({ unit: fc.constantFrom('a', '"', '\\', ',', '[', ']', '{', '}', 'é', ' ') });
  const value = fc.oneof(fc.jsonValue(), text, fc.array(text), fc.dictionary(text, fc.jsonValue()));
  const element = fc.tuple(
    space,
    value.map((one) => JSON.stringify(one)),
    space,
  );
  const type = { kind: 'json', media: 'json', charset: '', isMalformed: false } as const;
  fc.assert(
    fc.property(fc.array(element), fc.boolean(), space, (elements, isMarked, around) => {
      const body = `${isMarked ? '\ufeff' : ''}${around}[${elements.map((parts) => parts.join('')).join()}${around}]${around}`;
      const read = readRows(Buffer.from(body), { format: 'json', type, most: 1000, maxBytes: 1e6 });
      const rows = read?.map((row) => (row instanceof ModeletError ? row : Buffer.from(row.bytes).toString()));
      assert.deepEqual(
        rows,
        elements.map(([, written]) => written),
      );
    }),
  );
});

test('a result that msgpack cannot hold is an error of its row alone', () => {
  const bodies: Buffer[] = [];
  const response = {
    ...{ headersSent: false, destroyed: false },
    writeHead: (status: number, headers: readonly string[]) => {
      assert.deepEqual([status, headers[headers.indexOf(FAILED_ROWS) + 1]], [200, '2']);
      return response;
    },
    end: (text: string) => bodies.push(Buffer.from(text, 'latin1')),
  };
  const answer = prepareAnswer({ statusCode: null, headers: {} });
  const unwritten: unknown[] = [];
  const runtime = { unwritten: ({ code }: ModeletError, stage: string) => unwritten.push([code, stage]) };
  const endpoint = { stageNames: ['s'], answer, failure: null, direct: answer, runtime };
  const call = { endpoint, response, requestId: 'r', form: 'msgpack', inLines: false, refuse: assert.fail };
  const encoded = (value: unknown): Payload => encodePayload(value, { blame: 'modelet_failed', maxBytes: 1e6 });
  const broken = { codec: CODEC.json, bytes: Buffer.from('{') };
  const values = [payloadOf('[1]'), encoded(2n ** 70n), broken, encoded(2n ** 63n)];
  const rows = values.map((value) => ({ ok: true, value }) as const);
  new RowAnswer(call as unknown as ConstructorParameters<typeof RowAnswer>[0]).onSettled({ ok: true, value: rows });
  const [first, second, third, last] = decodeMsgpack(bodies[0] as Buffer) as { readonly error?: ModeletError }[];
  assert.deepEqual([first, last], [{ result: [1] }, { result: 2n ** 63n }]);
  assert.match(String(second?.error?.message), /cannot be sent as msgpack: .* has more than 64 bits/);
  assert.equal(third?.error?.code, 'protocol_error');
  assert.deepEqual(unwritten, [
    ['modelet_failed', 's'],
    ['protocol_error', 's'],
  ]);
});
