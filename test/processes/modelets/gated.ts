/** A stage whose worker holds what it gets until the test lets it go. */

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

export const queued = ({ service }: Gated, count: number): Promise<boolean> =>
  until(`${count} are queued`, () => service.stage('gate').queue === count);

/**
 * Sends short runs to a stage until its workers take a second batch ahead: the engine does that where the smoothed
 * run time is below a few milliseconds. Returns their number, because the engine's reports are behind: only a total
 * that a test knows tells which items have gone to a worker.
 */
export async function prefetching(service: TestService, stage: string): Promise<number> {
  let sent = 0;
  let mean = Number.POSITIVE_INFINITY;
  const refAt = service.service.snapshot().stages.findIndex(({ id }) => id === stage);
  await within(
    (async () => {
      while (mean > 2) {
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
