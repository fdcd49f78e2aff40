/** Every request is settled exactly once, however outcomes, deadlines and losses interleave. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { ModeletError } from '../../src/core/errors.ts';
import type { Outcome, Payload, RequestNumber } from '../../src/core/model.ts';
import type { Settlement } from '../../src/core/routes/route.ts';
import { Desk, type DeskHost } from '../../src/runtime/desk/desk.ts';
import { type Caller, Ledger, type LedgerWatcher } from '../../src/runtime/desk/ledger.ts';
import { FakeClock } from '../fixtures/fake-clock.ts';

const VALUE: Outcome<Payload> = { ok: true, value: { codec: 1, bytes: Buffer.from('1') } };
const NEVER = Number.POSITIVE_INFINITY;
const CAPACITY = 6;

function newLedger(capacity: number, clock: FakeClock, watcher: Partial<LedgerWatcher> = {}): Ledger {
  const nobody = { onSettled: () => {}, onExpired: () => {}, onFailed: () => {}, onThrown: assert.fail };
  return new Ledger(capacity, clock, { ...nobody, ...watcher });
}

function open(ledger: Ledger, caller: Caller, deadline: number = NEVER, patient = false): RequestNumber {
  return ledger.open(caller, deadline, patient);
}

type Step =
  | { readonly do: 'open'; readonly timeout: number; readonly patient: boolean }
  | { readonly do: 'settle' | 'fail'; readonly which: number }
  | { readonly do: 'advance'; readonly ms: number }
  | { readonly do: 'failAll' };

const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 4,
    arbitrary: fc
      .tuple(fc.constantFrom(0, 3, 10, 30, NEVER), fc.boolean())
      .map(([timeout, patient]): Step => ({ do: 'open', timeout, patient })),
  },
  {
    weight: 4,
    arbitrary: fc
      .tuple(fc.constantFrom('settle' as const, 'fail' as const), fc.nat({ max: 30 }))
      .map(([how, which]): Step => ({ do: how, which })),
  },
  { weight: 2, arbitrary: fc.nat({ max: 12 }).map((ms): Step => ({ do: 'advance', ms })) },
  { weight: 1, arbitrary: fc.constant<Step>({ do: 'failAll' }) },
);

/** A ledger, and a plain table that says what it should do. */
class Model {
  readonly clock = new FakeClock(0);
  readonly expiredToOthers: RequestNumber[] = [];
  readonly settledToOthers: RequestNumber[] = [];
  readonly ledger: Ledger = newLedger(CAPACITY, this.clock, {
    onSettled: ({ id }) => this.settledToOthers.push(id),
    onExpired: (id) => this.expiredToOthers.push(id),
  });
  /** Deadlines of open requests. */
  readonly open = new Map<RequestNumber, number>();
  readonly settled = new Map<RequestNumber, Settlement[]>();
  readonly expected = { ok: 0, modelet_failed: 0, deadline_exceeded: 0, engine_lost: 0, late: 0 };

  run(what: Step): void {
    switch (what.do) {
      case 'open':
        this.#open(what.timeout, what.patient);
        break;
      case 'settle':
      case 'fail':
        this.#settle(what.which, what.do === 'settle');
        break;
      case 'advance':
        this.clock.advance(what.ms);
        this.#expire();
        break;
      case 'failAll':
        this.expected.engine_lost += this.open.size;
        this.ledger.failAll(() => new ModeletError('engine_lost', 'lost'));
        this.open.clear();
    }
    this.#check();
  }

  #open(timeout: number, patient: boolean): void {
    const settlements: Settlement[] = [];
    const deadline = this.clock.now() + timeout;
    const caller = { onSettled: (settlement: Settlement) => settlements.push(settlement) };
    const refusal = this.ledger.refusalOf();
    assert.equal(refusal?.code, this.open.size >= CAPACITY ? 'capacity_exceeded' : undefined);
    if (refusal && !patient) return;
    const id = open(this.ledger, caller, deadline, patient);
    assert.equal(this.settled.has(id), false, 'a number was used twice');
    assert.equal(settlements.length, 0, 'settled before it was open');
    this.settled.set(id, settlements);
    this.open.set(id, deadline);
  }

  #settle(which: number, ok: boolean): void {
    const id = [...this.settled.keys()][which % Math.max(1, this.settled.size)] ?? 999;
    const outcome = ok ? VALUE : { ok: false as const, error: new ModeletError('modelet_failed', 'no') };
    assert.equal(this.ledger.settle(id, outcome), this.open.has(id));
    if (!this.open.delete(id)) this.expected.late += 1;
    else if (ok) this.expected.ok += 1;
    else this.expected.modelet_failed += 1;
  }

  #expire(): void {
    for (const [id, deadline] of this.open) {
      if (deadline > this.clock.now()) continue;
      this.open.delete(id);
      this.expected.deadline_exceeded += 1;
      assert.ok(this.expiredToOthers.includes(id), 'no other listener heard of the expiry');
    }
  }

  #check(): void {
    const { ledger, expected } = this;
    assert.equal(ledger.backlog, this.open.size);
    for (const [id, settlements] of this.settled) {
      assert.equal(settlements.length, this.open.has(id) ? 0 : 1);
      assert.equal(ledger.isOpen(id), this.open.has(id));
    }
    const { counts, late } = ledger.read();
    assert.deepEqual(
      [counts.ok, counts.modelet_failed, counts.deadline_exceeded, counts.engine_lost, late],
      Object.values(expected),
    );
    assert.equal(this.expiredToOthers.length, expected.deadline_exceeded);
    assert.equal(this.settledToOthers.length, this.settled.size - this.open.size);
    assert.equal(new Set(this.settledToOthers).size, this.settledToOthers.length);
    const finite = [...this.open.values()].filter((deadline) => deadline !== NEVER);
    assert.equal(this.clock.pending, finite.length, 'a timer was left behind');
  }
}

test('any interleaving settles each request once, and all counts add up', () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60, size: 'max' }), (steps) => {
      const model = new Model();
      for (const each of steps) model.run(each);
      model.run({ do: 'failAll' });
      const answered = Object.values(model.ledger.read().counts).reduce((sum, count) => sum + count, 0);
      assert.equal(answered, model.settled.size);
    }),
    { numRuns: 400 },
  );
});

test('the caller gets the outcome and its timings unchanged', () => {
  const ledger = newLedger(1, new FakeClock());
  const settlements: Settlement[] = [];
  const timings = [{ stage: 1, waitMs: 1, batchMs: 2, runMs: 3, batchSize: 4, worker: 0 }];
  ledger.settle(open(ledger, { onSettled: (settlement) => settlements.push(settlement) }), VALUE, timings);
  assert.deepEqual(settlements, [{ outcome: VALUE, timings, gathered: null }]);
});

test('a request with a past deadline settles soon, but not before it is open', () => {
  const clock = new FakeClock(100);
  const ledger = newLedger(1, clock);
  const codes: string[] = [];
  open(ledger, { onSettled: ({ outcome }) => codes.push(outcome.ok ? 'ok' : outcome.error.code) }, 50);
  assert.deepEqual(codes, []);
  clock.advance(0);
  assert.deepEqual(codes, ['deadline_exceeded']);
});

test('failAll gives every open request a separate error', () => {
  const ledger = newLedger(2, new FakeClock());
  const errors: unknown[] = [];
  const caller = { onSettled: ({ outcome }: Settlement) => errors.push(outcome.ok ? null : outcome.error) };
  open(ledger, caller);
  open(ledger, caller);
  ledger.failAll(() => new ModeletError('engine_lost', 'lost'));
  assert.equal(new Set(errors).size, 2);
});

test('a request that a settled one opens does not settle with it', () => {
  const ledger = newLedger(5, new FakeClock());
  let reopened: number | undefined;
  open(ledger, {
    onSettled: () => {
      reopened = open(ledger, { onSettled: () => assert.fail('must stay open') });
    },
  });
  ledger.failAll(() => new ModeletError('engine_lost', 'lost'));
  assert.equal(ledger.backlog, 1);
  assert.ok(reopened !== undefined && ledger.isOpen(reopened));
});

test('whenEmpty resolves at once without requests, else with the last request', async () => {
  const ledger = newLedger(5, new FakeClock());
  await ledger.whenEmpty();
  const ids = [1, 2].map(() => open(ledger, { onSettled: () => {} }));
  let empty = false;
  const waiting = ledger.whenEmpty().then(() => {
    empty = true;
  });
  ledger.settle(ids[0] as number, VALUE);
  await new Promise((resolve) => setImmediate(resolve));
  assert.equal(empty, false);
  ledger.settle(ids[1] as number, VALUE);
  await waiting;
});

test('whenEmpty waits no longer than its limit', async () => {
  const clock = new FakeClock();
  const ledger = newLedger(5, clock);
  open(ledger, { onSettled: () => {} });
  const waiting = ledger.whenEmpty(clock.now() + 100);
  clock.advance(100);
  await waiting;
  assert.equal(ledger.backlog, 1);
});

test('a tap reaches only the caller of an open request', () => {
  const ledger = newLedger(5, new FakeClock());
  const tapped: number[] = [];
  const id = open(ledger, { onSettled: () => {}, onTap: (stage) => tapped.push(stage) });
  const silent = open(ledger, { onSettled: () => {} });
  const payload = { codec: 1, bytes: Buffer.from('1') };
  ledger.tap(id, 7, payload);
  ledger.tap(silent, 8, payload);
  ledger.settle(id, VALUE);
  ledger.tap(id, 9, payload);
  assert.deepEqual(tapped, [7]);
});

test('the ledger counts a refusal before opening under its code, and every code starts at zero', () => {
  const ledger = newLedger(1, new FakeClock());
  ledger.countFailed('payload_too_large');
  assert.equal(ledger.read().counts.payload_too_large, 1);
  assert.equal(ledger.read().counts.cancelled, 0);
  assert.equal(ledger.read().counts.ok, 0);
});

test('the ledger can fail all requests of a kind, and the others stay open', () => {
  const ledger = newLedger(9, new FakeClock());
  const ids = [1, 2, 3, 4].map(() => open(ledger, { onSettled: () => {} }));
  ledger.failAll(
    () => new ModeletError('shutting_down', 'end'),
    (id) => id % 2 === 0,
  );
  assert.deepEqual(
    ids.map((id) => ledger.isOpen(id)),
    ids.map((id) => id % 2 !== 0),
  );
  assert.equal(ledger.read().counts.shutting_down, 2);
});

test('other listeners learn that a request has settled before its caller does', () => {
  const order: string[] = [];
  const ledger = newLedger(1, new FakeClock(), { onSettled: () => order.push('others') });
  ledger.settle(open(ledger, { onSettled: () => order.push('caller') }), VALUE);
  assert.deepEqual(order, ['others', 'caller']);
});

test('a caller that throws affects no other: each is told once, and the error is reported', () => {
  const thrown: string[] = [];
  let emptied = false;
  const callers: unknown[] = [];
  const ledger = newLedger(10, new FakeClock(), {
    onThrown: (error, caller) => {
      thrown.push(error.message);
      callers.push(caller);
    },
  });
  const told: number[] = [];
  const ids = Array.from({ length: 5 }, (_, n) =>
    open(ledger, {
      onTap: () => {
        throw new Error(`tapped ${n}`);
      },
      onSettled: () => {
        told.push(n);
        if (n % 2 === 0) throw new Error(`told ${n}`);
      },
    }),
  );
  void ledger.whenEmpty().then(() => {
    emptied = true;
  });
  ledger.tap(ids[1] as number, 1, { codec: 1, bytes: Buffer.from('1') });
  assert.equal(ledger.settle(ids[0] as number, VALUE), true);
  ledger.failAll(() => new ModeletError('engine_lost', 'gone'));
  assert.deepEqual(told, [0, 1, 2, 3, 4]);
  assert.deepEqual(thrown, ['tapped 1', 'told 0', 'told 2', 'told 4']);
  assert.equal(new Set(callers).size, 4, 'with its caller');
  assert.deepEqual([ledger.backlog, ledger.read().counts.ok, ledger.read().counts.engine_lost], [0, 1, 4]);
  return new Promise<void>((resolve) => setImmediate(resolve)).then(() => assert.ok(emptied));
});

test('a desk shows a request that its full ledger refuses among the failed ones', () => {
  const host: DeskHost<object> = {
    ...{ entryOf: () => ({}), routeOf: () => 1, refusalOf: () => null, enter: () => {}, cancel: () => {} },
    ...{ taken: () => {}, onSettled: () => {}, onFailed: () => {}, onLog: () => {} },
  };
  const desk = new Desk({ capacity: 1, maxHeldBytes: 1000, barred: null }, host, new FakeClock());
  const payload = { codec: 1, bytes: Buffer.from('1') };
  const submit = () =>
    desk.submit({
      ...{ requestId: 'r', gateMs: 0, entry: 'in', payload, deadline: NEVER, priority: 0, patient: false },
      ...{ group: 0, meta: null, onSettled: () => {} },
    });
  submit();
  assert.throws(submit, { code: 'capacity_exceeded', retryAfterSeconds: 1 });
  assert.equal(desk.read().counts.capacity_exceeded, 1);
  assert.deepEqual(
    desk.failedRequests.list().map(({ code, count }) => [code, count]),
    [['capacity_exceeded', 1]],
  );
});
