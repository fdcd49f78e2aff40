/** Modelets that run step by step: what joins a step, what leaves it, and what one sequence does to the others. */
import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import { ModeletError } from '../../../src/core/errors.ts';
import { folderFor } from '../../fixtures/folder.ts';
import { ISOLATIONS } from '../../fixtures/isolations.ts';
import { until } from '../../fixtures/polling.ts';
import { kill9 } from '../../fixtures/processes.ts';
import { WITHOUT_PYTHON } from '../../fixtures/python.ts';
import {
  type Asked,
  type AskOptions,
  callsIn,
  release,
  type StageSpec,
  serve,
  type TestService,
} from '../../fixtures/service.ts';

const PLACES = 3;
const GONE = new ModeletError('cancelled', 'the caller went away');

interface Bed {
  readonly service: TestService;
  readonly folder: string;
}

const WORKERS: readonly { name: string; stage: Partial<StageSpec>; skip?: string | false }[] = [
  ...ISOLATIONS.map((isolation) => ({ name: isolation, stage: { file: 'steps', isolation } })),
  { name: 'Python', stage: { python: 'steps' }, skip: WITHOUT_PYTHON },
];

async function serveSteps(t: TestContext, stage: Partial<StageSpec>, init: object = {}): Promise<Bed> {
  const folder = folderFor(t);
  const service = await serve(t, { stages: [{ id: 's', init: { folder, ...init }, concurrency: PLACES, ...stage }] });
  await service.ready();
  return { service, folder };
}

const stepsOf = ({ folder }: Bed): string[][] => callsIn(folder) as string[][];

/** Resolves when the step with this number has begun, and returns the names of its sequences. */
async function begun(bed: Bed, step: number): Promise<string[]> {
  await until(`step ${step} begins`, () => stepsOf(bed).length > step);
  return stepsOf(bed)[step] as string[];
}

/** Resolves when the worker has these sequences: the next step that begins has them, too. */
async function joined({ folder }: Bed, ...names: string[]): Promise<void> {
  const come = (): string[] =>
    (existsSync(join(folder, 'come')) ? readFileSync(join(folder, 'come'), 'utf8') : '').split('\n');
  await until(`${names.join(', ')} join`, () => names.every((name) => come().includes(name)));
}

function open({ folder }: Bed, ...steps: number[]): void {
  for (const step of steps) release(folder, `step ${step}`);
}

async function outcomes(asked: readonly Asked[]): Promise<unknown[]> {
  const answers = await Promise.all(asked.map(({ answer }) => answer));
  return answers.map(({ code, value, error }) => (code === 'ok' ? value : `${code}: ${error?.message}`));
}

/** Asks for a result in parts, and notes them. */
function stream({ service }: Bed, input: string, options: AskOptions = {}): Asked & { parts: unknown[] } {
  const parts: unknown[] = [];
  const asked = service.ask(input, { onPart: (part) => void parts.push(part), ...options });
  return Object.assign(asked, { parts });
}

for (const { name, stage, skip = false } of WORKERS) {
  describe(`a modelet that runs step by step (${name})`, { skip }, () => {
    test('takes requests into its next step, and gives the place of an ended one to the next', async (t) => {
      const bed = await serveSteps(t, stage);
      const a = stream(bed, 'a 4 closes');
      assert.deepEqual(await begun(bed, 0), ['a']);
      const others = ['b 1', 'c 2 plain', 'd 1 plain'].map((input) => bed.service.ask(input));
      await until('all places are taken', () => bed.service.stage('s').busy === PLACES);
      await joined(bed, 'b', 'c');
      assert.equal(bed.service.stage('s').queue, 1);
      open(bed, 0);
      assert.deepEqual(await begun(bed, 1), ['a', 'b', 'c']);
      // A part leaves before the result is complete: the second step waits.
      await until('the first part has come', () => a.parts.length === 1);
      open(bed, 1);
      assert.deepEqual(await outcomes(others.slice(0, 1)), [[1]]);
      // The place of b is free; d comes in this step or in the next one.
      open(bed, 2, 3, 4, 5);
      assert.deepEqual(await outcomes([...others, a]), [[1], 'made c', 'made d', 'a']);
      assert.deepEqual(a.parts, [1, 2, 3, 4]);
      assert.ok(stepsOf(bed).every((step) => step.length <= PLACES));
    });

    test('fails one sequence alone, and with a step that throws all sequences of the step', async (t) => {
      const bed = await serveSteps(t, stage);
      const first = ['a 9', 'b 1 fails', 'c 2 breaks'].map((input) => bed.service.ask(input));
      // They have not all joined the first step: the first one has, which begins as soon as a request comes.
      await joined(bed, 'a', 'b', 'c');
      open(bed, 0, 1, 2, 3);
      const [a, b, c] = await outcomes(first);
      assert.deepEqual([b, c], ['modelet_failed: b failed', 'modelet_failed: the step broke']);
      assert.equal(a, c, 'the other sequence of that step');
      open(bed, 4, 5);
      assert.deepEqual(await outcomes([bed.service.ask('d 1')]), [[1]], 'the worker serves on');
      assert.equal(bed.service.stage('s').workers[0]?.restarts, 0);
    });

    test('takes no step for a request that was cancelled, or that is late', async (t) => {
      const bed = await serveSteps(t, stage);
      const kept = bed.service.ask('kept 4');
      await begun(bed, 0);
      const cancelled = bed.service.ask('cancelled 100');
      const late = bed.service.ask('late 100', { timeoutMs: 400 });
      await joined(bed, 'cancelled');
      open(bed, 0);
      assert.ok((await begun(bed, 1)).includes('cancelled'));
      bed.service.service.desk.abandon(cancelled.id, GONE);
      assert.equal((await late.answer).code, 'deadline_exceeded');
      // Their requests have ended here; the worker learns that in the middle of the step.
      await until('both have given their places back', () => bed.service.stage('s').busy === 1);
      open(bed, 1);
      assert.deepEqual(await begun(bed, 2), ['kept']);
      open(bed, 2);
      assert.deepEqual(await begun(bed, 3), ['kept']);
      open(bed, 3);
      assert.deepEqual(await outcomes([kept]), [[1, 2, 3, 4]]);
    });

    test('makes at most some parts ahead for a client that does not read, and the others go on', async (t) => {
      const bed = await serveSteps(t, stage, { free: true });
      const stalled = stream(bed, 'stalled 100000', { onPart: () => new Promise(() => {}) });
      await until('it has begun', () => stepsOf(bed).some((step) => step.includes('stalled')));
      assert.equal((await bed.service.answer('reader 200 plain')).value, 'made reader');
      assert.equal((await bed.service.answer('another 200 plain')).value, 'made another');
      const steps = stepsOf(bed).filter((step) => step.includes('stalled')).length;
      assert.ok(steps < 100, `${steps} steps were for the client that does not read`);
      bed.service.service.desk.abandon(stalled.id, GONE);
      await until('its place is free', () => bed.service.stage('s').busy === 0);
    });

    if (stage.isolation === 'thread') return;
    test('killed -9: each request fails once with worker_lost, or begins anew with retryLost', async (t) => {
      for (const retryLost of [false, true]) {
        const bed = await serveSteps(t, { ...stage, retryLost });
        const asked = ['a 1 plain', 'b 1 plain'].map((input) => bed.service.ask(input));
        await begun(bed, 0);
        // What the worker has not read yet begins anew in the next one.
        await joined(bed, 'a', 'b');
        kill9(bed.service.pids('s')[0] as number);
        open(bed, 0, 1, 2);
        const codes = (await Promise.all(asked.map(({ answer }) => answer))).map(({ code }) => code);
        assert.deepEqual(codes, retryLost ? ['ok', 'ok'] : ['worker_lost', 'worker_lost']);
      }
    });
  });
}
