/**
 * The engine's own listener as the flows of a Node-RED configure it.
 * Shows: way listener.
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import type { IncomingMessage } from 'node:http';
import { request } from 'node:https';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { test } from 'node:test';
import { endpoint, func, httpIn, runtime, stage, TAB } from '../../fixtures/flow.ts';
import { engineUrl, type FlowNode, useNodeRed } from '../../fixtures/node-red.ts';
import { until } from '../../fixtures/polling.ts';

const red = useNodeRed();

function flows(properties: Readonly<Record<string, unknown>>, more: readonly FlowNode[] = []): FlowNode[] {
  const schema = JSON.stringify({ type: 'object', properties: { n: { type: 'number' } } });
  return [
    TAB,
    runtime('runtime', properties),
    ...endpoint('/double', 'double'),
    stage('double', 'return { n: input.n * 2 };', 'collector /double', { inputSchema: schema }),
    ...more,
  ];
}

async function enginePid(): Promise<number | null | undefined> {
  return (await red.snapshot()).runtimes[0]?.engine.pid;
}

test('the document has the endpoints that the engine serves, and no others', async () => {
  const through = [httpIn('in', '/through', 'pass'), func('pass', 'return msg;', 'double')];
  await red.deployReady(flows({ listen: '127.0.0.1:0' }, through));
  const url = await engineUrl(red);
  const document = await until('the document has the schema', async () => {
    const answer = await fetch(`${url}/openapi.json`);
    const text = await answer.text();
    return text.includes('"number"') && (JSON.parse(text) as { paths: object });
  });
  assert.deepEqual(Object.keys(document.paths), ['/double']);
  assert.equal((await fetch(`${url}/through`, { method: 'POST' })).status, 404);
});

test('a port that is in use turns the badges red, and the stages serve Node-RED', async () => {
  const other = createServer().listen(0, '127.0.0.1');
  await once(other, 'listening');
  const { port } = other.address() as { port: number };
  await red.deployReady(flows({ listen: '127.0.0.1:0' }));
  const before = await enginePid();
  await red.deploy(flows({ listen: `127.0.0.1:${port}` }));
  await until('the badge says so', () => {
    const { fill, text } = red.badges.get('double') ?? {};
    return fill === 'red' && text === `cannot listen: port ${port} is in use`;
  });
  const said = `cannot listen at 127.0.0.1:${port}: port ${port} is in use (EADDRINUSE)`;
  assert.ok(red.logs.some((line) => line.includes(said)));
  assert.equal((await red.post('/double', { n: 1 })).status, 200);
  other.close();
  assert.equal(await engineUrl(red), `http://127.0.0.1:${port}`);
  await until('the badge is as usual', () => red.badges.get('double')?.fill === 'green');
  assert.equal(await enginePid(), before, 'the engine went on');
  await red.deploy(flows({}));
  await until('no process listens', () =>
    fetch(`http://127.0.0.1:${port}/health/live`).then(
      () => false,
      () => true,
    ),
  );
  assert.equal((await red.snapshot()).runtimes[0]?.listener, null);
  assert.equal(await enginePid(), before);
});

test('a tls-config node turns the listener to HTTPS, and a deploy can change its certificates', async (t) => {
  const [key, cert] = [join(red.userDir, 'key.pem'), join(red.userDir, 'cert.pem')];
  if (!makeCertificate(key, cert) && process.env['CI'] !== 'true') {
    t.skip('no openssl found');
    return;
  }
  const tls: FlowNode = { id: 'tls', type: 'tls-config', name: '', key, cert, ca: '', verifyservercert: false };
  const listening = flows({ listen: 'localhost:0', tls: 'tls' }, [tls]);
  await red.deployReady(listening);
  // The last report may still be about the listener of the test before.
  const url = await until('it listens with TLS', async () => {
    const found = await engineUrl(red);
    return found.startsWith('https:') && found;
  });
  assert.match(url, /^https:\/\/localhost:\d+$/);
  const ask = async (): Promise<string> => {
    const headers = { 'Content-Type': 'application/json' };
    const sent = request(`${url}/double`, { method: 'POST', headers, ca: await readFile(cert), agent: false });
    sent.end('{"n":4}');
    const [answer] = (await once(sent, 'response')) as [IncomingMessage];
    return (await buffer(answer)).toString();
  };
  assert.equal(await ask(), '{"n":8}');

  makeCertificate(key, cert);
  await assert.rejects(ask(), 'the client knows the new certificate only');
  await red.deploy(listening);
  await until('the engine has the new certificate', () => ask().catch(() => false as const));
  assert.equal(await engineUrl(red), url);

  await red.deploy(flows({ listen: 'localhost:0', tls: 'gone' }));
  const state = await until('a missing tls-config is told', async () => {
    const { listener } = (await red.snapshot()).runtimes[0] ?? {};
    return listener?.tag === 'failed' && listener;
  });
  assert.match(state.message, /the TLS configuration has no key, or no certificate/);
});

/** Writes a key and a self-signed certificate. Returns false if that is not possible here. */
function makeCertificate(key: string, cert: string): boolean {
  const made = ['req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-keyout', key, '-out', cert, '-days', '2'];
  const name = ['-subj', '/CN=localhost', '-addext', 'subjectAltName=DNS:localhost'];
  return spawnSync('openssl', [...made, ...name]).status === 0;
}
