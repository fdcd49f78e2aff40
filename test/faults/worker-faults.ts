/** Faults of a worker process. */
import assert from 'node:assert/strict';
import { CIRCUIT } from '../../src/runtime/engine/pools/circuit.ts';
import { until } from '../fixtures/polling.ts';
import { kill9 } from '../fixtures/processes.ts';
import { BATCH, type FaultGroup } from './fault.ts';
import { assertFails, type ServiceFault } from './service-bed.ts';

/** Fewer than would make the runtime give the stage up. */
const KILLS = 3;

/** Far more than a batch takes, also on a busy machine. */
const RUN_TIMEOUT_MS = 1000;

/** The modelet ends its own process. */
function ends(name: string, way: string, cause: RegExp, more: Partial<ServiceFault> = {}): ServiceFault {
  return {
    name,
    requests: 'those of its batch: `worker_lost`, with the cause',
    recovery: 'a new process, at once',
    codes: ['worker_lost'],
    inject: async (bed) => {
      await assertFails(bed.poison(way), 'worker_lost', cause);
      const told = bed.service.logs.filter(({ level, stage }) => level === 'error' && stage === 'model');
      assert.ok(
        told.some(({ message }) => cause.test(message)),
        'the log tells it too',
      );
    },
    ...more,
  };
}

/** The modelet writes on the channel to the engine what no worker writes there. */
function garbles(name: string, way: string, cause: RegExp): ServiceFault {
  const fault = ends(name, way, cause, {
    requests: 'those of its batch: `worker_lost`, with `protocol_error` as the cause',
    recovery: 'it is killed; a new process, at once',
  });
  return {
    ...fault,
    inject: async (bed) => {
      const restarts = (): number[] =>
        bed.service.service.snapshot().stages.flatMap(({ workers }) => workers.map((worker) => worker.restarts));
      const { enginePid } = bed.service;
      const poisoned = bed.poison(way);
      await assertFails(poisoned, 'worker_lost', cause);
      const { error } = await poisoned.answer;
      assert.equal((error?.cause as { code?: string } | undefined)?.code, 'protocol_error');
      await until('it is started again', () => restarts().some((count) => count > 0));
      assert.deepEqual(restarts().sort(), [0, 0, 0, 1], 'no other worker is');
      assert.equal(bed.service.enginePid, enginePid, 'nor is the engine');
    },
  };
}

export const WORKER_FAULTS: FaultGroup<ServiceFault> = {
  title: 'A worker process',
  faults: [
    {
      name: 'kill -9 in the middle of a batch',
      requests: 'those of its batch: `worker_lost`',
      recovery: 'a new process, at once',
      codes: ['worker_lost'],
      inject: async (bed) => {
        const { pid, held } = await bed.hold();
        kill9(pid);
        await assertFails(held, 'worker_lost', /was killed by SIGKILL/);
      },
    },
    {
      name: 'kill -9 again and again',
      requests: 'those of the batches at work: `worker_lost`',
      recovery: 'a new process each time, after pauses that grow',
      codes: ['worker_lost'],
      mostFailed: KILLS * BATCH,
      inject: async (bed) => {
        for (let kill = 1; kill <= KILLS; kill += 1) {
          const [pid] = (await bed.service.ready())['model'] as [number];
          kill9(pid);
          await until('it is started again', () => bed.service.stage('model').workers[0]?.restarts === kill);
        }
      },
    },
    ends('native crash (SIGSEGV)', 'segv', /was killed by SIGSEGV/),
    ends('process.abort()', 'abort', /was killed by SIGABRT/),
    ends('process.exit(7)', 'exit', /exited with code 7/),
    ends('process.exit(0)', 'exit 0', /exited with code 0/),
    ends('uncaught exception', 'timer', /thrown from a timer/),
    ends('unhandled rejection', 'rejection', /rejected and not caught/),
    ends('heap out of memory', 'heap', /heap out of memory/, { model: { heapMb: 48 } }),
    {
      name: 'five deaths in a minute',
      requests: 'those of the lost batches: `worker_lost`; then all: `stage_unavailable`, at once',
      recovery: 'the circuit opens; a probe worker that answers closes it again',
      codes: ['worker_lost', 'stage_unavailable'],
      mostFailed: Number.POSITIVE_INFINITY,
      inject: async (bed) => {
        const isOpen = (): boolean => bed.service.stage('model').circuit !== 'closed';
        for (let death = 0; death < CIRCUIT.deaths; death += 1) {
          await assertFails(bed.poison('exit'), 'worker_lost', /exited with code 7/);
        }
        await until('the circuit is open', isOpen);
      },
    },
    ends('a request that ends every process it comes to, with retryLost', 'exit', /exited with code 7/, {
      requests: 'itself: `worker_lost`; the others of its batch run once more, one by one',
      recovery: 'a new process each time',
      codes: [],
      mostFailed: 0,
      model: { retryLost: true },
    }),
    {
      name: 'infinite loop, with runTimeoutMs',
      requests: 'those of its batch: `deadline_exceeded`',
      recovery: 'it is killed; a new process, at once',
      codes: ['deadline_exceeded'],
      model: { runTimeoutMs: RUN_TIMEOUT_MS },
      inject: (bed) => assertFails(bed.poison('spin'), 'deadline_exceeded', /./),
    },
    {
      name: 'stops reading its channel (SIGSTOP), with runTimeoutMs',
      requests: 'those of its batch: `deadline_exceeded`',
      recovery: 'it is killed; a new process, at once',
      codes: ['deadline_exceeded'],
      model: { runTimeoutMs: RUN_TIMEOUT_MS },
      inject: async (bed) => {
        const { pid, held } = await bed.hold();
        process.kill(pid, 'SIGSTOP');
        await assertFails(held, 'deadline_exceeded', /./);
      },
    },
    garbles('sends garbage on its channel', 'garbage', /malformed frame: a length of/),
    garbles('announces a frame of 4 GiB', 'giant frame', /malformed frame: a length of 4294967288 bytes/),
    garbles('sends a frame of another version', 'other version', /malformed frame: version 255 instead of/),
  ],
};
