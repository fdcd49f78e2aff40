/** The signal that a call gets in its context. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { BatchCalls } from '../../src/runtime/worker/calls.ts';
import { context } from './rig.ts';

function calls(...cancelled: number[]): BatchCalls {
  return new BatchCalls(context(), (id) => cancelled.includes(id));
}

test('the signal of a call aborts when none of its requests is wanted any more', () => {
  const batch = calls();
  const { signal } = batch.contextFor([1, 2]);
  const { signal: other } = batch.contextFor([3]);
  batch.cancel([1, 9]);
  assert.equal(signal.aborted, false);
  batch.cancel([2]);
  assert.deepEqual([signal.aborted, other.aborted], [true, false]);
});

test('a signal that is first asked for after the cancellation has aborted, and each call has one signal', () => {
  const call = calls(1).contextFor([1]);
  assert.equal(call.signal.aborted, true);
  assert.equal(call.signal, call.signal);
});
