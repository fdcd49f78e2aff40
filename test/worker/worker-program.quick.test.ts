/** How a worker treats the cancellation of requests. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { WorkerProgram } from '../../src/runtime/worker/worker-program.ts';
import type { Frame } from '../../src/wire/frames/frames.ts';
import { definition, input, MAX_BYTES, read } from './rig.ts';

const BOOT = {
  stage: 'digits',
  worker: 0,
  cpus: null,
  maxPayloadBytes: MAX_BYTES,
  batchSize: 1,
  modelet: definition({
    source: { kind: 'inline', setup: '', code: 'return input;', teardown: '', libs: [] } as const,
  }),
};

test('the worker forgets the cancellation of an answered item, even if another batch always waits', async () => {
  const answers: [number, unknown][] = [];
  const runs: number[] = [];
  // Request 9 stands for a request with a number that the worker knows.
  const requests = [1, 2, 3, 9, 5];
  const program = new WorkerProgram({
    send: (frame: Frame) => {
      if (frame.type !== 'reply') return;
      runs.push(frame.runs);
      answers.push(...frame.items.map((item): [number, unknown] => [item.id, read(item)]));
      serveNext();
    },
    flushed: () => Promise.resolve(),
  });
  let served: Promise<void> = Promise.resolve();
  const serveNext = (): void => {
    const id = requests.shift();
    if (id) served = program.receive({ type: 'batch', batch: id, items: [input(id, { id })] });
  };
  await program.receive({ type: 'load', body: BOOT });
  serveNext();
  serveNext();
  await program.receive({ type: 'cancel', body: [2, 9] });
  // Each reply brings the next request, and so another promise.
  for (let last: typeof served | null = null; last !== served; await last) last = served;
  const cancelled = { code: 'cancelled', message: 'the caller went away' };
  assert.deepEqual(answers, [
    [1, { value: 1 }],
    [2, cancelled],
    [3, { value: 3 }],
    [9, { value: 9 }],
    [5, { value: 5 }],
  ]);
  assert.deepEqual(runs, [1, 0, 1, 1, 1], 'a cancelled item does not run');
});

test('a cancellation aborts the signal of a call that runs, and leaves that of an answered one as it was', async () => {
  const program = new WorkerProgram({ send: () => {}, flushed: () => Promise.resolve() });
  const code = `globalThis.called(ctx.signal);
    if (input === 2) await new Promise((end) => ctx.signal.addEventListener('abort', end));`;
  const source = { ...BOOT.modelet.source, code };
  await program.receive({ type: 'load', body: { ...BOOT, modelet: { ...BOOT.modelet, source } } });
  const run = (id: number): { signal: Promise<AbortSignal>; end: Promise<void> } => {
    const signal = new Promise<AbortSignal>((called) => Object.assign(globalThis, { called }));
    return { signal, end: program.receive({ type: 'batch', batch: id, items: [input(id, { id })] }) };
  };
  const first = run(1);
  await first.end;
  const second = run(2);
  const signals = [await first.signal, await second.signal];
  await program.receive({ type: 'cancel', body: [1, 2] });
  await second.end;
  assert.deepEqual(
    signals.map(({ aborted }) => aborted),
    [false, true],
  );
});
