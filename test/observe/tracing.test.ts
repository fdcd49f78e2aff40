/** Spans as an SDK gets them: through the real API, into a provider that only remembers. */
import assert from 'node:assert/strict';
import { afterEach, describe, test } from 'node:test';
import { type Context, type ContextManager, context, ROOT_CONTEXT, SpanStatusCode, trace } from '@opentelemetry/api';
import { ModeletError } from '../../src/core/errors.ts';
import { Tracing } from '../../src/observe/export/tracing.ts';
import { FakeClock } from '../fixtures/fake-clock.ts';
import { repositoryRoot } from '../fixtures/repository.ts';
import { SpanMemory } from '../fixtures/span-memory.ts';

const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736';
const SPAN = '00f067aa0ba902b7';
const TRACEPARENT = `00-${TRACE}-${SPAN}-01`;
const STAGES = [
  { name: 'first', waitMs: 10, batchMs: 5, runMs: 20, batchSize: 4, worker: 1 },
  { name: 'second', waitMs: 0, batchMs: 0, runMs: 15, batchSize: 1, worker: 0 },
];
const OK = { runtime: 'default', requestId: 'r-1', error: null, stages: STAGES, gathered: null };

/** With an SDK. */
function traced(): { memory: SpanMemory; tracing: Tracing; clock: FakeClock; faults: unknown[] } {
  const memory = new SpanMemory();
  trace.setGlobalTracerProvider(memory);
  const clock = new FakeClock();
  const faults: unknown[] = [];
  const tracing = new Tracing((thrown) => faults.push(thrown), clock);
  tracing.look(repositoryRoot);
  return { memory, tracing, clock, faults };
}

afterEach(() => {
  trace.disable();
  context.disable();
});

describe('tracing', () => {
  test('is off before a provider is registered and after its removal', () => {
    const tracing = new Tracing(() => {});
    tracing.look(repositoryRoot);
    assert.equal(tracing.isOn, false);
    assert.equal(tracing.begin({ headers: { traceparent: TRACEPARENT } }), null);
    trace.setGlobalTracerProvider(new SpanMemory());
    assert.equal(tracing.isOn, false, 'it looks when it is told to');
    tracing.look(repositoryRoot);
    assert.equal(tracing.isOn, true);
    trace.disable();
    tracing.look(repositoryRoot);
    assert.equal(tracing.isOn, false);
  });

  test('finds the provider even if the user has no copy of the API', () => {
    trace.setGlobalTracerProvider(new SpanMemory());
    const tracing = new Tracing(() => {});
    tracing.look('/nowhere');
    assert.equal(tracing.isOn, true);
  });

  test('makes a span for the request, and in it one for each wait and run, in order', () => {
    const { memory, tracing, clock } = traced();
    const request = tracing.begin({ headers: { traceparent: TRACEPARENT } });
    clock.advance(60);
    request?.end(OK);

    const [whole, ...parts] = memory.spans;
    assert.ok(whole);
    assert.deepEqual([whole.name, whole.parent?.spanId, whole.spanContext().traceId], ['modelet request', SPAN, TRACE]);
    assert.equal(whole.parent?.isRemote, true);
    assert.deepEqual(whole.attributes, {
      'modelet.runtime': 'default',
      'modelet.request_id': 'r-1',
      'modelet.code': 'ok',
    });
    assert.equal(whole.status, undefined);
    assert.ok(parts.every(({ parent }) => parent?.spanId === whole.spanContext().spanId));
    // 50 of the 60 ms were measured: 5 there, 5 back.
    assert.deepEqual(
      parts.map(({ name, startedAt, endedAt }) => [
        name,
        startedAt - whole.startedAt,
        (endedAt ?? 0) - whole.startedAt,
      ]),
      [
        ['queue first', 5, 20],
        ['run first', 20, 40],
        ['queue second', 40, 40],
        ['run second', 40, 55],
      ],
    );
    assert.equal((whole.endedAt ?? 0) - whole.startedAt, 60);
    assert.deepEqual(parts[0]?.attributes, { 'modelet.stage': 'first', 'modelet.wait_ms': 10, 'modelet.batch_ms': 5 });
    assert.deepEqual(parts[1]?.attributes, {
      'modelet.stage': 'first',
      'modelet.batch_size': 4,
      'modelet.worker': 1,
    });
  });

  test('lets branches begin together', () => {
    const { memory, tracing, clock } = traced();
    const request = tracing.begin(null);
    clock.advance(50);
    const gathered = [{ node: 9, passed: 2, branches: [1, 1] }];
    request?.end({ ...OK, gathered: { gathered, branches: {}, failed: null } });
    const [whole, ...parts] = memory.spans;
    // The longer branch took 35 of the 50 ms.
    assert.deepEqual(
      parts.map(({ name, startedAt }) => [name, startedAt - (whole?.startedAt ?? 0)]),
      [
        ['queue first', 7.5],
        ['run first', 22.5],
        ['queue second', 7.5],
        ['run second', 7.5],
      ],
    );
  });

  test('makes no span for a run that the cache saved, and notes it in the span of the wait', () => {
    const { memory, tracing, clock } = traced();
    const request = tracing.begin(null);
    clock.advance(10);
    const hit = { name: 'first', waitMs: 4, batchMs: 0, runMs: 0, batchSize: 0, worker: -1, cache: 'hit' } as const;
    request?.end({ ...OK, stages: [hit, ...STAGES.slice(1)] });
    assert.deepEqual(
      memory.spans.slice(1).map(({ name }) => name),
      ['queue first', 'queue second', 'run second'],
    );
    const attributes = {
      'modelet.stage': 'first',
      'modelet.cache': 'hit',
      'modelet.wait_ms': 4,
      'modelet.batch_ms': 0,
    };
    assert.deepEqual(memory.spans[1]?.attributes, attributes);
  });

  test('ends now, by the time of day', () => {
    const { memory, tracing } = traced();
    const before = Date.now();
    tracing.begin(undefined)?.end(OK);
    const { endedAt = 0 } = memory.spans[0] ?? {};
    assert.ok(endedAt >= before && endedAt <= Date.now());
  });

  test('says how a request failed, and where', () => {
    const { memory, tracing } = traced();
    const error = new ModeletError('worker_lost', 'worker 0 died', { stage: 'first' });
    tracing.begin(undefined)?.end({ ...OK, error, stages: [] });
    const [whole, ...parts] = memory.spans;
    assert.deepEqual(whole?.status, { code: SpanStatusCode.ERROR, message: 'worker_lost: worker 0 died' });
    assert.equal(whole?.attributes['modelet.code'], 'worker_lost');
    assert.equal(whole?.attributes['modelet.stage'], 'first');
    assert.deepEqual(parts, []);
    assert.equal(whole?.parent, undefined, 'without a caller it begins a trace');
  });

  test('never ends the span of a stage after that of its request', () => {
    const { memory, tracing, clock } = traced();
    const request = tracing.begin(undefined);
    clock.advance(45);
    request?.end(OK);
    const [whole, ...parts] = memory.spans;
    assert.ok(parts.every(({ endedAt = 0 }) => endedAt <= (whole?.endedAt ?? 0)));
  });

  test('the active span at the entry of a request is its parent, also when the request returns', () => {
    const { memory, tracing } = traced();
    const active = new OneContext();
    context.setGlobalContextManager(active);
    const http = { headers: { traceparent: TRACEPARENT } };
    const server = memory.getTracer().startSpan('POST /digits', {}, contextOf(TRACE, SPAN));
    active.present = trace.setSpan(ROOT_CONTEXT, server);
    tracing.begin(http)?.end(OK);
    active.present = contextOf('f'.repeat(32), 'e'.repeat(16));
    tracing.begin(http)?.end(OK);
    const parents = memory.spans.filter(({ name }) => name === 'modelet request').map(({ parent }) => parent?.spanId);
    assert.deepEqual(parents, [server.spanContext().spanId, server.spanContext().spanId]);
  });

  test('an active span of another trace than that of the caller is not the parent, nor is any for a message without HTTP', () => {
    const { memory, tracing } = traced();
    const active = new OneContext();
    context.setGlobalContextManager(active);
    active.present = contextOf('f'.repeat(32), 'e'.repeat(16));
    tracing.begin({ headers: { traceparent: TRACEPARENT } })?.end({ ...OK, stages: [] });
    tracing.begin(undefined)?.end({ ...OK, stages: [] });
    assert.deepEqual(
      memory.spans.map(({ parent }) => parent?.spanId),
      [SPAN, undefined],
    );
  });

  test('an SDK that throws gets no more calls, and affects no request', () => {
    const { memory, tracing, faults } = traced();
    const request = tracing.begin(undefined);
    memory.fault = new Error('exporter is broken');
    request?.end(OK);
    assert.deepEqual(faults, [memory.fault]);
    assert.equal(tracing.isOn, false);
    request?.end(OK);
  });

  test('a value that a flow put in place of the HTTP request does no harm', () => {
    const { memory, tracing } = traced();
    for (const http of [null, 'text', 7, {}, { headers: null }, { headers: { traceparent: 'x' } }]) {
      tracing.begin(http as object)?.end({ ...OK, stages: [] });
    }
    assert.equal(memory.spans.length, 6);
  });
});

function contextOf(traceId: string, spanId: string): Context {
  return trace.setSpanContext(ROOT_CONTEXT, { traceId, spanId, traceFlags: 1, isRemote: true });
}

/** Says what the test tells it is the present context. */
class OneContext implements ContextManager {
  present: Context = ROOT_CONTEXT;

  active(): Context {
    return this.present;
  }

  with<A extends unknown[], F extends (...args: A) => ReturnType<F>>(
    _context: Context,
    act: F,
    thisArg?: ThisParameterType<F>,
    ...args: A
  ): ReturnType<F> {
    return act.call(thisArg as ThisParameterType<F>, ...args);
  }

  bind<T>(_context: Context, target: T): T {
    return target;
  }

  enable(): this {
    return this;
  }

  disable(): this {
    return this;
  }
}
