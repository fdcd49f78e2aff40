/** Keys of clients and their limits, without a server: with a clock that the test moves. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { EventEmitter } from 'node:events';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import type { ClientKey } from '../../src/core/endpoints.ts';
import type { ModeletError } from '../../src/core/errors.ts';
import { type AdmittedResponse, Bucket, Clients } from '../../src/http/access.ts';
import { FakeClock } from '../fixtures/fake-clock.ts';

const KEY = 'a-key-of-somebody';

function client(spec: Partial<ClientKey> = {}, key = KEY): ClientKey {
  const hash = createHash('sha256').update(key).digest('hex');
  return { name: 'app', hash, paths: [], rate: 0, concurrent: 0, ...spec };
}

class Response extends EventEmitter {
  statusCode = 200;
  writableFinished = true;
  readonly headers: Record<string, string> = {};

  setHeader(name: string, value: string): void {
    this.headers[name] = value;
  }
}

function clientsWith(...keys: ClientKey[]): { clients: Clients; clock: FakeClock } {
  const clock = new FakeClock();
  const clients = new Clients(clock);
  clients.replace(keys);
  return { clients, clock };
}

/** The code of the refusal, or the response of the admitted request. */
function ask(clients: Clients, headers: Record<string, string>, path = '/'): Response | ModeletError {
  const response = new Response();
  try {
    clients.admit(headers, response as unknown as AdmittedResponse, path);
    return response;
  } catch (thrown) {
    return thrown as ModeletError;
  }
}

function codeOf(answer: Response | ModeletError): string {
  return answer instanceof Response ? 'ok' : answer.code;
}

const WITH_KEY = { 'x-api-key': KEY };

test('a request needs a known key, in one of two headers', () => {
  const { clients } = clientsWith(client());
  const rows: readonly (readonly [headers: Record<string, string>, code: string])[] = [
    [{}, 'unauthorized'],
    [{ authorization: `Bearer ${KEY}` }, 'ok'],
    [{ authorization: `bearer  ${KEY} ` }, 'ok'],
    [WITH_KEY, 'ok'],
    [{ authorization: 'Basic eDp5', 'x-api-key': KEY }, 'ok'],
    [{ authorization: 'Bearer of-a-proxy', 'x-api-key': KEY }, 'ok'],
    [{ authorization: KEY }, 'unauthorized'],
    [{ 'x-api-key': `${KEY}!` }, 'unauthorized'],
    [{ 'x-api-key': '' }, 'unauthorized'],
    [{ 'x-api-key': 'schl\u00fcssel' }, 'unauthorized'],
    [{ 'x-api-key': KEY.repeat(500) }, 'unauthorized'],
  ];
  for (const [headers, code] of rows) assert.equal(codeOf(ask(clients, headers)), code, JSON.stringify(headers));
});

test('without keys every client is admitted, with an empty list none', () => {
  const { clients } = clientsWith();
  assert.equal(codeOf(ask(clients, WITH_KEY)), 'unauthorized');
  clients.replace([{ ...client(), hash: '' }]);
  assert.equal(codeOf(ask(clients, WITH_KEY)), 'unauthorized', 'a client with an unknown key');
  clients.replace(null);
  assert.equal(codeOf(ask(clients, {})), 'ok');
});

test('a key for some paths is refused at all others', () => {
  const { clients } = clientsWith(client({ paths: ['/v1/digits', '/open/'] }));
  const rows = {
    '/v1/digits': 'ok',
    '/v1/digits/7': 'ok',
    '/v1/digits7': 'forbidden',
    '/open/x': 'ok',
    '/': 'forbidden',
  };
  for (const [path, code] of Object.entries(rows)) assert.equal(codeOf(ask(clients, WITH_KEY, path)), code, path);
});

describe('limits', () => {
  test('no more requests than allowed are open, and the end of one makes room for the next', () => {
    const { clients } = clientsWith(client({ concurrent: 2 }));
    const [first] = [ask(clients, WITH_KEY), ask(clients, WITH_KEY)];
    const refused = ask(clients, WITH_KEY) as ModeletError;
    assert.deepEqual([refused.code, refused.retryAfterSeconds], ['rate_limited', 1]);
    (first as Response).emit('close');
    assert.equal(codeOf(ask(clients, WITH_KEY)), 'ok');
    assert.equal(codeOf(ask(clients, WITH_KEY)), 'rate_limited');
  });

  test('a slow rate tells after how many seconds to come again, and keeps its word', () => {
    const { clients, clock } = clientsWith(client({ rate: 0.3 }));
    assert.equal(codeOf(ask(clients, WITH_KEY)), 'ok');
    const refused = ask(clients, WITH_KEY) as ModeletError;
    assert.equal(refused.retryAfterSeconds, 4);
    assert.equal(refused.message, 'this key allows 0.3 requests per second');
    clock.advance(3000);
    assert.equal(codeOf(ask(clients, WITH_KEY)), 'rate_limited');
    clock.advance(1000);
    assert.equal(codeOf(ask(clients, WITH_KEY)), 'ok');
  });

  test('a deploy changes limits, and gives back neither tokens nor places', () => {
    const { clients, clock } = clientsWith(client({ rate: 1, concurrent: 5 }));
    const open = ask(clients, WITH_KEY) as Response;
    clients.replace([client({ rate: 2, concurrent: 1 })]);
    assert.equal(codeOf(ask(clients, WITH_KEY)), 'rate_limited');
    clock.advance(1000);
    const refused = ask(clients, WITH_KEY) as ModeletError;
    assert.equal(refused.message, 'this key allows 1 request at a time', 'the first request is still open');
    open.emit('close');
    assert.equal(codeOf(ask(clients, WITH_KEY)), 'ok');
  });

  test('in no second pass more requests than the burst and what the rate brings', () => {
    fc.assert(
      fc.property(
        fc.double({ min: 0.1, max: 50, noNaN: true }),
        fc.array(fc.integer({ min: 0, max: 3000 }), { minLength: 1, maxLength: 60 }),
        (rate, pauses) => {
          let now = 0;
          const bucket = new Bucket(rate, now);
          const passed: number[] = [];
          for (const pause of pauses) {
            now += pause;
            const waitMs = bucket.take(rate, now);
            if (waitMs > 0) {
              now += waitMs + 1e-6;
              assert.equal(bucket.take(rate, now), 0, 'it has waited long enough');
            }
            passed.push(now);
          }
          for (const from of passed) {
            const within = passed.filter((at) => at >= from && at <= from + 1000).length;
            assert.ok(within <= Math.max(1, rate) + rate + 1e-6, `${within} at ${rate} per second`);
          }
        },
      ),
    );
  });
});

test('requests count by client and status, once each, and only for clients that there are', () => {
  const { clients } = clientsWith(client({ concurrent: 1 }), client({ name: 'other', paths: ['/x'] }, 'another-key'));
  const open = ask(clients, WITH_KEY) as Response;
  ask(clients, WITH_KEY);
  ask(clients, {});
  ask(clients, { 'x-api-key': 'another-key' });
  clients.admit({}, open as unknown as AdmittedResponse, '/');
  open.statusCode = 422;
  open.emit('close');
  const gone = ask(clients, WITH_KEY) as Response;
  gone.writableFinished = false;
  gone.emit('close');
  assert.deepEqual(clients.read(), { app: { 422: 1, 429: 1, 499: 1 }, none: { 401: 1 }, other: { 403: 1 } });
  clients.replace([client()]);
  assert.deepEqual(clients.read(), { app: { 422: 1, 429: 1, 499: 1 }, none: { 401: 1 } });
});
