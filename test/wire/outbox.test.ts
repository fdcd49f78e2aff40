/** The items of one turn leave as one frame. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Outbox } from '../../src/wire/channel/outbox.ts';
import type { Frame, WireItem } from '../../src/wire/frames/frames.ts';
import { item } from './frame-values.ts';

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

function ids(frames: readonly Frame[]): number[][] {
  return frames.map((frame) => ('items' in frame ? frame.items.map((one: WireItem) => one.id) : []));
}

test('the outbox sends the items of one turn in one frame, in order', async () => {
  const sent: Frame[] = [];
  const outbox = new Outbox('outcomes', (frame) => sent.push(frame));
  for (const id of [3, 1, 2]) outbox.add(item({ id }));
  assert.equal(sent.length, 0);
  await turn();
  outbox.add(item({ id: 4 }));
  await turn();
  await turn();
  assert.deepEqual(ids(sent), [[3, 1, 2], [4]]);
  assert.equal(sent[0]?.type, 'outcomes');
});

test('flush sends at once and leaves nothing for later', async () => {
  const sent: Frame[] = [];
  const outbox = new Outbox('submit', (frame) => sent.push(frame));
  outbox.flush();
  outbox.add(item({ id: 1 }));
  outbox.flush();
  assert.deepEqual(ids(sent), [[1]]);
  await turn();
  assert.equal(sent.length, 1);
});

test('a frame that has grown large does not wait for the end of the turn', async () => {
  const sent: Frame[] = [];
  const outbox = new Outbox('submit', (frame) => sent.push(frame));
  const bytes = Buffer.alloc(200 * 1024);
  for (let id = 1; id <= 50; id += 1) outbox.add(item({ id, payload: { codec: 2, bytes } }));
  assert.deepEqual(
    ids(sent).map(({ length }) => length),
    [21, 21],
  );
  await turn();
  assert.deepEqual(
    ids(sent).flat(),
    Array.from({ length: 50 }, (_, index) => index + 1),
  );
});

test('a large item leaves at once in a separate frame, behind what came before it', async () => {
  const sent: Frame[] = [];
  const outbox = new Outbox('parts', (frame) => sent.push(frame));
  const large = { codec: 2, bytes: Buffer.alloc(256 * 1024) };
  outbox.add(item({ id: 1 }));
  outbox.add(item({ id: 2, payload: large }));
  assert.deepEqual(ids(sent), [[1], [2]]);
  outbox.add(item({ id: 3 }));
  await turn();
  assert.deepEqual(ids(sent), [[1], [2], [3]]);
});

test('the items of a turn in which the channel was closed are not sent later', async () => {
  const sent: Frame[] = [];
  let open = false;
  const outbox = new Outbox('submit', (frame) => {
    if (open) sent.push(frame);
  });
  outbox.add(item({ id: 1 }));
  await turn();
  open = true;
  outbox.add(item({ id: 2 }));
  await turn();
  assert.deepEqual(ids(sent), [[2]]);
});
