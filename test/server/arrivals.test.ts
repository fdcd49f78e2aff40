/** Messages that come before flows run: they wait, up to a limit, and no client of a further one hangs. */
import assert from 'node:assert/strict';
import { EventEmitter } from 'node:events';
import { test } from 'node:test';
import { Feeds } from '../../src/node-red/feed/feeds.ts';
import { Arrivals } from '../../src/node-red/request/arrivals.ts';

test('a message beyond those that may wait for flows ends at once, and its client and paced split hear of it', () => {
  const ended: unknown[] = [];
  const answers: unknown[] = [];
  const response = {
    ...{ headersSent: false, destroyed: false, status: (status: number) => answers.push(status) },
    set: (...header: readonly string[]) => answers.push(header),
    json: ({ error }: { readonly error: { readonly code: string } }) => answers.push(error.code),
  };
  const node = Object.assign(new EventEmitter(), { id: 'stage' });
  // Nodes of a flow that starts are there, and messages to them wait.
  const live = new Map([['stage', { kind: 'stage', node }]]);
  const deployment = (): never => assert.fail('the flow is asked');
  const context = { RED: { log: assert }, live, deployment, isStopped: () => false };
  const feeds = {
    waiterFor: ({ parts }: { readonly parts?: object }) => parts && (() => ended.push('the paced split')),
  };
  const arrivals = new Arrivals({
    context,
    feeds,
    joins: {},
    flows: () => 'starting',
  } as unknown as ConstructorParameters<typeof Arrivals>[0]);
  arrivals.listenTo({ kind: 'stage', node } as unknown as Parameters<typeof arrivals.listenTo>[0]);
  const come = (msg: object): unknown =>
    node.emit('input', msg, null, (error?: { readonly code: string }) => ended.push(error?.code));
  for (let count = 0; count < 10_000; count += 1) come({});
  assert.deepEqual([ended, answers], [[], []]);
  come({ parts: { id: 'a', index: 0 } });
  assert.deepEqual([ended.splice(0), answers], [['capacity_exceeded', 'the paced split'], []]);
  come({ res: { _res: response } });
  assert.deepEqual([ended, answers], [[undefined], [429, ['Retry-After', '1'], 'capacity_exceeded']]);
});

test('parts that contain themselves belong to no paced split but those that they name', () => {
  const feeds = new Feeds();
  const entered: number[] = [];
  feeds.open('a', { enter: (index) => (entered.length > 0 ? undefined : () => entered.push(index)) });
  const parts: Record<string, unknown> = { id: 'b', index: 1 };
  parts['parts'] = parts;
  assert.equal(feeds.waiterFor({ parts }), undefined);
  feeds.waiterFor({ parts: { id: 'a', index: 3, parts } })?.();
  assert.deepEqual(entered, [3]);
});
