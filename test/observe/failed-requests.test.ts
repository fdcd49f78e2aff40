/** Failed requests by stage and code, until a user has read of them. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { addFailures, FailedRequests, ReadFailures } from '../../src/observe/meters/failed-requests.ts';

test('failures are counted by stage and code with the message of the last, and those by design are not', () => {
  const failed = new FailedRequests();
  failed.note({ code: 'invalid_input', message: 'image is missing', stage: 'normalise' }, 1);
  failed.note({ code: 'invalid_input', message: 'image must be array\nat line 3', stage: 'normalise' }, 2);
  failed.note({ code: 'payload_too_large', message: 'x'.repeat(5000) }, 3);
  for (const code of ['dropped', 'cancelled', 'shutting_down'] as const) failed.note({ code, message: 'no' }, 4);
  const [refused, large, ...others] = failed.list();
  assert.deepEqual(others, []);
  assert.deepEqual(refused, {
    stage: 'normalise',
    code: 'invalid_input',
    message: 'image must be array',
    count: 2,
    at: 2,
    isLast: false,
  });
  assert.deepEqual([large?.stage, large?.message.length], [null, 301]);
});

test('of too many kinds of failures, those that are longest ago are forgotten', () => {
  const failed = new FailedRequests();
  const note = (stage: string, at: number): void => failed.note({ code: 'modelet_failed', message: 'no', stage }, at);
  for (let at = 0; at < 250; at += 1) note(`stage ${at}`, at);
  note('stage 50', 250);
  note('the next', 251);
  const counts = failed.list().map(({ stage, count }) => `${stage}: ${count}`);
  assert.deepEqual([counts.length, counts[0]], [200, 'stage 52: 1']);
  assert.deepEqual(counts.slice(-2), ['stage 50: 2', 'the next: 1']);
});

test('failures stay until a user has read of them, and only those that come then are new', () => {
  const [failed, elsewhere, read] = [new FailedRequests(), new FailedRequests(), new ReadFailures()];
  const all = () => addFailures(failed.list(), elsewhere.list());
  failed.note({ code: 'modelet_failed', message: 'first', stage: 'a' }, 1);
  elsewhere.note({ code: 'modelet_failed', message: 'second', stage: 'a' }, 2);
  const second = { stage: 'a', code: 'modelet_failed', message: 'second', count: 2, at: 2, isLast: false };
  assert.deepEqual(read.unread(all()), [second]);
  read.mark(all(), 3);
  assert.deepEqual(read.unread(all()), []);
  failed.note({ code: 'modelet_failed', message: 'third', stage: 'a' }, 4);
  failed.note({ code: 'worker_lost', message: 'killed', stage: 'b' }, 5);
  const counts = read.unread(all()).map(({ stage, message, count }) => [stage, message, count]);
  assert.deepEqual(counts, [
    ['b', 'killed', 1],
    ['a', 'third', 1],
  ]);
});

test('a failure lasts until a request of the same entry has a result; what clients sent tells nothing', () => {
  const [failed, read] = [new FailedRequests(), new ReadFailures()];
  const lasting = () => read.lasting(failed.list()).map(({ code }) => code);
  failed.note({ code: 'modelet_failed', message: 'always', stage: 'a' }, 1, 'one');
  failed.note({ code: 'deadline_exceeded', message: 'late' }, 2, 'other');
  failed.note({ code: 'invalid_input', message: 'refused', stage: 'a' }, 3, 'one');
  assert.deepEqual(lasting(), [], 'they are unread');
  read.mark(failed.list(), 4);
  assert.deepEqual(lasting(), ['modelet_failed', 'deadline_exceeded']);
  failed.answered('other');
  assert.deepEqual(lasting(), ['modelet_failed']);
  failed.keep(new Set());
  assert.deepEqual(lasting(), []);
});

test('a failure bears the present name of its stage, and one of a stage that is gone is no news, even under its name', () => {
  const [failed, read] = [new FailedRequests(), new ReadFailures()];
  const deploy = (...stages: { id: string; name: string }[]): void => read.deployed(stages, failed.list());
  const unread = () => read.unread(read.present(failed.list())).map(({ stage, count }) => [stage, count]);
  const note = (stage: string): void => failed.note({ code: 'modelet_failed', message: 'no', stage }, 1, 'entry');
  deploy({ id: 'one', name: 'a' }, { id: 'two', name: 'b' });
  note('a');
  note('b');
  deploy({ id: 'one', name: 'renamed' }, { id: 'two', name: 'b' });
  note('renamed');
  assert.deepEqual(unread(), [
    ['renamed', 2],
    ['b', 1],
  ]);
  read.mark(read.present(failed.list()), 2);
  deploy({ id: 'one', name: 'again' }, { id: 'two', name: 'b' });
  assert.deepEqual(unread(), [], 'what was read stays read');
  assert.equal(read.lasting(read.present(failed.list()))[0]?.stage, 'again');
  note('again');
  deploy({ id: 'two', name: 'b' });
  assert.deepEqual(unread(), []);
  assert.deepEqual(read.lasting(read.present(failed.list())), [], 'it is gone');
  deploy({ id: 'three', name: 'again' }, { id: 'two', name: 'b' });
  assert.deepEqual(unread(), [], 'they were of another stage');
  note('again');
  assert.deepEqual(unread(), [['again', 1]]);
});
