/** A source over HTTP copes with a server that misbehaves. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import { describe, test } from 'node:test';
import { reasonFrom, sampleFrom } from '../../fixtures/sources.ts';
import { page, serve, source, TEXT } from './http-server.ts';

describe('a server that does not behave', () => {
  for (const [status, reason] of [
    [500, /^HTTP 500$/],
    [503, /^HTTP 503$/],
    [404, /^HTTP 404$/],
    [204, /^HTTP 204$/],
    [401, /^HTTP 401: the credentials were not accepted$/],
    [403, /^HTTP 403: the credentials/],
  ] as const) {
    test(`gives no sample with status ${status}`, async (t) => {
      const address = await serve(t, (_, response) =>
        response.writeHead(status, TEXT).end(status === 204 ? '' : 'm 0.5\n'),
      );
      const scrape = source(t, { url: `http://${address}` });
      const prometheus = source(t, { source: 'prometheus', query: 'm', url: `http://${address}` });
      assert.match(await reasonFrom(scrape), reason);
      assert.match(await reasonFrom(prometheus), reason);
    });
  }

  test('is not followed to another address, because the token would go along', async (t) => {
    const seen: string[] = [];
    const other = await serve(t, ({ url = '' }, response) => {
      seen.push(url);
      response.writeHead(200, TEXT).end('m 0.5\n');
    });
    const address = await serve(t, (_, response) => response.writeHead(302, { location: `http://${other}/m` }).end());
    const scrape = source(t, { url: `http://${address}` }, { credentials: { token: 'secret-token' } });
    assert.match(await reasonFrom(scrape), /^HTTP 302: redirects are not followed$/);
    assert.deepEqual(seen, []);
  });

  test('ends the reading by its time limit if it does not answer or does not end', async (t) => {
    const silent = await serve(t, () => {});
    assert.match(await reasonFrom(source(t, { url: `http://${silent}`, timeoutMs: 50 })), /^no answer within 50 ms$/);
    const dripping = await serve(t, (_, response) => {
      const drip = setInterval(() => response.write('m 0.5\n'), 5);
      response.on('close', () => clearInterval(drip));
    });
    assert.match(
      await reasonFrom(source(t, { url: `http://${dripping}`, timeoutMs: 200 })),
      /^no answer within 200 ms$/,
    );
  });

  test('loses its request when the gate no longer wants the answer', async (t) => {
    const stop = new AbortController();
    let closed: Promise<unknown> = Promise.resolve();
    const address = await serve(t, (_, response) => {
      closed = once(response, 'close');
      stop.abort();
    });
    const reading = await source(t, { url: `http://${address}` }).read(stop.signal);
    assert.deepEqual(reading, { ok: false, reason: 'the reading was cancelled' });
    await closed;
  });

  test('may not send more than 8 MB, announced or not', async (t) => {
    const line = `m_other{a="${'x'.repeat(1000)}"} 1\n`;
    const announced = await serve(t, (_, response) => {
      response.writeHead(200, { ...TEXT, 'content-length': 9 * 1024 * 1024 }).flushHeaders();
    });
    assert.match(await reasonFrom(source(t, { url: `http://${announced}` })), /^the answer is longer than 8 MB$/);
    const endless = await serve(t, (_, response) => {
      const more = (): void => {
        while (response.write(line.repeat(100)));
      };
      response.on('drain', more);
      more();
    });
    assert.match(await reasonFrom(source(t, { url: `http://${endless}` })), /^the answer is longer than 8 MB$/);
    assert.equal((await sampleFrom(await page(t, `${line.repeat(7000)}m 0.5\n`))).budget, 0.5);
  });

  test('may not compress its answer', async (t) => {
    const packed = await page(t, 'm 0.5\n', {}, { ...TEXT, 'content-encoding': 'gzip' });
    assert.match(await reasonFrom(packed), /^the answer is compressed \(gzip\)$/);
  });

  test('may break off, hang up or be down: the reading has no sample', async (t) => {
    const breaking = await serve(t, (_, response) => {
      response.writeHead(200, { ...TEXT, 'content-length': 100 }).write('m 0.5\n', () => response.destroy());
    });
    assert.match(await reasonFrom(source(t, { url: `http://${breaking}` })), /^the answer breaks off$/);
    const hanging = await serve(t, ({ socket }) => socket.destroy());
    assert.match(await reasonFrom(source(t, { url: `http://${hanging}` })), /^other side closed$/);
    assert.match(await reasonFrom(source(t, { url: 'http://127.0.0.1:1' })), /ECONNREFUSED/);
    assert.match(await reasonFrom(source(t, { url: 'http://no-such-host.invalid' })), /no-such-host\.invalid/);
  });

  test('keeps its connection, and gets the request again if it has just closed it', async (t) => {
    const sockets = new Set<unknown>();
    let questions = 0;
    const address = await serve(t, ({ socket }, response) => {
      questions += 1;
      const known = sockets.has(socket);
      sockets.add(socket);
      // The third question on one connection finds it closed.
      if (known && questions === 3) return socket.resetAndDestroy();
      return response.writeHead(200, TEXT).end('m 0.5\n');
    });
    const scrape = source(t, { url: `http://${address}` });
    for (let turn = 0; turn < 3; turn += 1) await sampleFrom(scrape);
    assert.deepEqual([questions, sockets.size], [4, 2]);
  });

  test('loses its connections when the source is closed', async (t) => {
    let socket: IncomingMessage['socket'] | undefined;
    const address = await serve(t, (request, response) => {
      socket = request.socket;
      response.writeHead(200, TEXT).end('m 0.5\n');
    });
    const scrape = source(t, { url: `http://${address}` });
    await sampleFrom(scrape);
    const closed = once(socket as IncomingMessage['socket'], 'close');
    await scrape.close();
    await closed;
  });
});
