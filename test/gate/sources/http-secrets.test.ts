/** How a source over HTTP authenticates, and that it never reveals its secrets. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import type { RequestListener, Server } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, describe, type TestContext, test } from 'node:test';
import type { BudgetSource, SourceServices } from '../../../src/gate/source.ts';
import { reasonFrom, sampleFrom } from '../../fixtures/sources.ts';
import { serve, source, TEXT } from './http-server.ts';

describe('secrets', () => {
  const SECRETS = ['tok+en/with=signs', 'pass word&1'] as const;
  const encoded = Buffer.from(`me:${SECRETS[1]}`).toString('base64');

  /** A server that tells whatever it is told. */
  const echo: RequestListener = (request, response) => {
    const { authorization = '' } = request.headers;
    const error = `no: ${authorization} ${SECRETS.map(encodeURIComponent).join(' ')} ${SECRETS.join(' ')}`;
    response.writeHead(400).end(JSON.stringify({ status: 'error', errorType: 'x', error }));
  };

  for (const [how, credentials, header] of [
    ['a token', { token: SECRETS[0] }, `Bearer ${SECRETS[0]}`],
    ['user and password', { username: 'me', password: SECRETS[1] }, `Basic ${encoded}`],
    [
      'a token beside user and password',
      { token: SECRETS[0], username: 'me', password: SECRETS[1] },
      `Bearer ${SECRETS[0]}`,
    ],
  ] as const) {
    test(`${how} goes to the server`, async (t) => {
      const seen: (string | undefined)[] = [];
      const address = await serve(t, (request, response) => {
        seen.push(request.headers.authorization);
        response.writeHead(200, TEXT).end('m 0.5\n');
      });
      await sampleFrom(source(t, { url: `http://${address}` }, { credentials }));
      assert.deepEqual(seen, [header]);
    });

    test(`${how} appears in no text for people, even if the server returns it`, async (t) => {
      const url = `http://${await serve(t, echo)}/api/v1/query?key=${encodeURIComponent(SECRETS[0])}`;
      const asking = source(t, { source: 'prometheus', query: 'm', url }, { credentials });
      const shown = `${await reasonFrom(asking)} ${asking.description} ${JSON.stringify(asking)}`;
      assert.match(shown, /^HTTP 400: no: (Bearer|Basic) \*\*\*/);
      for (const secret of Object.values(credentials)) {
        if (secret === 'me') continue;
        for (const form of [secret, encodeURIComponent(secret), encoded]) assert.ok(!shown.includes(form), shown);
      }
    });
  }
});

describe('TLS', () => {
  const folder = mkdtempSync(join(tmpdir(), 'modelet-tls-'));
  after(() => rmSync(folder, { recursive: true, force: true }));
  const file = (name: string): string => join(folder, name);
  const made = spawnSync('openssl', [
    ...['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2'],
    ...[
      '-subj',
      '/CN=localhost',
      '-addext',
      'subjectAltName=DNS:localhost',
      '-keyout',
      file('key.pem'),
      '-out',
      file('cert.pem'),
    ],
  ]);
  const skip = made.status === 0 || process.env['CI'] === 'true' ? false : 'no openssl found';

  /** A server that wants the client's certificate, too. */
  const serveTls = (t: TestContext): Promise<string> => {
    const [key, cert] = [readFileSync(file('key.pem')), readFileSync(file('cert.pem'))];
    const server = createTlsServer({ key, cert, ca: cert, requestCert: true, rejectUnauthorized: false });
    return serve(
      t,
      (request, response) => {
        const authorized = (request.socket as unknown as { authorized: boolean }).authorized;
        response.writeHead(authorized ? 200 : 401, TEXT).end('m 0.5\n');
      },
      server as unknown as Server,
    );
  };

  test('asks with the certificates of the TLS configuration node', { skip }, async (t) => {
    const url = `https://${await serveTls(t)}`;
    const [key, cert] = [readFileSync(file('key.pem')), readFileSync(file('cert.pem'))];
    const read = (tls: SourceServices['tls']): BudgetSource => source(t, { url, tls: 'a-node' }, { tls });
    assert.equal((await sampleFrom(read({ ca: cert, key, cert, servername: 'localhost' }))).budget, 0.5);
    assert.match(await reasonFrom(read({ ca: cert, servername: 'localhost' })), /^HTTP 401/);
    assert.match(await reasonFrom(read({ ca: cert, servername: 'elsewhere' })), /elsewhere/);
    assert.match(await reasonFrom(read({})), /self-signed certificate/);
    assert.match(await reasonFrom(read({ rejectUnauthorized: false })), /^HTTP 401/);
    assert.match(await reasonFrom(source(t, { url })), /self-signed certificate/);
  });
});
