/** JSON text as HTTP clients send it: parsed once, by whoever decodes it; what is wrong with it is the caller's fault. */
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

  test('with invalid UTF-8 gets the replacement character, as in any decoder of Node.js', () => {
    assert.deepEqual(parse(Buffer.from([0x22, 0xff, 0x22])), '\ufffd');
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
