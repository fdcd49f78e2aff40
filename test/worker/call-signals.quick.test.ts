/** The signal that a call gets in its context. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CallSignals } from '../../src/runtime/worker/calls.ts';
import { context } from './rig.ts';

function signals(...cancelled: number[]): CallSignals {
  return new CallSignals(context(), (id) => cancelled.includes(id));
}

test('the signal of a batch aborts when none of its requests is wanted any more', () => {
  const all = signals();
  const { signal } = all.begin().contextFor([1, 2]);
  const { signal: other } = all.begin().contextFor([3]);
  all.cancel([1, 9]);
  assert.equal(signal.aborted, false);
  all.cancel([2]);
  assert.deepEqual([signal.aborted, other.aborted], [true, false]);
});

test('a signal that is first asked for after the cancellation has aborted, and each call has one signal', () => {
  const call = signals(1).begin().contextFor([1]);
  assert.equal(call.signal.aborted, true);
  assert.equal(call.signal, call.signal);
});

test('a call that was answered keeps its signal as it was', () => {
  const all = signals();
  const calls = all.begin();
  const { signal } = calls.contextFor([1]);
  all.end(calls);
  all.cancel([1]);
  assert.equal(signal.aborted, false);
});
