/** Function nodes that block Node-RED are found and measured, and compiled endpoints stay compiled meanwhile. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { barredByHooks } from '../../../src/node-red/deploy/http-facts.ts';
import { type BlockingNode, BlockingWatch, type HookList } from '../../../src/node-red/functions/blocking-watch.ts';
import { pipelineOf } from '../../../src/node-red/pipeline.ts';
import { FakeClock } from '../../fixtures/fake-clock.ts';
import { endpoint, func, runtime, sink, stage, TAB } from '../../fixtures/flow.ts';
import { useNodeRed } from '../../fixtures/node-red.ts';
import { until } from '../../fixtures/polling.ts';

const BUSY = 'const end = Date.now() + msg.payload; while (Date.now() < end); return msg;';

describe('function nodes', () => {
  const red = useNodeRed({
    flows: [
      TAB,
      runtime(),
      ...endpoint('/twice', 'twice'),
      stage('twice', 'return input.n * 2;', 'collector /twice'),
      { ...func('parse', BUSY, ['out']), name: 'parse' },
      sink('out'),
    ],
  });

  const blocking = async (): Promise<readonly BlockingNode[]> =>
    (await red.getJson<{ blocking: readonly BlockingNode[] }>('/admin/modelets/view')).blocking;

  test('that block Node-RED are in the view, with their times', async () => {
    // The first block makes Node-RED look; the next ones are measured.
    const found = await until('it is found', async () => {
      red.send('parse', { payload: 250 });
      const node = (await blocking()).find(({ id }) => id === 'parse');
      return node && node.times > 1 && node;
    });
    assert.equal(found.name, 'parse');
    assert.ok(found.longestMs >= 250, `${found.longestMs} ms`);
    assert.equal((await red.post('/twice', { n: 2 })).status, 200);
    assert.equal(pipelineOf(red.red as never).barred, null);
  });

  test('are measured only while the loop stalls, and for a minute behind', () => {
    const clock = new FakeClock();
    const { hooks } = red.red as unknown as { hooks: HookList };
    pipelineOf(red.red as never).functions.stop();
    let lateMs = 0;
    const late = { now: () => clock.now() + lateMs, at: (at: number, wake: () => void) => clock.at(at, wake) };
    const watch = new BlockingWatch({ hooks, settings: {} } as never, late);
    watch.start();
    clock.advance(10_000);
    assert.equal(hooks.has('onReceive'), false);
    lateMs = 300;
    clock.advance(200);
    lateMs = 0;
    assert.equal(hooks.has('onReceive'), true);
    clock.advance(59_000);
    assert.equal(hooks.has('onReceive'), true);
    assert.equal(barredByHooks(red.red as never), null, 'its own hooks look at no message');
    hooks.add('onReceive.test', () => {});
    assert.match(String(barredByHooks(red.red as never)), /a message hook or a debugger looks at messages/);
    hooks.remove('onReceive.test');
    assert.equal(barredByHooks(red.red as never), null);
    clock.advance(2_000);
    assert.deepEqual([hooks.has('onReceive'), hooks.has('postReceive'), clock.pending], [false, false, 1]);
    watch.stop();
    assert.equal(clock.pending, 0);
    new BlockingWatch({ hooks, settings: { modeletWatchFunctions: false } } as never, clock).start();
    assert.equal(clock.pending, 0);
  });
});
