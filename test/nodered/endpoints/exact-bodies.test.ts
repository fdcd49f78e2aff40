/** Bodies that a parser could change in silence: each arrives exactly or is refused, compiled, through the flow and at the engine. */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { brotliCompressSync, gzipSync } from 'node:zlib';
import { CALLERS, TYPES } from '../../fixtures/callers.ts';
import { engineUrl, NodeRed } from '../../fixtures/node-red.ts';
import { answeredAlike, flows } from './endpoint-pairs.ts';

const JSON_BODY = { 'Content-Type': TYPES.json };
const LATIN_1 = { 'Content-Type': 'text/plain; charset=ISO-8859-1' };
const PROBLEM = { 'Content-Type': 'application/problem+json' };
const TEXT = { 'Content-Type': 'text/plain' };
const UTF_16 = { 'Content-Type': 'application/json; charset=utf-16' };
const gzip = (headers: Record<string, string>) => ({ ...headers, 'Content-Encoding': 'gzip' });
const NOT_UTF_8 = Buffer.from([0x22, 0xff, 0x22]);
const JSON_NOT_UTF_8 = 'the body is not valid JSON: it is not UTF-8';
const TEXT_NOT_UTF_8 = 'the body is not UTF-8: send it in UTF-8, or as application/octet-stream';
const BEYOND = 'the body is not valid JSON: it has a number beyond 1.8e308';
const UNKNOWN = 'the body cannot be read: unsupported charset "WINDOWS-1251"';
/** `expected`: the value that comes back, or the message of the error. */
const ROWS: readonly (readonly [
  name: string,
  headers: Record<string, string>,
  body: Buffer,
  status: number,
  expected: unknown,
])[] = [
  ['JSON that is not UTF-8', JSON_BODY, NOT_UTF_8, 400, JSON_NOT_UTF_8],
  ['compressed JSON that is not UTF-8', gzip(JSON_BODY), gzipSync(NOT_UTF_8), 400, JSON_NOT_UTF_8],
  ['compressed JSON that is too large a number', gzip(JSON_BODY), gzipSync('{"a": 1e999}'), 400, BEYOND],
  ['compressed JSON behind a byte order mark', gzip(JSON_BODY), gzipSync('\ufeff["\u00e4"]'), 201, ['\u00e4']],
  ['compressed JSON with Brotli', { ...JSON_BODY, 'Content-Encoding': 'br' }, brotliCompressSync('[1]'), 201, [1]],
  ['JSON under another name that is not UTF-8', PROBLEM, NOT_UTF_8, 400, JSON_NOT_UTF_8],
  ['compressed JSON under another name', gzip(PROBLEM), gzipSync('["\u00e4"]'), 201, ['\u00e4']],
  [
    'JSON under another name in Latin 1',
    { 'Content-Type': 'application/problem+json; charset=latin1' },
    NOT_UTF_8,
    415,
    'the body cannot be read: unsupported charset "LATIN1"',
  ],
  ['text', TEXT, Buffer.from('\u00e4\u20ac'), 201, '\u00e4\u20ac'],
  ['text behind a byte order mark', TEXT, Buffer.from('\ufeffa'), 201, 'a'],
  ['text that is not UTF-8', TEXT, NOT_UTF_8, 400, TEXT_NOT_UTF_8],
  ['text that is cut within a character', TEXT, Buffer.from('\u20ac').subarray(0, 2), 400, TEXT_NOT_UTF_8],
  [
    'text in UTF-8 by another name',
    { 'Content-Type': 'text/csv; charset="UTF8"' },
    Buffer.from('\u00e4'),
    201,
    '\u00e4',
  ],
  ['text in ASCII', { 'Content-Type': 'text/plain; charset=us-ascii' }, Buffer.from('a'), 201, 'a'],
  ['text in Latin 1', LATIN_1, Buffer.from([0xe4, 0x80, 0x61]), 201, '\u00e4\u0080a'],
  ['compressed text in Latin 1', gzip(LATIN_1), gzipSync(Buffer.from([0xe4])), 201, '\u00e4'],
  ['compressed text', gzip(TEXT), gzipSync('\u00e4'), 201, '\u00e4'],
  [
    'text in another character set',
    { 'Content-Type': 'text/plain; charset=windows-1251' },
    Buffer.from([0xe4]),
    415,
    UNKNOWN,
  ],
  [
    'JSON in another character set',
    { 'Content-Type': 'application/json; charset=windows-1251' },
    Buffer.from('1'),
    415,
    UNKNOWN,
  ],
  ['XML that is not UTF-8', { 'Content-Type': 'application/xml' }, NOT_UTF_8, 400, TEXT_NOT_UTF_8],
  ['bytes', { 'Content-Type': 'application/octet-stream' }, NOT_UTF_8, 201, NOT_UTF_8.toString('latin1')],
  ['JSON in UTF-16', UTF_16, Buffer.from('\ufeff["\u20ac"]', 'utf16le'), 201, ['\u20ac']],
  ['JSON in UTF-16, the high byte first', UTF_16, Buffer.from('["\u20ac"]', 'utf16le').swap16(), 201, ['\u20ac']],
  [
    'JSON in UTF-16 with half of a pair',
    UTF_16,
    Buffer.from('["\ud83d"]', 'utf16le'),
    400,
    'the body is not valid JSON: it is not UTF-16',
  ],
  ['JSON in UTF-16 with too large a number', UTF_16, Buffer.from('[1e999]', 'utf16le'), 400, BEYOND],
  [
    'JSON in UTF-32',
    { 'Content-Type': 'application/json; charset=utf-32' },
    Buffer.from('1'),
    415,
    'the body cannot be read: unsupported charset "UTF-32"',
  ],
];

let red: NodeRed;
/** Address of the engine. */
let engine: string;
before(async () => {
  red = await NodeRed.start();
  await red.deploy(flows());
  await red.whenReady();
  engine = await engineUrl(red);
});
after(() => red.stop());

describe('a body of text arrives exactly or is refused', () => {
  for (const [name, headers, body, status, expected] of ROWS) {
    test(name, async () => {
      assert.equal(await answeredAlike({ red: red.url, engine }, { headers, body, kind: '/caught' }, name), status);
      // No stage of this endpoint takes text.
      await answeredAlike({ red: red.url, engine }, { headers, body, kind: '/plain' }, name);
      const answer = await CALLERS['node:http'](`${red.url}/f/caught`, headers, body);
      if (status === 201) {
        const text = answer.bytes.toString(name === 'bytes' ? 'latin1' : 'utf8');
        assert.deepEqual(typeof expected === 'string' ? text : JSON.parse(text), expected);
      } else assert.equal(JSON.parse(answer.bytes.toString()).error.message, expected);
    });
  }
});
