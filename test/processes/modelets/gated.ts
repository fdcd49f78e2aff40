/** A stage whose worker holds what it gets until the test lets it go. */
import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { folderFor } from '../../fixtures/folder.ts';
import { until } from '../../fixtures/polling.ts';
import { within } from '../../fixtures/processes.ts';
import { type Asked, callsIn, type StageSpec, serve, type TestService } from '../../fixtures/service.ts';

export interface Gated {
  readonly service: TestService;
  readonly folder: string;
}

/** A stage `gate` with one worker that holds what is called `held...`. */
export async function gated(t: TestContext, stage: Partial<StageSpec> = {}): Promise<Gated> {
  const folder = folderFor(t);
  const service = await serve(t, { stages: [{ id: 'gate', file: 'gate', init: { folder }, ...stage }] });
  return { service, folder };
}

/** Sends an input that the worker holds, and resolves when it does. */
export async function hold({ service, folder }: Gated, name: string): Promise<Asked> {
  const asked = service.ask(name);
  await until(`${name} is held`, () => callsIn(folder).flat().includes(name));
  return asked;
}

/**
 * Sends an input that the worker holds, and resolves when its time limit is over. On a slow machine it may expire before the
 * worker has begun it: then it is sent again with twice the time.
 */
export async function expire(bed: Gated, name: string, timeoutMs = 300): Promise<void> {
  assert.equal((await bed.service.answer(name, { timeoutMs })).code, 'deadline_exceeded');
  if (!callsIn(bed.folder).flat().includes(name)) await expire(bed, name, 2 * timeoutMs);
}

export const queued = ({ service }: Gated, count: number): Promise<boolean> =>
  until(`${count} are queued`, () => service.stage('gate').queue === count);

/**
 * Sends short runs to a stage until its workers take a second batch ahead: the engine does that where the smoothed
 * run time is below a few milliseconds. Runs of the modelets `gate` and `spin` are long enough that it sends no third. Returns their number, because the engine's reports are behind: only a total
 * that a test knows tells which items have gone to a worker.
 * @param mostMs smoothed run time, in ms
 */
export async function prefetching(service: TestService, stage: string, mostMs = 3): Promise<number> {
  await service.ready();
  let sent = 0;
  let mean = Number.POSITIVE_INFINITY;
  const refAt = service.service.snapshot().stages.findIndex(({ id }) => id === stage);
  await within(
    (async () => {
      while (mean > mostMs) {
        sent += 1;
        const { timings } = await service.answer('quick');
        const runMs = timings[refAt]?.runMs ?? 0;
        mean = mean === Number.POSITIVE_INFINITY ? runMs : mean + 0.2 * (runMs - mean);
      }
    })(),
    'runs are short enough for a second batch to be sent ahead',
  );
  return sent;
}
