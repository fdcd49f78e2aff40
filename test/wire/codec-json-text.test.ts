/** JSON text as HTTP clients send it: parsed once, by the process that decodes it; errors in it are the caller's fault. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import * as fc from 'fast-check';
import { ModeletError } from '../../src/core/errors.ts';
import { CODEC, decodePayload } from '../../src/wire/codec/codec.ts';

function parse(text: string | Buffer): unknown {
  return decodePayload({ codec: CODEC.jsonText, bytes: Buffer.from(text) });
}

function codeOf(text: string | Buffer): string {
  try {
    parse(text);
    return 'ok';
  } catch (thrown) {
    assert.ok(thrown instanceof ModeletError, String(thrown));
    return thrown.code;
  }
}

function nested(levels: number, [open, close]: readonly [string, string], inside = ''): string {
  return `${open.repeat(levels)}${inside}${close.repeat(levels)}`;
}

describe('JSON text', () => {
  test('of any value decodes to that value, with any white space', () => {
    for (const value of fc.sample(fc.jsonValue(), { numRuns: 200, seed: 13 })) {
      for (const spaces of [0, 3]) {
        const text = JSON.stringify(value, null, spaces);
        assert.deepEqual(parse(text), JSON.parse(text));
      }
    }
  });

  test('may begin with a byte order mark', () => {
    assert.deepEqual(parse('\ufeff{"a":1}'), { a: 1 });
  });

  test('that a parser would change in silence is refused: bytes that are no UTF-8, numbers that become infinite', () => {
    const message = 'the body is not valid JSON: it is not UTF-8';
    for (const bytes of [
      [0x22, 0xff, 0x22],
      [0x22, 0xed, 0xa0, 0x80, 0x22],
      [0x22, 0xc0, 0xaf, 0x22],
      [0x22, 0xe2, 0x82],
    ])
      assert.throws(() => parse(Buffer.from(bytes)), { code: 'bad_request', message });
    for (const text of ['1e999', '{"a":[-1E+309]}', `{"a":{"b":${'9'.repeat(400)}}}`])
      assert.throws(() => parse(text), { code: 'bad_request', message: /: it has a number beyond 1.8e308$/ });
    assert.deepEqual(parse('["1e999",1.7e308,1e-999]'), ['1e999', 1.7e308, 0]);
  });

  test('that is not valid is a fault of the caller', () => {
    for (const text of ['', ' ', '{', '{"a":1}}', 'NaN', "{'a':1}", '\ufeff\ufeff1', '{"a":1}\0']) {
      assert.equal(codeOf(text), 'bad_request', text);
    }
    assert.throws(() => parse('{"a"'), /^ModeletError: the body is not valid JSON: /);
  });

  test('may be as deep as any other payload, and no deeper', () => {
    for (const brackets of [
      ['[', ']'],
      ['{"a":', '}'],
    ] as const) {
      const inside = brackets[0] === '[' ? '' : '0';
      assert.equal(codeOf(nested(1001, brackets, inside)), 'ok');
      assert.equal(codeOf(nested(1002, brackets, inside)), 'invalid_input');
    }
    assert.equal(codeOf('['.repeat(100_000)), 'invalid_input');
  });

  test('may have any number of brackets in its strings', () => {
    const value = [`${'['.repeat(5000)}\\`, '"', `\\"${'{'.repeat(5000)}`];
    assert.deepEqual(parse(JSON.stringify(value)), value);
    const flat = Array.from({ length: 5000 }, () => [{}]);
    assert.deepEqual(parse(JSON.stringify(flat)), flat);
  });
});
