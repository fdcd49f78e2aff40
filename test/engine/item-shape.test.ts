/** The form in which V8 keeps items. The engine reads them so often that slow ones cost it a tenth of its CPU. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setFlagsFromString } from 'node:v8';
import { runInThisContext } from 'node:vm';
import { itemOn } from '../../src/runtime/engine/stage/item.ts';
import { item } from '../wire/frame-values.ts';

test('an item is no dictionary for V8, and has all fields of the item on the wire', (t) => {
  setFlagsFromString('--allow-natives-syntax');
  t.after(() => setFlagsFromString('--no-allow-natives-syntax'));
  const isFast = runInThisContext('(object) => %HasFastProperties(object)') as (object: object) => boolean;
  const wire = item({ id: 7, streams: true });
  const leg = { route: { stages: [] }, stages: [], tapped: [], next: null, following: [] };
  const made = itemOn(leg as never, wire);
  assert.ok(isFast(made));
  assert.ok(!isFast(Object.create(null)));
  assert.deepEqual({ ...made, ...wire }, made);
  assert.equal(made.wantsParts, true);
});
