/** HTTP servers that answer as a test wants them to, and the sources that ask them. */
import { once } from 'node:events';
import { createServer, type RequestListener, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { TestContext } from 'node:test';
import { compileGate } from '../../../src/config/compile-gate.ts';
import type { BudgetSource, SourceServices } from '../../../src/gate/source.ts';
import { createSource } from '../../../src/gate/sources/create.ts';
import { SERVICES } from '../../fixtures/sources.ts';

/** Long enough for any machine; a test that waits for it fails. */
const PATIENCE_MS = 30_000;
export const TEXT = { 'content-type': 'text/plain; version=0.0.4' };

/** Serves until the test has ended, and closes no connection by itself. */
export async function serve(
  t: TestContext,
  listener: RequestListener,
  server: Server = createServer(),
): Promise<string> {
  server.keepAliveTimeout = 0;
  server.on('request', listener).listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.after(() => {
    server.close();
    server.closeAllConnections();
  });
  return `127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** The source of these settings, a scrape of `m` unless they say another; closed when the test has ended. */
export function source(t: TestContext, raw: object, services: Partial<SourceServices> = {}): BudgetSource {
  const gate = compileGate({ source: 'scrape', metric: 'm', timeoutMs: PATIENCE_MS, ...raw });
  const made = createSource(gate, { ...SERVICES, ...services });
  t.after(() => made.close());
  return made;
}

/** The source of a page with this text. */
export async function page(
  t: TestContext,
  body: string,
  raw: object = {},
  headers: Readonly<Record<string, string>> = TEXT,
): Promise<BudgetSource> {
  const address = await serve(t, (_, response) => response.writeHead(200, headers).end(body));
  return source(t, { url: `http://${address}/metrics`, ...raw });
}
