/** A stage whose workers die again and again: it stops taking requests with it, and finds out by itself when to serve. */
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import { folderFor } from '../../fixtures/folder.ts';
import { until } from '../../fixtures/polling.ts';
import { kill9 } from '../../fixtures/processes.ts';
import { type Answer, callsIn, release, type StageSpec, serve, type TestService } from '../../fixtures/service.ts';

/** Ends its process at the input `die`, unless a file `well` says that it is well. */
const MORTAL = `
  const { existsSync } = require('fs');
  if (input === 'die' && !existsSync(init.folder + '/well')) process.exit(7);
  return process.pid;`;

interface Mortal {
  readonly service: TestService;
  /** From now on it does not die. */
  heal(): void;
  readonly plan: (version: number) => { readonly stages: readonly StageSpec[] };
}

async function mortal(t: TestContext, stage: Partial<StageSpec> = {}): Promise<Mortal> {
  const folder = folderFor(t);
  const plan = (version: number) => ({
    stages: [{ id: 'mortal', inline: MORTAL, init: { folder, version }, ...stage }],
  });
  const service = await serve(t, plan(1));
  await service.ready();
  return { service, plan, heal: () => writeFileSync(join(folder, 'well'), '') };
}

/** Five deaths: the last of them opens the circuit. */
async function open(service: TestService): Promise<Answer[]> {
  const answers: Answer[] = [];
  while (answers.length < 5) answers.push(await service.answer('die'));
  await until('the circuit has opened', () => service.stage('mortal').circuit !== 'closed');
  return answers;
}

const isRefusal = ({ error, code }: Answer): boolean => {
  if (code !== 'stage_unavailable') return false;
  assert.equal(error?.stage, 'mortal');
  assert.match(
    error?.message ?? '',
    /its workers died \d+ times in a short time, .*; the last one: exited with code 7/,
  );
  assert.ok((error?.retryAfterSeconds ?? 0) >= 1 && (error?.retryAfterSeconds ?? 0) <= 30);
  return true;
};

/** Asks until it is answered; everything before that is refused. */
async function answeredAgain(service: TestService): Promise<Answer> {
  for (;;) {
    const answer = await service.answer('live');
    if (answer.code === 'ok') return answer;
    assert.ok(isRefusal(answer), answer.error?.message);
    await until('it is tried again', () => service.stage('mortal').circuit !== 'open');
  }
}

describe('five deaths', () => {
  test('open the circuit: new requests fail at once, with the cause and Retry-After', async (t) => {
    const { service } = await mortal(t);
    const answers = await open(service);
    assert.deepEqual([...new Set(answers.map(({ code }) => code))], ['worker_lost']);
    await until('the log tells it', () =>
      service.logs.some(({ message }) => message.includes('its workers died 5 times')),
    );
    let refused = 0;
    // Not by reports: a probe that dies at once may begin and end between two of them.
    for (let isProbed = false; !isProbed; ) {
      const answer = await service.answer('die');
      if (isRefusal(answer)) refused += 1;
      else {
        assert.equal(answer.code, 'worker_lost', 'the probe has got it');
        isProbed = true;
      }
    }
    assert.ok(refused > 0);
    const { retryInMs } = service.stage('mortal');
    assert.ok(retryInMs === null || retryInMs <= 30_000);
  });

  test('a probe that answers closes it, and all workers serve', async (t) => {
    const { service, heal } = await mortal(t, { workers: 2 });
    await open(service);
    heal();
    await answeredAgain(service);
    await service.ready();
    assert.equal(service.stage('mortal').circuit, 'closed');
    assert.equal(service.stage('mortal').retryInMs, null);
    assert.equal((await service.answer('die')).code, 'ok');
  });

  test('a probe that dies opens it for longer', async (t) => {
    const { service, heal } = await mortal(t);
    await open(service);
    for (let probe = 6; probe <= 7; probe += 1) {
      const { circuit, workers } = service.stage('mortal');
      if (circuit === 'open') assert.equal(workers[0]?.pid, null, 'nothing is started meanwhile');
      await until('it is tried again', () => service.stage('mortal').circuit === 'half-open');
      // Until the probe is ready requests are refused.
      while ((await service.answer('die')).code !== 'worker_lost');
      const told = await until('it counts the death of the probe', () => {
        return service.logs.find(({ message }) => message.includes(`died ${probe} times`));
      });
      const pause = Number(/next try in (\d+) s/.exec(told.message)?.[1]);
      assert.ok(pause >= (probe === 6 ? 2 : 3), `a pause of ${pause} s`);
      await until('it has opened again', () => service.stage('mortal').circuit === 'open');
    }
    heal();
    await answeredAgain(service);
    await service.ready();
  });

  test('do not end the batch of a live worker, which becomes the probe', async (t) => {
    const folder = folderFor(t);
    const inline = `
      const fs = require('fs');
      if (input === 'die') process.exit(7);
      fs.appendFileSync(init.folder + '/calls', JSON.stringify(input) + '\\n');
      while (input === 'held' && !fs.existsSync(init.folder + '/held.open')) await new Promise((go) => setTimeout(go, 2));
      return process.pid;`;
    const service = await serve(t, { stages: [{ id: 'mortal', inline, init: { folder }, workers: 2 }] });
    await service.ready();
    const held = service.ask('held');
    await until('one works', () => callsIn(folder).length === 1);
    await open(service);
    assert.equal(held.settled, null);
    release(folder, 'held');
    const survivor = (await held.answer).value;
    assert.equal((await answeredAgain(service)).value, survivor);
    await service.ready();
    assert.ok(service.pids('mortal').includes(survivor as number), 'it was never restarted');
  });

  test('a restart by hand closes it without waiting for the next try', async (t) => {
    const { service, heal } = await mortal(t);
    await open(service);
    heal();
    service.service.actOnStage('mortal', 'restart');
    // Without a request no probe could have proved anything.
    await service.ready();
    await until('it is closed', () => service.stage('mortal').circuit === 'closed');
    assert.equal((await service.answer('live')).code, 'ok');
  });

  test('a deploy of another modelet closes it', async (t) => {
    const { service, plan } = await mortal(t);
    await open(service);
    service.apply(plan(2));
    await until('it is closed', () => service.stage('mortal').circuit === 'closed');
    assert.equal((await service.answer('live')).code, 'ok');
  });

  test('a deploy of fewer workers that ends the probe has another worker tried', async (t) => {
    const inline = `
      if (input === 'die' && ctx.worker === 0) process.exit(7);
      return ctx.worker;`;
    const service = await serve(t, {
      stages: [{ id: 'mortal', inline, workers: 2, scaling: { min: 2, idleMs: 60_000 } }],
    });
    for (let deaths = 0; deaths < 5; ) {
      await service.ready();
      if ((await service.answer('die')).code === 'worker_lost') deaths += 1;
    }
    // The other worker lives, so it is the probe.
    await until('it is tried', () => service.stage('mortal').circuit === 'half-open');
    service.apply({ stages: [{ id: 'mortal', inline, workers: 1 }] });
    const answer = await until('it answers again', async () => {
      const { code, value } = await service.answer('live');
      return code === 'ok' && { value };
    });
    assert.deepEqual(answer, { value: 0 });
    await until('it is closed', () => service.stage('mortal').circuit === 'closed');
  });

  test('of workers killed from outside under load: every request gets an answer, and the stage serves again', async (t) => {
    const { service } = await mortal(t, { workers: 2, batch: { maxBatchSize: 4 } });
    const codes = new Map<string, number>();
    let done = false;
    const lane = async (): Promise<void> => {
      while (!done) {
        const { code } = await service.answer('live');
        codes.set(code, (codes.get(code) ?? 0) + 1);
        // A refused request comes again a little later.
        if (code === 'stage_unavailable') await until('a next try', () => service.stage('mortal').circuit !== 'open');
      }
    };
    const lanes = Array.from({ length: 16 }, lane);
    const killed = new Set<number>();
    while (service.stage('mortal').circuit === 'closed') {
      const pid = await until('a worker to kill', () => {
        const stage = service.stage('mortal');
        return stage.circuit === 'closed' ? stage.workers.find(({ pid }) => pid && !killed.has(pid))?.pid : -1;
      });
      if (pid === -1) break;
      killed.add(pid);
      try {
        kill9(pid);
      } catch {
        // It has ended by itself.
      }
    }
    await service.ready();
    const before = codes.get('ok') ?? 0;
    await until('it serves again', () => (codes.get('ok') ?? 0) > before + 100);
    done = true;
    await Promise.all(lanes);
    assert.equal(service.stage('mortal').circuit, 'closed');
    for (const code of codes.keys()) assert.ok(['ok', 'worker_lost', 'stage_unavailable'].includes(code), code);
    assert.ok((codes.get('worker_lost') ?? 0) <= killed.size * 8, 'a batch that ran and one sent ahead at most');
  });
});

test('a worker that cannot start beside a serving worker does not open the circuit', async (t) => {
  const folder = folderFor(t);
  const inline = {
    setup: `if (ctx.worker === 1) {
              require('fs').appendFileSync(init.folder + '/calls', '1\\n');
              throw new Error('not me');
            }`,
    code: 'return ctx.worker;',
  };
  const service = await serve(t, { stages: [{ id: 'half', inline, init: { folder }, workers: 2 }] });
  await service.value(0);
  await until('it has tried many times', () => callsIn(folder).length >= 7);
  assert.equal(service.stage('half').circuit, 'closed');
  assert.equal(await service.value(1), 0);
});
