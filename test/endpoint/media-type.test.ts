import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { answerForm, isInRanges, mediaKindOf, mediaTypeOf } from '../../src/http/request-head.ts';

describe('Content-Type', () => {
  const kinds: readonly (readonly [header: string, kind: string | null])[] = [
    ['application/json', 'json'],
    ['application/json; charset=utf-8', 'json'],
    [' Application/JSON ;charset="utf-8"', 'json'],
    ['application/vnd.api+json', 'json'],
    ['application/msgpack', 'msgpack'],
    ['application/x-msgpack', 'msgpack'],
    ['application/vnd.msgpack; v=5', 'msgpack'],
    ['application/x-www-form-urlencoded', 'other'],
    ['text/json', 'other'],
    ['image/png', 'other'],
    ['', null],
    ['json', null],
    ['not a type', null],
    ['application/', null],
    ['application/json, text/html', null],
  ];
  for (const [header, kind] of kinds) {
    test(`"${header}" is ${kind}`, () => {
      const type = mediaTypeOf(header);
      assert.equal(type === null ? null : mediaKindOf(type), kind);
    });
  }

  const listed: readonly (readonly [type: string, ranges: string, is: boolean])[] = [
    ['application/json', 'application/json, application/msgpack', true],
    ['application/vnd.api+json', 'application/json', true],
    ['application/x-msgpack', 'application/msgpack', true],
    ['application/msgpack', 'application/x-msgpack', true],
    ['application/msgpack', 'application/json', false],
    ['application/json', 'application/vnd.api+json', false],
    ['application/vnd.api+json', 'application/vnd.api+json', true],
    ['image/png', 'image/*', true],
    ['imageset/png', 'image/*', false],
    ['image/png', 'image/jpeg', false],
    ['anything/at-all', '*/*', true],
    ['text/plain', 'application/*', false],
  ];
  for (const [type, ranges, is] of listed) {
    test(`${type} is ${is ? '' : 'not '}among ${ranges}`, () => {
      assert.equal(isInRanges(type, ranges.split(', ')), is);
    });
  }
});

describe('Accept', () => {
  const wanted: readonly (readonly [accept: string | undefined, json: string, msgpack: string])[] = [
    // The form of the answer to one who has sent JSON or nothing, and to one who has sent msgpack.
    [undefined, 'usual', 'msgpack'],
    ['*/*', 'usual', 'msgpack'],
    ['application/*', 'usual', 'msgpack'],
    ['text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8', 'usual', 'msgpack'],
    ['application/json', 'json', 'json'],
    ['application/json; charset=utf-8', 'json', 'json'],
    ['application/json, text/plain, */*', 'json', 'json'],
    ['application/msgpack', 'msgpack', 'msgpack'],
    ['application/x-msgpack', 'msgpack', 'msgpack'],
    ['APPLICATION/VND.MSGPACK', 'msgpack', 'msgpack'],
    ['application/msgpack, application/json', 'msgpack', 'msgpack'],
    ['application/json, application/msgpack', 'json', 'json'],
    ['application/json;q=0.5, application/msgpack', 'msgpack', 'msgpack'],
    ['application/json, application/msgpack; q=0.9', 'json', 'json'],
    ['application/json;q=0.5, */*', 'msgpack', 'msgpack'],
    ['application/msgpack;q=0.5, */*', 'usual', 'usual'],
    ['application/msgpack;q=0, */*', 'usual', 'usual'],
    ['application/msgpack;q=0', 'usual', 'usual'],
    ['application/msgpack, */*;q=0.1', 'msgpack', 'msgpack'],
    ['image/png', 'usual', 'msgpack'],
    ['', 'usual', 'msgpack'],
    ['application/msgpack;q=nonsense', 'usual', 'usual'],
  ];
  for (const [accept, afterJson, afterMsgpack] of wanted) {
    test(`${accept ?? 'none'}: ${afterJson}, or ${afterMsgpack} after msgpack`, () => {
      assert.equal(answerForm(accept, null), afterJson);
      assert.equal(answerForm(accept, 'json'), afterJson);
      assert.equal(answerForm(accept, 'other'), afterJson);
      assert.equal(answerForm(accept, 'msgpack'), afterMsgpack);
    });
  }

  test('any Accept header leads to an answer', () => {
    const part = fc.constantFrom(
      'application/json',
      'application/msgpack',
      '*/*',
      ';',
      'q=',
      '0.5',
      ',',
      ' ',
      '/',
      'q=1',
    );
    fc.assert(
      fc.property(
        fc.oneof(
          fc.string(),
          fc.array(part).map((parts) => parts.join('')),
        ),
        (accept) => {
          assert.ok(['json', 'msgpack', 'usual'].includes(answerForm(accept, 'json')));
        },
      ),
    );
  });
});
