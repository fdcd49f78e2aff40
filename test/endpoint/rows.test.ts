/** Rows of one request as separate requests: whatever settles or cancels them in any order, the answer comes once. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { type ErrorCode, ModeletError } from '../../src/core/errors.ts';
import type { Outcome, Payload, RequestNumber } from '../../src/core/model.ts';
import { Rows } from '../../src/http/rows.ts';
import type { EndpointRequest } from '../../src/http/served-endpoint.ts';
import { Ledger } from '../../src/runtime/desk/ledger.ts';
import { CODEC } from '../../src/wire/codec/codec.ts';
import { FakeClock } from '../fixtures/fake-clock.ts';

type Step =
  | { readonly do: 'submit'; readonly rows: number; readonly deadline: number }
  | { readonly do: 'answer' | 'fail'; readonly which: number }
  | { readonly do: 'leave'; readonly which: number }
  | { readonly do: 'advance'; readonly ms: number }
  | { readonly do: 'close' };

const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 3,
    arbitrary: fc
      .tuple(fc.integer({ min: 1, max: 7 }), fc.constantFrom(5, 20, Number.POSITIVE_INFINITY))
      .map(([rows, deadline]): Step => ({ do: 'submit', rows, deadline })),
  },
  { weight: 12, arbitrary: fc.nat({ max: 40 }).map((which): Step => ({ do: 'answer', which })) },
  { weight: 1, arbitrary: fc.nat({ max: 40 }).map((which): Step => ({ do: 'fail', which })) },
  { weight: 1, arbitrary: fc.nat({ max: 5 }).map((which): Step => ({ do: 'leave', which })) },
  { weight: 2, arbitrary: fc.nat({ max: 8 }).map((ms): Step => ({ do: 'advance', ms })) },
  { weight: 1, arbitrary: fc.constant<Step>({ do: 'close' }) },
);

const CAPACITY = 10;
const HTTP = { headers: {} };

function payloadOf(text: string): Payload {
  return { codec: CODEC.json, bytes: Buffer.from(text) };
}

/** A client's request, and its rows as the ledger knows them. */
interface Asked {
  readonly rows: Rows;
  readonly payloads: readonly Payload[];
  readonly ids: readonly RequestNumber[];
  readonly outcomes: Outcome<readonly Payload[]>[];
}

class Model {
  readonly clock = new FakeClock(0);
  readonly open = new Map<RequestNumber, Payload>();
  readonly settled = new Map<RequestNumber, ErrorCode | 'ok'>();
  readonly asked: Asked[] = [];
  readonly ledger: Ledger = new Ledger(CAPACITY, this.clock, {
    onSettled: ({ id }, { outcome }) => {
      assert.ok(!this.settled.has(id), 'a row settles once');
      this.settled.set(id, outcome.ok ? 'ok' : outcome.error.code);
      this.open.delete(id);
    },
    onExpired: () => {},
    onFailed: () => {},
    onThrown: (error) => {
      throw error;
    },
  });

  run(what: Step): void {
    switch (what.do) {
      case 'submit':
        this.#submit(what.rows, what.deadline);
        break;
      case 'answer':
      case 'fail':
        this.#settle(what.which, what.do === 'answer');
        break;
      case 'leave':
        this.asked[what.which]?.rows.abandon(new ModeletError('cancelled', 'the client left'));
        break;
      case 'advance':
        this.clock.advance(what.ms);
        break;
      case 'close':
        this.ledger.failAll(() => new ModeletError('shutting_down', 'closing'));
    }
    this.#check();
  }

  #submit(count: number, deadline: number): void {
    const payloads = Array.from({ length: count }, (_, row) => payloadOf(`[${this.asked.length},${row}]`));
    const outcomes: Outcome<readonly Payload[]>[] = [];
    const ids: RequestNumber[] = [];
    const fit = this.ledger.backlog + count <= CAPACITY;
    const submit = ({ payload, places, onSettled }: EndpointRequest): RequestNumber => {
      const id = this.ledger.open({ onSettled }, this.clock.now() + deadline, false, places);
      ids.push(id);
      this.open.set(id, payload);
      return id;
    };
    const abandon = (id: RequestNumber, error: ModeletError): void => {
      if (this.ledger.isOpen(id)) this.ledger.settle(id, { ok: false, error });
    };
    const shared = {
      requestId: 'r',
      deadline,
      http: HTTP,
      onSettled: (outcome: (typeof outcomes)[0]) => outcomes.push(outcome),
    };
    try {
      const rows = new Rows({ submit, abandon }, { ...shared, payloads });
      assert.ok(fit);
      assert.equal(outcomes.length, 0, 'the answer never comes before the rows are submitted');
      this.asked.push({ rows, payloads, ids, outcomes });
    } catch (thrown) {
      assert.equal((thrown as ModeletError).code, 'capacity_exceeded');
      assert.ok(!fit);
      assert.deepEqual([ids, outcomes], [[], []], 'none of them is admitted, and nothing else answers');
    }
  }

  #settle(which: number, ok: boolean): void {
    const ids = [...this.open.keys()];
    const id = ids[which % ids.length];
    if (id === undefined) return;
    // A row is answered with its own input.
    const value = this.open.get(id) as Payload;
    this.ledger.settle(id, ok ? { ok, value } : { ok, error: new ModeletError('invalid_input', 'no', { stage: 's' }) });
  }

  #check(): void {
    for (const { ids, payloads, outcomes } of this.asked) {
      const codes = ids.map((id) => this.settled.get(id));
      assert.ok(outcomes.length <= 1);
      const [outcome] = outcomes;
      if (!outcome) assert.ok(codes.includes(undefined) && codes.every((code) => code === undefined || code === 'ok'));
      else if (outcome.ok) assert.deepEqual(outcome.value, payloads, 'all results, in the order of the rows');
      else {
        assert.ok(!codes.includes(undefined), 'no row is left behind');
        const own = codes.findIndex((code) => code !== 'ok' && code !== 'cancelled');
        if (own < 0) assert.equal(outcome.error.message, 'the client left');
        else {
          assert.equal(outcome.error.code, codes[own]);
          assert.match(outcome.error.message, new RegExp(`^row ${own}: `));
        }
      }
    }
  }
}

test('every row settles or is cancelled, and the answer comes once', () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 80, size: 'max' }), (steps) => {
      const model = new Model();
      for (const each of steps) model.run(each);
      model.run({ do: 'close' });
      assert.equal(model.ledger.backlog, 0);
      for (const { outcomes } of model.asked) assert.equal(outcomes.length, 1);
    }),
    { numRuns: 400 },
  );
});

test('rows that are refused in the middle are cancelled, and the caller gets the refusal', () => {
  const abandoned: RequestNumber[] = [];
  let answers = 0;
  const submit = ({ places }: EndpointRequest): RequestNumber => {
    if (places === 1) throw new ModeletError('capacity_exceeded', 'the channel is full');
    return places as number;
  };
  const request = {
    ...{ requestId: 'r', deadline: 1, http: HTTP, payloads: ['1', '2', '3'].map(payloadOf) },
    onSettled: () => {
      answers += 1;
    },
  };
  const abandon = (id: RequestNumber, { code }: ModeletError): void => {
    assert.equal(code, 'cancelled');
    abandoned.push(id);
  };
  assert.throws(() => new Rows({ submit, abandon }, request), { code: 'capacity_exceeded' });
  assert.deepEqual([abandoned, answers], [[3, 2], 0]);
});
