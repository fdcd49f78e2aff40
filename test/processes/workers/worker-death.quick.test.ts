/**
 * A worker that dies takes its own batch with it and nothing else: others, what waits and what comes are served.
 * Shows: promise "Every request is answered once", worker process.
 */
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { describe, test } from 'node:test';
import { isAlive } from '../../fixtures/alive.ts';
import { folderFor } from '../../fixtures/folder.ts';
import { until } from '../../fixtures/polling.ts';
import { kill9, startedProcesses } from '../../fixtures/processes.ts';
import { callsIn, release, type StageSpec, serve } from '../../fixtures/service.ts';
import { gated, prefetching } from '../modelets/gated.ts';

interface Passed {
  readonly input: string;
  readonly pid: number;
}

const IN_BATCHES: Partial<StageSpec> = { predict: 'batch', batch: { maxBatchSize: 3 } };

describe('kill -9 in the middle of a batch', () => {
  test('fails exactly the running items, and a new process serves the waiting ones', async (t) => {
    const { service, folder } = await gated(t, IN_BATCHES);
    const [pid] = (await service.ready())['gate'] as [number];
    const running = ['held', 'a', 'b'].map((name) => service.ask(name));
    await until('the batch runs', () => callsIn(folder).length === 1);
    const waiting = ['c', 'd'].map((name) => service.ask(name));
    await until('two wait', () => service.stage('gate').queue === 2);

    kill9(pid);
    for (const { answer } of running) {
      const { code, error } = await answer;
      assert.equal(code, 'worker_lost');
      assert.equal(error?.stage, 'gate');
      assert.match(error?.message ?? '', /worker 0 of stage gate died: was killed by SIGKILL/);
    }
    for (const { answer } of waiting) assert.notEqual(((await answer).value as Passed).pid, pid);
    const next = await service.value<Passed>('e');
    assert.notEqual(next.pid, pid);
    assert.deepEqual(callsIn(folder), [['held', 'a', 'b'], ['c', 'd'], ['e']], 'nothing ran twice');
    await until('the new worker is shown', () => service.pids('gate')[0] === next.pid);
    await service.ready();
    const [worker] = service.stage('gate').workers;
    assert.deepEqual([worker?.pid, worker?.restarts, worker?.error], [next.pid, 1, null]);
    assert.equal(service.service.snapshot().lateOutcomes, 0);
  });

  test('returns the items that were sent ahead to the worker, in their order', async (t) => {
    const { service, folder } = await gated(t);
    const before = 1 + (await prefetching(service, 'gate'));
    const [pid] = service.pids('gate') as [number];
    const running = service.ask('held');
    await until('it runs', () => callsIn(folder).includes('held'));
    const ahead = service.ask('ahead');
    await until('one was sent ahead', () => service.stage('gate').items > before);
    const behind = service.ask('behind');
    await until('one waits', () => service.stage('gate').queue === 1);

    kill9(pid);
    assert.equal((await running.answer).code, 'worker_lost');
    assert.notEqual(((await ahead.answer).value as Passed).pid, pid);
    assert.equal((await behind.answer).code, 'ok');
    const calls = callsIn(folder).filter((name) => name !== 'quick');
    assert.deepEqual(calls, ['held', 'ahead', 'behind']);
  });

  for (const retryLost of [false, true]) {
    const what = retryLost ? 'runs again the one item' : 'loses the one item';
    test(`${what} that ran, and none of the short ones that were sent ahead`, async (t) => {
      const folder = folderFor(t);
      const inline = `if (input === 'quick') return null;
        const fs = require('node:fs');
        const is = (name) => fs.existsSync(${JSON.stringify(folder)} + '/' + name);
        const isFirst = !is('calls');
        fs.appendFileSync(${JSON.stringify(`${folder}/calls`)}, JSON.stringify(input) + '\\n');
        while (input === 'held' && isFirst);
        return process.pid;`;
      const service = await serve(t, { stages: [{ id: 'short', inline, retryLost }] });
      const before = 1 + (await prefetching(service, 'short', 0.1));
      const [pid] = service.pids('short') as [number];
      const held = service.ask('held');
      await until('it runs', () => callsIn(folder).includes('held'));
      const names = Array.from({ length: 30 }, (_, n) => String(n));
      const others = names.map((name) => service.ask(name));
      await until('two and more were sent ahead, and others wait', () => {
        const { items, queue } = service.stage('short');
        return items + queue === before + names.length && items > before + 1 && queue > 0;
      });
      kill9(pid);
      assert.equal((await held.answer).code, retryLost ? 'ok' : 'worker_lost');
      for (const { answer } of others) assert.equal((await answer).code, 'ok');
      assert.deepEqual(callsIn(folder).toSorted(), [...names, ...(retryLost ? ['held', 'held'] : ['held'])].toSorted());
    });
  }

  test('leaves the other workers of the stage and the other stages alone', async (t) => {
    const folder = folderFor(t);
    const service = await serve(t, {
      stages: [
        { id: 'before', file: 'echo' },
        { id: 'gate', file: 'gate', init: { folder }, workers: 2 },
      ],
    });
    const pids = await service.ready();
    const asked = ['held one', 'held two'].map((name) => service.ask(name));
    await until('both run', () => callsIn(folder).length === 2);
    const [one, two] = pids['gate'] as [number, number];
    kill9(one);
    await until('one is answered', () => asked.some(({ settled }) => settled));
    const lost = asked.find(({ settled }) => settled);
    const kept = asked.find((other) => other !== lost);
    assert.equal(lost?.settled?.code, 'worker_lost');
    assert.equal(lost?.settled?.timings.length, 1, 'the stage before had done its part');
    release(folder, 'held one');
    release(folder, 'held two');
    assert.equal(await kept?.answer.then(({ value }) => (value as Passed).pid), two);
    await until('the new worker is shown', () => service.stage('gate').workers[0]?.restarts === 1);
    const after = await service.ready();
    assert.deepEqual(after['before'], pids['before']);
    assert.equal(after['gate']?.[1], two);
    assert.notEqual(after['gate']?.[0], one);
  });

  test('among items of lists loses no list, mixes none and settles each once, and a small one passes beside a long one', async (t) => {
    const read = {
      id: 'read',
      predict: 'batch',
      batch: { maxBatchSize: 8 },
      workers: 2,
      retryLost: true,
      inline: 'await new Promise((resolve) => setTimeout(resolve, 2)); return input.map((pair) => pair.join());',
    } as const;
    const detect = {
      id: 'detect',
      emits: 'list',
      inline: 'return Array.from({ length: input }, (_, n) => [input, n]);',
    };
    const terms = { mode: 'list', quorum: 0, partial: 'error', total: 1, names: [''] } as const;
    const next = {
      kind: 'fork',
      gather: 'gather',
      timeoutMs: 60_000,
      terms: { ...terms, list: { form: 'results', maxItems: 10_000 } },
      branches: [{ stages: ['read'], next: null }],
      after: { stages: [], next: null },
    } as const;
    const stages: StageSpec[] = [{ ...detect, emits: 'list' }, read];
    const service = await serve(t, { stages, legs: { in: { stages: ['detect'], next } } });
    const pids = (await service.ready())['read'] as number[];
    const order: number[] = [];
    const answers = [2000, 1, 2, 3, 20, 100].map(async (count) => {
      const { code, value } = await service.answer(count);
      order.push(count);
      assert.equal(code, 'ok');
      assert.deepEqual(
        value,
        Array.from({ length: count }, (_, n) => `${count},${n}`),
      );
    });
    await until('some have run', () => service.stage('read').items > 100);
    kill9(pids[0] as number);
    await Promise.all(answers);
    assert.equal(order.at(-1), 2000, 'the long list does not hold up the others');
    assert.deepEqual(await service.value(0), []);
    const { backlog, lateOutcomes } = service.service.snapshot();
    assert.deepEqual([backlog, lateOutcomes], [0, 0]);
  });

  test('of an idle worker is noticed, and later requests are served', async (t) => {
    const { service } = await gated(t, { workers: 2 });
    const pids = (await service.ready())['gate'] as number[];
    for (const pid of pids) kill9(pid);
    const answers = await Promise.all(['a', 'b', 'c', 'd'].map((name) => service.answer(name)));
    // The death of an idle worker may be noticed only when it has been sent a batch.
    for (const { code } of answers) assert.ok(code === 'ok' || code === 'worker_lost', code);
    assert.equal((await service.answer('e')).code, 'ok');
    await until('both have ended', () => !pids.some(isAlive));
  });
});

test('large payloads come back as they are, or as worker_lost, while workers are killed', async (t) => {
  const inline = 'return { size: input.length, first: input[0], last: input[input.length - 1], back: input };';
  const service = await serve(t, { stages: [{ id: 'model', inline, workers: 2 }] });
  const pids = (await service.ready())['model'] as number[];
  const codes = { ok: 0, worker_lost: 0 };
  const lane = async (first: number): Promise<void> => {
    for (let n = first; n < first + 20; n += 1) {
      const input = Buffer.alloc(60_000 + 7_001 * (n % 31), n);
      const { code, value } = await service.answer(input);
      assert.ok(code === 'ok' || code === 'worker_lost', code);
      codes[code] += 1;
      if (code === 'ok') assert.deepEqual(value, { size: input.length, first: n % 256, last: n % 256, back: input });
      if (n === 7 || n === 110) kill9(pids[n === 7 ? 0 : 1]);
    }
  };
  await Promise.all([0, 100, 200, 300].map(lane));
  assert.ok(codes.ok > 0, JSON.stringify(codes));
  const { backlog, lateOutcomes } = service.service.snapshot();
  assert.deepEqual([backlog, lateOutcomes], [0, 0]);
});

describe('a modelet that ends its own process', () => {
  test('gets a new process four times in a row, after growing pauses', async (t) => {
    const service = await serve(t, { stages: [{ id: 'die', file: 'die' }] });
    const pids = new Set<number>();
    for (let round = 0; round < 4; round += 1) {
      pids.add(await service.value<number>('live'));
      assert.equal((await service.answer('exit')).code, 'worker_lost');
    }
    pids.add(await service.value<number>('live'));
    assert.equal(pids.size, 5);
    await until('four restarts are shown', () => service.stage('die').workers[0]?.restarts === 4);
  });

  test('gets no more batches after its end is known, though its channel is still open', async (t) => {
    // The process that it leaves behind in another group holds on to the channel.
    const inline = `
      const options = { detached: true, stdio: ['ignore', 'ignore', 'ignore', 3] };
      if (input === 'spawn') require('child_process').spawn('sleep', ['600'], options).unref();
      return process.pid;`;
    const service = await serve(t, { stages: [{ id: 'leaves', inline }] });
    const pid = await service.value<number>('spawn');
    kill9(pid);
    await until('the engine has heard of its end', () => !existsSync(`/proc/${pid}`));
    assert.notEqual(await service.value<number>('next'), pid);
    for (const other of startedProcesses()) if (other.command.startsWith('sleep')) kill9(other.pid);
  });

  test('ends the processes that it has started', async (t) => {
    const service = await serve(t, { stages: [{ id: 'parent', file: 'parent' }] });
    const [pid] = (await service.ready())['parent'] as [number];
    const child = await service.value<number>(null);
    assert.ok(isAlive(child));
    kill9(pid);
    await until('the grandchild is gone', () => !isAlive(child));
    const second = await service.value<number>(null);
    assert.ok(isAlive(second));
    await service.end();
    await until('and so is the second one after close', () => !isAlive(second));
  });
});
