/** Faults of the machine that all processes run on. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { until } from '../fixtures/polling.ts';
import { startedProcesses } from '../fixtures/processes.ts';
import { repositoryRoot } from '../fixtures/repository.ts';
import type { FaultGroup } from './fault.ts';
import type { ServiceBed, ServiceFault } from './service-bed.ts';

const CLOCK_JUMP = pathToFileURL(join(repositoryRoot, 'test', 'fixtures', 'clock-jump.js')).href;

export const MACHINE_FAULTS: FaultGroup<ServiceFault> = {
  title: 'The machine',
  faults: [
    {
      name: 'the clock jumps an hour ahead, and two hours back',
      requests: 'none: all times are those of the monotonic clock',
      recovery: 'not needed',
      preload: CLOCK_JUMP,
      inject: jumpInTime,
    },
    {
      name: 'every core is kept busy by others',
      requests: 'none; they take longer',
      recovery: 'not needed',
      inject: async (bed) => {
        const busy = Array.from({ length: availableParallelism() }, () => spawn(process.execPath, ['-e', 'for (;;);']));
        try {
          for (let round = 0; round < 5; round += 1) await bed.load.served();
        } finally {
          await Promise.all(busy.map((other) => [other.kill('SIGKILL'), once(other, 'exit')][1]));
        }
      },
    },
  ],
};

/** In every process of the runtime: Node-RED's side, engine, workers. */
async function jumpInTime(bed: ServiceBed): Promise<void> {
  const processes = startedProcesses();
  const realTime = Date.now();
  for (const [jump, hours] of [1, -1, 0].entries()) {
    for (const { pid } of [...processes, { pid: process.pid }]) process.kill(pid, 'SIGPWR');
    const said = (): number => bed.service.logs.filter(({ message }) => message === `jump ${jump + 1}`).length;
    await until('all have jumped', () => said() === processes.length);
    const seen = (Date.now() - realTime) / 3_600_000;
    assert.ok(Math.abs(seen - hours) < 0.1, `this one too: ${seen} hours`);
    await bed.load.served();
  }
}
