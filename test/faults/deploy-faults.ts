/** Faults of a modelet's file, and deploys at a bad time. */
import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { until } from '../fixtures/polling.ts';
import { kill9 } from '../fixtures/processes.ts';
import type { StageSpec } from '../fixtures/service.ts';
import type { FaultGroup } from './fault.ts';
import type { ServiceBed, ServiceFault } from './service-bed.ts';

const fileIn = (folder: string): string => join(folder, 'model.mjs');

function writeModel(folder: string, version: number): void {
  writeFileSync(fileIn(folder), `export default ({ n }) => ({ n, version: ${version} });\n`);
}

/** A stage whose modelet's file the fault can do something to. */
function modelIn(folder: string): Partial<StageSpec> {
  writeModel(folder, 1);
  return { file: fileIn(folder) };
}

function killFirst(bed: ServiceBed): void {
  kill9(bed.service.pids('model')[0]);
}

/** The file cannot be loaded for a while. */
function unusable(name: string, harm: (file: string) => void, cause: RegExp): ServiceFault {
  return {
    name,
    requests: 'those of the batch that was lost: `worker_lost`; the other workers of the stage serve all others',
    recovery: 'the worker is started again and again after growing pauses, until the file is usable',
    codes: ['worker_lost'],
    model: modelIn,
    inject: async (bed) => {
      harm(fileIn(bed.folder));
      killFirst(bed);
      await until('the cause is shown', () => cause.test(bed.service.stage('model').workers[0]?.error ?? ''));
      await bed.load.served();
      writeModel(bed.folder, 2);
    },
  };
}

export const DEPLOY_FAULTS: FaultGroup<ServiceFault> = {
  title: 'Files and deploys',
  faults: [
    {
      name: 'the file of a modelet is replaced before a worker is restarted',
      requests: 'those of the batch that was lost: `worker_lost`; others get the old or the new code’s result',
      recovery: 'the restarted worker runs the new file; a deploy makes all do so',
      codes: ['worker_lost'],
      model: modelIn,
      inject: async (bed) => {
        writeModel(bed.folder, 2);
        killFirst(bed);
        const served = (version: number) => async (): Promise<void> => {
          let seen: unknown;
          // A request that the killed worker got has no value.
          while (seen !== version) {
            seen = ((await bed.ask({ n: 0 }).answer).value as { version: number } | undefined)?.version;
          }
        };
        await Promise.all([1, 2].map((version) => served(version)()));
      },
    },
    unusable('the file of a modelet is deleted before a worker is restarted', rmSync, /model\.mjs/),
    unusable(
      'the file of a modelet is broken before a worker is restarted',
      (file) => writeFileSync(file, 'export default ('),
      /SyntaxError|Unexpected/,
    ),
    {
      name: 'deploy of changed code in the middle of the restart of a worker',
      requests: 'those of the batch that was lost: `worker_lost`',
      recovery: 'the new code’s workers take over once they are ready',
      codes: ['worker_lost'],
      inject: async (bed) => {
        killFirst(bed);
        const old = bed.service.pids('model');
        bed.deploy({ init: { runMs: 1 } });
        await until('new workers serve', () => !bed.service.pids('model').some((pid) => old.includes(pid)));
      },
    },
    {
      name: 'deploy of changed code in the middle of the restart of the engine',
      requests: 'all that were open: `engine_lost`',
      recovery: 'the new engine starts with the new code',
      codes: ['engine_lost'],
      concernsAll: true,
      mostFailed: Number.POSITIVE_INFINITY,
      inject: async (bed) => {
        kill9(bed.service.enginePid);
        bed.deploy({ init: { runMs: 1 } });
        await until('it is started again', () => bed.service.service.snapshot().engine.restarts === 1);
      },
    },
  ],
};
