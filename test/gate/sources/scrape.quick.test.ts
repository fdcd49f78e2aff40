/** Metrics of a server that Prometheus could scrape. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { reasonFrom, SERVICES, sampleFrom } from '../../fixtures/sources.ts';
import { page, TEXT } from './http-server.ts';

describe('a scraped metric', () => {
  test('is a saturation or a budget as it stands on the page', async (t) => {
    const text = '# HELP m of something\nm{pool="a"} 0.25\nm{pool="b"} 0.5\n';
    const labels = '{"pool":"a"}';
    const { budget, raw, maxSys } = await sampleFrom(await page(t, text, { labels }));
    assert.deepEqual({ budget, raw, maxSys }, { budget: 0.75, raw: 'saturation 0.25', maxSys: undefined });
    assert.equal((await sampleFrom(await page(t, text, { labels, value: 'budget' }))).budget, 0.25);
  });

  test('is divided by the capacity of all servers, which becomes max_SYS', async (t) => {
    const text = 'm{pool="a"} 15\nservers 3\nper_pool{pool="a"} 5\nper_pool{pool="b"} 1\n';
    const labels = '{"pool":"a"}';
    const divided = await sampleFrom(await page(t, text, { labels, perServer: 10, serversMetric: 'servers' }));
    assert.deepEqual([divided.budget, divided.maxSys, divided.raw], [0.5, 30, 'saturation 0.5: 15 of 30']);
    assert.equal(
      (await sampleFrom(await page(t, text, { labels, perServer: 10, serversMetric: 'per_pool' }))).maxSys,
      50,
    );
    assert.equal((await sampleFrom(await page(t, text, { labels, perServer: 20 }))).budget, 0.25);
  });

  test('has the age of its timestamp, by the clock of its server', async (t) => {
    const now = Date.now();
    // A server whose clock is an hour behind.
    const date = new Date(now - 3_600_000);
    const [header, time] = [date.toUTCString(), Math.floor(date.getTime() / 1000) * 1000 - 4000];
    const prometheus = { ...TEXT, date: header };
    const openMetrics = { 'content-type': 'application/openmetrics-text; version=1.0.0', date: header };
    for (const made of [
      await page(t, `m 0.5 ${time}\n`, {}, prometheus),
      await page(t, `m 0.5 ${time / 1000}\n# EOF\n`, {}, openMetrics),
    ]) {
      const before = SERVICES.clock.now();
      const { at } = await sampleFrom(made);
      // Within the second that a Date header leaves out.
      assert.ok(at >= before - 5000 && at <= SERVICES.clock.now() - 4000, `${at - before} ms`);
    }
    const before = SERVICES.clock.now();
    assert.ok((await sampleFrom(await page(t, `m 0.5 ${now + 3_600_000}\n`))).at >= before, 'not in the future');
  });

  for (const [body, raw, reason] of [
    ['other 1\n', {}, /^the metric m is missing$/],
    ['', {}, /^the metric m is missing$/],
    ['m{a="1"} 1\nm{a="2"} 1\n', {}, /^the metric m has 2 series: the labels must select one$/],
    ['m{a="1"} 1\n', { labels: '{"a":"2"}' }, /^no series of the metric m has these labels, of 1$/],
    ['m NaN\n', {}, /^the number read is NaN$/],
    ['m +Inf\n', {}, /^the number read is Infinity$/],
    ['m -1\n', {}, /a saturation is not negative/],
    ['m 55\n', { value: 'budget' }, /a budget is a share/],
    ['x 1\nm one\n', {}, /^line 2 is not Prometheus text: the value is not a number$/],
    ['m 1\nservers 0\n', { perServer: 5, serversMetric: 'servers' }, /^no server is ready: servers is 0$/],
    ['m 1\nservers NaN\n', { perServer: 5, serversMetric: 'servers' }, /^no server is ready: servers is NaN$/],
    ['m 1\n', { perServer: 5, serversMetric: 'servers' }, /^the metric servers is missing$/],
    ['m 1\ns{a="1"} 1\ns{a="2"} 1\n', { perServer: 5, serversMetric: 's' }, /^the metric s has 2 series/],
  ] as const) {
    test(`${JSON.stringify(body)} with ${JSON.stringify(raw)} gives no sample`, async (t) => {
      assert.match(await reasonFrom(await page(t, body, raw)), reason);
    });
  }

  test('is missing in a page of another kind', async (t) => {
    const html = await page(t, '<!doctype html>', {}, { 'content-type': 'text/html' });
    assert.match(await reasonFrom(html), /^the metric m is missing in an answer of type text\/html$/);
  });
});
