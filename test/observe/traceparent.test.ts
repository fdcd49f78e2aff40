import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseTraceparent } from '../../src/observe/export/tracing.ts';

const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736';
const SPAN = '00f067aa0ba902b7';

test('the parser splits a valid header', () => {
  assert.deepEqual(parseTraceparent(`00-${TRACE}-${SPAN}-01`), { traceId: TRACE, spanId: SPAN, flags: 1 });
  assert.deepEqual(parseTraceparent(`00-${TRACE}-${SPAN}-00`), { traceId: TRACE, spanId: SPAN, flags: 0 });
  assert.equal(parseTraceparent(`cc-${TRACE}-${SPAN}-03-what comes later`)?.flags, 3);
});

const INVALID: Readonly<Record<string, unknown>> = {
  'no header': undefined,
  'several headers': [`00-${TRACE}-${SPAN}-01`],
  'an empty one': '',
  'a version that there will never be': `ff-${TRACE}-${SPAN}-01`,
  'more parts than version 00 has': `00-${TRACE}-${SPAN}-01-x`,
  'upper case': `00-${TRACE.toUpperCase()}-${SPAN}-01`,
  'a short trace id': `00-${TRACE.slice(1)}-${SPAN}-01`,
  'a trace id of zeros': `00-${'0'.repeat(32)}-${SPAN}-01`,
  'a span id of zeros': `00-${TRACE}-${'0'.repeat(16)}-01`,
  'something before it': ` 00-${TRACE}-${SPAN}-01`,
  'something behind it': `00-${TRACE}-${SPAN}-01\n`,
};
for (const [what, header] of Object.entries(INVALID)) {
  test(`${what} is not a valid header`, () => assert.equal(parseTraceparent(header), null));
}
