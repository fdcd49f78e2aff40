/** Stages whose modelet is Python, with no package but the standard library. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { serve } from '../fixtures/service.ts';

describe('a stage in Python', () => {
  test('gives back what it gets', async (t) => {
    const service = await serve(t, { stages: [{ id: 'echo', python: 'echo' }] });
    const value = { text: 'x', list: [1, null, { yes: true }], bytes: Buffer.from([0, 255]) };
    assert.deepEqual(await service.value(value), value);
  });
});
