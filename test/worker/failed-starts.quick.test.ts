/** A start that fails again and again for the same reason is logged at growing distances, by a clock that the test moves. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { StageDefinition } from '../../src/config/stage-definition.ts';
import type { PoolEvents } from '../../src/runtime/engine/pools/pool.ts';
import { SupervisedPool } from '../../src/runtime/engine/pools/supervised-pool.ts';
import type { EngineBoot } from '../../src/wire/frames/bodies.ts';
import type { WireItem } from '../../src/wire/frames/frames.ts';
import { FakeClock } from '../fixtures/fake-clock.ts';
import { until } from '../fixtures/polling.ts';
import { planned } from '../fixtures/stage-spec.ts';

const MB = 1024 * 1024;
const BOOT: EngineBoot = {
  maxPayloadBytes: MB,
  maxQueueBytes: MB,
  statesFolder: '',
  allowedCpus: [0],
  launcher: { setpriv: false, taskset: false },
  strictPins: false,
  requests: { mostWaiting: 0, barred: null },
};
const ROUNDS = 9;

function eventsInto(errors: string[]): PoolEvents<WireItem> {
  const ignore = (): void => {};
  return {
    ...{ onPart: ignore, onReply: ignore, onLost: ignore, onEnded: ignore, onOwnMetrics: ignore, onChange: ignore },
    onKeysLost: ignore,
    ...{ oldestAt: () => null, keysAt: () => 0 },
    onLog: ({ level, message }) => void (level === 'error' && errors.push(message)),
  };
}

test('an On Start that throws is logged at its first, second, fourth and eighth start, with its line', async () => {
  const clock = new FakeClock();
  const lines: string[] = [];
  const inline = { setup: `throw new Error('no weights');`, code: 'return input;' };
  const stage = { ...planned({ id: 'scale', inline }), ref: 0, revision: '' };
  const pool = new SupervisedPool<WireItem>(stage, BOOT, eventsInto(lines), clock);
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

test('strict pins that refuse a stage also refuse the workers that a deploy adds', async () => {
  const clock = new FakeClock();
  const boot = { ...BOOT, strictPins: true };
  const stage = (least: number): StageDefinition => {
    const scaling = { min: least, idleMs: 1000 };
    return { ...planned({ id: 'scale', workers: [[4000], [4000]], scaling }), ref: 0, revision: '' };
  };
  const fixed = ({ scaling: _, ...rest }: StageDefinition): StageDefinition => rest;
  const pool = new SupervisedPool<WireItem>(stage(1), boot, eventsInto([]), clock);
  pool.start();
  pool.redefine(fixed(stage(1)));
  assert.deepEqual(
    pool.status().map(({ pid, error }) => [pid, /core/.test(error ?? '')]),
    [null, null].map(() => [null, true]),
  );
  await pool.close(clock.now());
});
