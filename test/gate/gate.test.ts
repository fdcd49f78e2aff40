/** A gate with its waiting room in memory: who gets through, when, and what the others are told. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { ModeletError } from '../../src/core/errors.ts';
import { admittedOf, Bed, endOf, settings, ToldSource } from './stand-in.ts';

const DONE = { kind: 'done' } as const;

describe('a gate', () => {
  test('admits requests as the budget allows, and the next when one ends', () => {
    const bed = new Bed();
    bed.sample(0.5);
    const asked = bed.asks(8);
    assert.equal(admittedOf(asked), 5);
    assert.equal(bed.gate.snapshot().waiting, 3);
    assert.equal(bed.gate.end(endOf(asked[0] as never), DONE), true);
    assert.equal(admittedOf(asked), 6);
    assert.equal(bed.gate.snapshot().inFlight, 5);
    assert.deepEqual(bed.gate.snapshot().decisions, {
      admitted: 5,
      admitted_late: 1,
      refused_closed: 0,
      refused_full: 0,
      expired: 0,
      dropped: 0,
      cancelled: 0,
    });
  });

  test('is closed until the first reading', () => {
    const bed = new Bed();
    assert.equal(bed.ask().leases.length, 0);
    assert.equal(bed.why, 'closed: nothing was read yet; opens when the test answers');
    bed.sample(1);
    assert.equal(bed.gate.snapshot().inFlight, 1);
  });

  test('reads its source at once and at each interval', async () => {
    const bed = new Bed();
    const asked = bed.asks(3);
    assert.ok(bed.source.asked);
    await bed.source.answer({ ok: true, sample: { budget: 0.2, at: bed.clock.now() } });
    assert.equal(admittedOf(asked), 2);
    bed.clock.advance(1000);
    await bed.source.answer({ ok: true, sample: { budget: 0.9, at: bed.clock.now() } });
    assert.equal(admittedOf(asked), 3);
  });

  test('gives leases with unique ids that end once', () => {
    const bed = new Bed();
    bed.sample(1);
    const id = endOf(bed.ask());
    assert.ok(id.startsWith('g1/'));
    assert.equal(bed.gate.end('g1/other-1', DONE), false);
    assert.equal(bed.gate.end(`${id}0`, DONE), false);
    assert.equal(bed.gate.end(id, DONE), true);
    assert.equal(bed.gate.end(id, DONE), false);
    assert.deepEqual(bed.source.ends, [DONE]);
  });

  test('ends a silent lease after leaseMs, counts it as lost, and admits the next request', () => {
    const bed = new Bed({ maxSys: '1', leaseMs: '3000', staleMs: '60000' });
    bed.sample(1);
    const [first, second] = bed.asks(2);
    bed.clock.advance(2999);
    assert.equal(second?.leases.length, 0);
    bed.clock.advance(1);
    assert.equal(second?.leases.length, 1);
    assert.equal(bed.gate.snapshot().lost, 1);
    assert.deepEqual(bed.source.ends, [{ kind: 'lost' }]);
    assert.equal(bed.gate.end(endOf(first as never), { kind: 'refused', retryAfterMs: 0 }), false);
    assert.equal(bed.gate.snapshot().lastRefusal, null);
  });
});

describe('a request that waits', () => {
  test('goes by priority, then by deadline, then by arrival', () => {
    const bed = new Bed({ maxSys: '100' });
    const order: string[] = [];
    const ask = (name: string, priority: number, deadline: number): void => {
      bed.ask({ priority, deadline, admitted: () => order.push(name) });
    };
    ask('late', 0, 9000);
    ask('none', 0, Number.POSITIVE_INFINITY);
    ask('soon', 0, 5000);
    ask('soon as well', 0, 5000);
    ask('urgent', 2, Number.POSITIVE_INFINITY);
    bed.sample(1);
    assert.deepEqual(order, ['urgent', 'soon', 'soon as well', 'late', 'none']);
  });

  test('is refused at its deadline', () => {
    const bed = new Bed();
    const asking = bed.ask({ deadline: bed.clock.now() + 500 });
    const other = bed.ask({ deadline: bed.clock.now() + 700 });
    bed.clock.advance(500);
    assert.deepEqual([asking.errors[0]?.code, asking.errors[0]?.statusCode], ['deadline_exceeded', 408]);
    assert.match(
      asking.errors[0]?.message ?? '',
      /^not let through by the gate "batch" .*\nit is closed: nothing was read yet/,
    );
    assert.equal(other.errors.length, 0);
    assert.equal(bed.gate.snapshot().decisions.expired, 1);
  });

  test('is not admitted after its deadline, even if the timer is late', () => {
    const bed = new Bed();
    const asking = bed.ask({ deadline: bed.clock.now() });
    assert.equal(asking.errors[0]?.code, 'deadline_exceeded');
    bed.sample(1);
    assert.equal(bed.ask({ deadline: bed.clock.now() - 1 }).leases.length, 0);
  });

  test('is refused with 429 and Retry-After if the waiting room is full', () => {
    const bed = new Bed({ capacity: '2', intervalMs: '3000' });
    const [, , third] = bed.asks(3);
    assert.equal(third?.errors[0]?.code, 'gate_refused');
    assert.equal(third?.errors[0]?.retryAfterSeconds, 3);
    assert.match(third?.errors[0]?.message ?? '', /has 2 requests waiting/);
    assert.equal(bed.gate.snapshot().decisions.refused_full, 1);
  });

  test('does not exist with whenClosed: refuse', () => {
    const bed = new Bed({ whenClosed: 'refuse', maxSys: '1' });
    assert.equal(bed.ask().errors[0]?.code, 'gate_refused');
    bed.sample(1);
    assert.equal(bed.ask().leases.length, 1);
    const { errors } = bed.ask();
    assert.match(
      errors[0]?.message ?? '',
      /admits no request now, and lets none wait\nit is open: full, 1 request in flight/,
    );
    assert.equal(bed.gate.snapshot().decisions.refused_closed, 2);
    assert.equal(bed.gate.snapshot().waiting, 0);
  });

  test('can be cancelled once, and gets no other answer', () => {
    const bed = new Bed();
    const asking = bed.ask();
    assert.equal(asking.asked.cancel(), true);
    assert.equal(asking.asked.cancel(), false);
    bed.sample(1);
    assert.deepEqual(
      asking.errors.map(({ code }) => code),
      ['cancelled'],
    );
    assert.equal(asking.leases.length, 0);
    const through = bed.ask();
    assert.equal(through.asked.cancel(), false);
  });

  test('waits behind a request that is too large, and is admitted when that one is cancelled', () => {
    const bed = new Bed({ unit: 'bytes', maxSys: '1000' });
    bed.sample(0.6);
    const first = bed.ask({ cost: 500 });
    const large = bed.ask({ cost: 200 });
    const small = bed.ask({ cost: 50 });
    assert.deepEqual(
      [first, large, small].map((each) => each.leases.length),
      [1, 0, 0],
    );
    large.asked.cancel();
    assert.equal(small.leases.length, 1);
  });
});

describe('a message', () => {
  test('opens it whatever the budget, closes it, and lets it follow the budget again', () => {
    const bed = new Bed();
    bed.gate.control('open');
    assert.equal(admittedOf(bed.asks(20)), 20);
    assert.match(bed.why, /^open by a message/);
    bed.gate.control('close');
    bed.sample(1);
    const asked = bed.asks(2);
    assert.equal(admittedOf(asked), 0);
    assert.match(bed.why, /^closed: by a message/);
    bed.gate.control('auto');
    assert.equal(admittedOf(asked), 0, '20 are in flight, 10 may be');
    assert.match(bed.why, /^open: full, 20 requests in flight/);
  });

  test('flushes the waiting requests and no later ones', () => {
    const bed = new Bed();
    const asked = bed.asks(30);
    bed.gate.control('flush');
    assert.equal(admittedOf(asked), 30);
    assert.equal(admittedOf(bed.asks(1)), 0);
  });

  test('drops the waiting requests', () => {
    const bed = new Bed();
    const asked = bed.asks(3);
    bed.gate.control('drop');
    assert.deepEqual(
      asked.flatMap(({ errors }) => errors.map(({ code }) => code)),
      ['dropped', 'dropped', 'dropped'],
    );
    assert.equal(bed.gate.snapshot().decisions.dropped, 3);
  });
});

describe('after a deploy', () => {
  test('requests that wait and requests in flight stay, under the new settings', async () => {
    const bed = new Bed();
    bed.sample(0.2);
    const asked = bed.asks(6);
    assert.equal(admittedOf(asked), 2);
    await bed.gate.reconfigure(settings({ maxSys: '20' }), bed.source);
    assert.equal(admittedOf(asked), 4);
    assert.equal(bed.source.closed, 0);
    assert.equal(bed.gate.end(endOf(asked[0] as never), DONE), true);
    assert.equal(admittedOf(asked), 5);
  });

  test('another source starts without a reading, and the gate closes the old one', async () => {
    const bed = new Bed();
    bed.sample(1);
    const other = new ToldSource();
    await bed.gate.reconfigure(settings(), other);
    assert.deepEqual([bed.source.closed, bed.source.signals[0]?.aborted], [1, true]);
    const asking = bed.ask();
    assert.equal(asking.leases.length, 0);
    await other.answer({ ok: true, sample: { budget: 1, at: bed.clock.now() } });
    assert.equal(asking.leases.length, 1);
  });
});

describe('once it is closed', () => {
  test('the gate refuses every waiting and new request, and leaves no timer', async () => {
    const bed = new Bed();
    bed.sample(0.1);
    const [through, waits] = bed.asks(2);
    await bed.gate.close(new ModeletError('shutting_down', 'Node-RED stops'));
    assert.equal(waits?.errors[0]?.code, 'shutting_down');
    assert.equal(bed.ask().errors[0]?.code, 'shutting_down');
    assert.equal(bed.gate.end(endOf(through as never), DONE), false);
    assert.deepEqual(bed.source.ends, [{ kind: 'cancelled' }]);
    assert.deepEqual([bed.source.closed, bed.clock.pending], [1, 0]);
    const late = new ToldSource();
    await bed.gate.reconfigure(settings(), late);
    assert.deepEqual([late.signals.length, late.closed], [0, 1]);
  });
});

test('a caller that throws changes nothing for the others', () => {
  const bed = new Bed({ maxSys: '3' });
  const asked = [bed.ask(), bed.ask({ admitted: () => assert.fail('a bug of the caller') }), bed.ask()];
  bed.sample(1);
  assert.deepEqual(
    asked.map(({ leases }) => leases.length),
    [1, 0, 1],
  );
  assert.deepEqual(
    bed.thrown.map(({ message }) => message),
    ['a bug of the caller'],
  );
});

test('an answer may ask and end inside the call, without repetition or omission', () => {
  const bed = new Bed({ maxSys: '1' });
  const order: number[] = [];
  const chain = (number: number): void => {
    bed.ask({
      admitted: (lease) => {
        order.push(number);
        if (number < 2000) chain(number + 1);
        bed.gate.end(lease.id, DONE);
      },
    });
  };
  chain(0);
  bed.sample(1);
  assert.deepEqual(
    order,
    Array.from({ length: 2001 }, (_, index) => index),
  );
  assert.equal(bed.gate.snapshot().inFlight, 0);
});

test('the gate refuses a request whose cost is not a number', () => {
  const bed = new Bed({ unit: 'tokens', costProperty: 'tokens' });
  bed.sample(1);
  for (const cost of [Number.NaN, -1, Number.POSITIVE_INFINITY, '7' as never, undefined as never]) {
    assert.equal(bed.ask({ cost }).errors[0]?.code, 'invalid_input');
  }
  assert.equal(bed.ask({ cost: 0 }).leases.length, 1);
});
