/** The page of the endpoints without the package of its viewer: it says what to install. */
import assert from 'node:assert/strict';
import Module from 'node:module';
import { test } from 'node:test';
import { VIEWER_FILES, VIEWER_PACKAGE, VIEWER_START } from '../../../src/http/openapi/page.ts';
import { runtime, TAB } from '../../fixtures/flow.ts';
import { NodeRed } from '../../fixtures/node-red.ts';

interface Internals {
  _resolveFilename(request: string, ...more: unknown[]): string;
}

/** From now on the package cannot be found, as if it was not installed. */
function hide(name: string): void {
  const internals = Module as unknown as Internals;
  const resolve = internals._resolveFilename;
  internals._resolveFilename = (request, ...more) => {
    if (request.startsWith(`${name}/`)) throw Object.assign(new Error('hidden'), { code: 'MODULE_NOT_FOUND' });
    return resolve.call(internals, request, ...more);
  };
}

test('without its viewer the page names the package and leads to the document', async (t) => {
  hide(VIEWER_PACKAGE);
  const red = await NodeRed.start();
  t.after(() => red.stop());
  await red.deploy([TAB, runtime('runtime', { publicPath: '/ops' })]);
  for (const place of ['/admin/modelets', '/ops']) {
    const response = await fetch(`${red.url}${place}/openapi`);
    const page = await response.text();
    assert.equal(response.status, 200);
    assert.match(page, /npm install swagger-ui-dist/);
    assert.doesNotMatch(page, /<script/);
    const link = new URL(/href="(openapi[^"]*)"/.exec(page)?.[1] ?? '', response.url);
    assert.equal(((await (await fetch(link)).json()) as { openapi: string }).openapi, '3.1.0');
    for (const path of Object.keys(VIEWER_FILES)) assert.equal((await fetch(red.url + place + path)).status, 404);
    assert.equal((await fetch(red.url + place + VIEWER_START)).status, 200);
  }
});
