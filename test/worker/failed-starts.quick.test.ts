/** A start that fails again and again for the same reason is logged at growing distances, by a clock that the test moves. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SupervisedPool } from '../../src/runtime/engine/pools/supervised-pool.ts';
import type { EngineBoot } from '../../src/wire/frames/bodies.ts';
import type { WireItem } from '../../src/wire/frames/frames.ts';
import { FakeClock } from '../fixtures/fake-clock.ts';
import { until } from '../fixtures/polling.ts';
import { planned } from '../fixtures/stage-spec.ts';

const MB = 1024 * 1024;
const BOOT: EngineBoot = {
  runtime: 'main',
  maxPayloadBytes: MB,
  maxQueueBytes: MB,
  statesFolder: '',
  allowedCpus: [0],
  launcher: { setpriv: false, taskset: false },
  strictPins: false,
  requests: { capacity: 1, mostWaiting: 0, timeoutMs: 0, barred: null, logsEach: false },
};
const ROUNDS = 9;

test('an On Start that throws is logged at its first, second, fourth and eighth start, with its line', async () => {
  const clock = new FakeClock();
  const lines: string[] = [];
  const ignore = (): void => {};
  const inline = { setup: `throw new Error('no weights');`, code: 'return input;' };
  const stage = { ...planned({ id: 'scale', inline }), ref: 0, revision: '' };
  const pool = new SupervisedPool<WireItem>(
    stage,
    BOOT,
    {
      ...{ onPart: ignore, onReply: ignore, onLost: ignore, onEnded: ignore, onOwnMetrics: ignore, onChange: ignore },
      onKeysLost: ignore,
      ...{ oldestAt: () => null, keysAt: () => 0 },
      onLog: ({ level, message }) => void (level === 'error' && lines.push(message)),
    },
    clock,
  );
  const worker = (): { pid: number | null; restarts: number } | undefined => pool.status()[0];
  pool.start();
  for (let round = 1; round < ROUNDS; round += 1) {
    await until(`start ${round} has failed`, () => worker()?.pid === null);
    // The pause before the next start, or that of the circuit.
    while (worker()?.pid === null) clock.advance(clock.nextAt - clock.now());
  }
  await until('the last has failed', () => worker()?.pid === null);
  await pool.close(clock.now());
  const starts = lines.filter((line) => line.startsWith('did not start'));
  assert.deepEqual(
    starts.map((line) => /, (\d+) times so far/.exec(line)?.[1] ?? '1'),
    ['1', '2', '4', '8'],
  );
  for (const line of starts) assert.match(line, /: no weights \(On Start:1:7\)$/);
  const [others = '', ...more] = lines.filter((line) => !starts.includes(line));
  assert.match(others, /^does not start: no weights/);
  assert.deepEqual(more, [], 'the circuit tells it once');
});
