/** The place of compiled endpoints: never in front of code that could refuse a request. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type HostSettings, hostPlace, passesEditor } from '../../../src/node-red/http/host-place.ts';

const FRONT = { tag: 'server', headers: [] };
const OPEN = { tag: 'server', headers: ['Access-Control-Allow-Origin', '*'] };
const BEHIND = { tag: 'app' };

const ROWS: readonly (readonly [about: string, settings: HostSettings, version: number, place: object])[] = [
  ['Node-RED 5 as it comes', {}, 5, FRONT],
  ['Node-RED 4 as it comes', {}, 4, OPEN],
  ['both roots are the same', { httpAdminRoot: '/red', httpNodeRoot: '/red/' }, 4, OPEN],
  ['the editor has a separate root', { httpAdminRoot: '/admin', httpNodeRoot: '/' }, 4, FRONT],
  ['the HTTP-in nodes have a root below the one of the editor', { httpNodeRoot: '/api' }, 4, OPEN],
  ['neither root is in the other', { httpAdminRoot: '/admin', httpNodeRoot: '/api' }, 4, FRONT],
  ['there is no editor', { httpAdminRoot: false }, 4, FRONT],
  ['roots that only begin alike', { httpAdminRoot: '/api', httpNodeRoot: '/apis' }, 4, FRONT],
  ['clients log in', { httpNodeAuth: { user: 'a', pass: 'b' } }, 5, BEHIND],
  ['users of the editor log in, at the same root', { httpAdminAuth: { user: 'a', pass: 'b' } }, 5, BEHIND],
  ['a middleware of the editor, at the same root', { httpAdminMiddleware: () => {} }, 5, BEHIND],
  ['other origins of the editor, at the same root', { httpAdminCors: { origin: 'a' } }, 5, BEHIND],
  [
    'a middleware of the editor, elsewhere',
    { httpAdminRoot: '/a', httpNodeRoot: '/b', httpAdminMiddleware: () => {} },
    5,
    FRONT,
  ],
  ['options of Express', { httpServerOptions: { 'trust proxy': true } }, 5, BEHIND],
];

for (const [about, settings, version, place] of ROWS) {
  test(`in Node-RED's own server: ${about}`, () => {
    assert.deepEqual(hostPlace(settings, true, version), place);
  });
}

test('only a path below the root of the editor passes the editor', () => {
  const settings = { httpAdminRoot: '/admin/', httpNodeRoot: '/' };
  for (const [path, passes] of [
    ['/admin/run', true],
    ['/admin', true],
    ['/administration', false],
    ['/run', false],
  ] as const) {
    assert.equal(passesEditor(settings, path), passes, path);
  }
});

test('endpoints stand behind everything in a server that another program has made', () => {
  for (const [, settings, version] of ROWS) assert.deepEqual(hostPlace(settings, false, version), BEHIND);
});
