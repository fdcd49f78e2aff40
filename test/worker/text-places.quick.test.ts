/** The places in a text of the words that a tokenizer makes of it. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Spans } from '../../src/runtime/worker/tasks/spans.ts';

test('words that a tokenizer has changed have their places in the text', () => {
  const spans = new Spans('An \u00c9l\u00e8ve of ﬁne  AT&T, AT&T');
  const slices = ['an', 'eleve', 'nowhere', 'of', 'fi', '##ne', 'at & t', 'at&t', 'at&t'].map((word) =>
    spans.next(word),
  );
  assert.deepEqual(
    slices.map((span) => span && [span.start, span.end]),
    [[0, 2], [3, 8], undefined, [9, 11], [12, 13], [13, 15], [17, 21], [23, 27], undefined],
  );
});
