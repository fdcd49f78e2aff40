import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { isModeletError } from '../../src/core/errors.ts';
import { decodeBody, type RequestBody } from '../../src/http/body.ts';

const DEFAULT = ['application/json', 'application/msgpack'];
const PACKED = Buffer.from([0x92, 0xcd, 0xff, 0xfe, 0xa1, 0x61]);

function decode(body: Partial<RequestBody>, mediaTypes: readonly string[] | null = DEFAULT, maxBytes = 1000): unknown {
  return decodeBody(
    { contentType: undefined, contentEncoding: undefined, given: '', ...body },
    { mediaTypes, maxBytes },
  );
}

function refusal(act: () => unknown): readonly [code: string, message: string] {
  try {
    act();
  } catch (thrown) {
    assert.ok(isModeletError(thrown), String(thrown));
    return [thrown.code, thrown.message];
  }
  throw new assert.AssertionError({ message: 'it was taken' });
}

describe('the body of a request that goes through the flow', () => {
  test('stays as it is if the server has parsed its JSON', () => {
    const given = { a: 1 };
    assert.equal(decode({ contentType: 'application/json', given }), given);
  });

  test('is parsed if the server has left its JSON as text or bytes', () => {
    assert.deepEqual(decode({ contentType: 'application/vnd.api+json', given: '{"a":1}' }), { a: 1 });
    assert.deepEqual(decode({ contentType: 'application/json', given: Buffer.from('[1]') }), [1]);
    assert.equal(refusal(() => decode({ contentType: 'application/vnd.api+json', given: '{"a"' }))[0], 'bad_request');
  });

  test('is decoded from the bytes of msgpack, and from text if the server has read it as text', () => {
    assert.deepEqual(decode({ contentType: 'application/msgpack', given: PACKED }), [0xfffe, 'a']);
    assert.deepEqual(decode({ contentType: 'application/x-msgpack', given: PACKED }), [0xfffe, 'a']);
    assert.deepEqual(decode({ contentType: 'application/msgpack', given: '\u0001' }), 1);
  });

  test('stays as it is if another parser has decoded it', () => {
    const given = { a: 1 };
    assert.equal(decode({ contentType: 'application/msgpack', given }), given);
  });

  test('of a type that is not listed gets unsupported_media, and the answer says what to send instead', () => {
    assert.deepEqual(
      refusal(() => decode({ contentType: 'text/plain', given: 'a' })),
      ['unsupported_media', 'Content-Type text/plain is not taken here: send application/json or application/msgpack'],
    );
    assert.deepEqual(
      refusal(() => decode({ given: 'a' })),
      ['unsupported_media', 'the body has no Content-Type: send application/json or application/msgpack'],
    );
    const form = { contentType: 'application/x-www-form-urlencoded', given: { '{}': '' } };
    assert.match(refusal(() => decode(form))[1], /; curl -d needs -H 'Content-Type: application\/json'$/);
    assert.equal(
      refusal(() => decode({ contentType: 'application/msgpack', given: PACKED }, ['application/json']))[0],
      'unsupported_media',
    );
    assert.equal(refusal(() => decode({ contentType: 'no type', given: 'a' }, ['image/*']))[0], 'unsupported_media');
  });

  test('of a listed type passes unchanged', () => {
    const given = Buffer.from('GIF89a');
    assert.equal(decode({ contentType: 'image/gif', given }, ['image/*']), given);
    assert.equal(decode({ contentType: 'image/gif', given }, ['*/*']), given);
    assert.equal(decode({ given }, ['*/*']), given);
    assert.equal(decode({ contentType: 'image/gif', given }, null), given);
  });

  test('that is empty is accepted, whatever its type', () => {
    assert.equal(decode({ given: '' }), '');
    assert.deepEqual(decode({ contentType: 'text/plain', given: Buffer.alloc(0) }), Buffer.alloc(0));
    assert.equal(decode({ contentType: 'application/msgpack', given: '' }), '');
    assert.equal(decode({ given: undefined }), undefined);
  });

  test('of msgpack beyond the limit gets payload_too_large', () => {
    const large = { contentType: 'application/msgpack', given: PACKED };
    assert.match(
      refusal(() => decode(large, DEFAULT, 5)).join(),
      /^payload_too_large,the limit is 5 bytes; the body is 6 bytes$/,
    );
  });

  test('of compressed msgpack gets unsupported_media', () => {
    const body = { contentType: 'application/msgpack', given: PACKED };
    assert.equal(refusal(() => decode({ ...body, contentEncoding: 'gzip' }))[0], 'unsupported_media');
    assert.deepEqual(decode({ ...body, contentEncoding: 'identity' }), [0xfffe, 'a']);
  });
});
