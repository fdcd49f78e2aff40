/** The possible answers of Prometheus to a query, and the samples read from them. */
import assert from 'node:assert/strict';
import type { RequestListener } from 'node:http';
import { describe, type TestContext, test } from 'node:test';
import type { BudgetSource } from '../../../src/gate/source.ts';
import { reasonFrom, SERVICES, sampleFrom } from '../../fixtures/sources.ts';
import { serve, source } from './http-server.ts';

describe('an answer of Prometheus', () => {
  const answer = (data: unknown, status = 200): RequestListener => {
    return (_, response) =>
      response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(data));
  };
  const success = (resultType: string, result: unknown): unknown => ({
    status: 'success',
    data: { resultType, result },
  });
  const vector = (...values: readonly string[]): unknown =>
    success(
      'vector',
      values.map((value) => ({ metric: {}, value: [1000.5, value] })),
    );
  const prometheus = async (t: TestContext, listener: RequestListener, raw: object = {}): Promise<BudgetSource> =>
    source(t, { source: 'prometheus', query: 'm', url: `http://${await serve(t, listener)}`, ...raw });

  for (const [data, reason] of [
    [vector(), /^the metric is missing: the query returned no series$/],
    [vector('1', '2', '3'), /^the query returned 3 series, not one$/],
    [vector('NaN'), /^the number read is NaN$/],
    [vector('+Inf'), /^the number read is Infinity$/],
    [vector(''), /^the number read is NaN$/],
    [success('vector', [{ metric: {}, histogram: [1000.5, {}] }]), /^the query returned a histogram/],
    [success('matrix', []), /^the query returned a matrix, not one number$/],
    [success('string', [1000.5, '0.5']), /^the query returned a string, not one number$/],
    [success('vector', [{ metric: {}, value: 5 }]), /^the answer is not from Prometheus$/],
    [{ status: 'success', data: null }, /^the answer is not from Prometheus$/],
    ['m 0.5', /^the answer is not from Prometheus$/],
    [null, /^the answer is not from Prometheus$/],
  ] as const) {
    test(`${JSON.stringify(data)} gives no sample`, async (t) => {
      assert.match(await reasonFrom(await prometheus(t, answer(data))), reason);
    });
  }

  test('a scalar that is not finite gives no sample', async (t) => {
    const infinite = await prometheus(t, answer(success('scalar', [1000.5, '-Inf'])), { query: '-1 / 0' });
    assert.match(await reasonFrom(infinite), /^the number read is -Infinity$/);
  });

  test('an error of Prometheus keeps its words', async (t) => {
    const said = { status: 'error', errorType: 'bad_data', error: `parse error:\n  ${'x'.repeat(1000)}` };
    const reason = await reasonFrom(await prometheus(t, answer(said, 400)));
    assert.match(reason, /^HTTP 400: parse error: x+$/);
    assert.ok(reason.length < 300);
  });

  test('the source posts any query as a form to the API below the address', async (t) => {
    const seen: [string, string][] = [];
    const query = 'sum(a{b="c&d=é"}) # why not';
    const listener: RequestListener = (request, response) => {
      let body = '';
      request.on('data', (chunk) => {
        body += chunk;
      });
      request.on('end', () => {
        const asked = new URLSearchParams(body).get('query') ?? '';
        // How old its samples are is asked in another form.
        if (asked.includes('timestamp(')) return answer(vector())(request, response);
        seen.push([`${request.method} ${request.url}`, asked]);
        return answer(success('scalar', [1000.5, '0.25']))(request, response);
      });
    };
    const address = await serve(t, listener);
    for (const path of ['', '/', '/prom', '/prom/api/v1/query?tenant=a']) {
      const asking = source(t, { source: 'prometheus', query, url: `http://${address}${path}` });
      assert.equal((await sampleFrom(asking)).budget, 0.75);
    }
    const api = 'POST /api/v1/query';
    const below = 'POST /prom/api/v1/query';
    assert.deepEqual(seen, [
      [api, query],
      [api, query],
      [below, query],
      [`${below}?tenant=a`, query],
    ]);
  });

  test('the age of a number is that of its sample when the server evaluated it, whatever its clock says', async (t) => {
    const values = ['0.5', '1000'];
    const aged = await prometheus(t, (request, response) => answer(vector(values.shift() ?? ''))(request, response));
    const before = SERVICES.clock.now();
    const { at } = await sampleFrom(aged);
    assert.ok(at >= before - 500 && at <= SERVICES.clock.now() - 500, 'half a second old');
  });

  test('a repeated sample does not become older over a slower connection', async (t) => {
    const at = (time: number, number: string): unknown => success('vector', [{ metric: {}, value: [time, number] }]);
    const answers = [at(1000.5, '0.5'), at(1000.5, '1000'), at(1002.5, '0.5'), at(1002.5, '1000')];
    const again = await prometheus(t, (request, response) => answer(answers.shift())(request, response));
    const first = await sampleFrom(again);
    assert.ok((await sampleFrom(again)).at >= first.at);
  });

  test('the age of a number stays unknown if the server rejects the query for it', async (t) => {
    const understood = [vector('0.5'), { status: 'error', errorType: 'bad_data', error: 'parse error' }];
    const before = SERVICES.clock.now();
    const asking = await prometheus(t, (request, response) => {
      const data = understood.shift();
      answer(data, understood.length > 0 ? 200 : 400)(request, response);
    });
    assert.ok((await sampleFrom(asking)).at >= before);
  });

  test('a number that very many series give is as old as the oldest of them', async (t) => {
    // One without a time says nothing of the age.
    const times = ['990.5', ...Array.from({ length: 200_000 }, () => '1000'), 'NaN'];
    const series = times.map((value) => ({ metric: {}, value: [1000.5, value] }));
    const answers = [vector('0.5'), success('vector', series)];
    const asking = await prometheus(t, (request, response) => answer(answers.shift())(request, response));
    const before = SERVICES.clock.now();
    const { at } = await sampleFrom(asking);
    assert.ok(at >= before - 10_000 && at <= SERVICES.clock.now() - 10_000);
  });

  test('there is no sample if the query for its age gets no answer', async (t) => {
    let questions = 0;
    const asking = await prometheus(t, (request, response) => {
      questions += 1;
      answer(questions === 1 ? vector('0.5') : null, questions === 1 ? 200 : 503)(request, response);
    });
    assert.match(await reasonFrom(asking), /^HTTP 503$/);
  });
});
