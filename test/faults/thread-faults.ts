/** Faults of a worker that is a thread of the engine. */
import assert from 'node:assert/strict';
import type { FaultGroup } from './fault.ts';
import { assertFails, type ServiceFault } from './service-bed.ts';

const THREADS = { isolation: 'thread' } as const;
const HEAP = { ...THREADS, heapMb: 48 } as const;

/** Far more than a batch takes, also on a busy machine. */
const RUN_TIMEOUT_MS = 1000;

/** The modelet ends its own thread. */
function ends(name: string, way: string, cause: RegExp, more: Partial<ServiceFault> = {}): ServiceFault {
  return {
    name,
    requests: 'those of its batch: `worker_lost`, with the cause',
    recovery: 'a new thread, at once',
    codes: ['worker_lost'],
    model: THREADS,
    inject: (bed) => assertFails(bed.poison(way), 'worker_lost', cause),
    ...more,
  };
}

export const THREAD_FAULTS: FaultGroup<ServiceFault> = {
  title: 'A worker thread (isolation: thread)',
  faults: [
    ends('process.exit(7) in a thread', 'exit', /exited with code 7/),
    ends('uncaught exception in a thread', 'timer', /thrown from a timer/),
    ends('unhandled rejection in a thread', 'rejection', /rejected and not caught/),
    ends('heap of a thread out of memory', 'heap, slowly', /heap out of memory/, { model: HEAP }),
    {
      name: 'heap of a thread out of memory within one synchronous loop',
      requests:
        'those of its batch: `worker_lost`; or all of the runtime: `engine_lost`, where V8 gives the process up',
      recovery: 'a new thread, or a new engine with new workers, at once',
      codes: ['worker_lost', 'engine_lost'],
      concernsAll: true,
      mostFailed: Number.POSITIVE_INFINITY,
      model: HEAP,
      inject: async (bed) => {
        const { code, error } = await bed.poison('heap').answer;
        assert.ok(['worker_lost', 'engine_lost'].includes(code), code);
        assert.match(error?.message ?? '', /heap out of memory/);
      },
    },
    {
      name: 'infinite loop in a thread, with runTimeoutMs',
      requests: 'those of its batch: `deadline_exceeded`',
      recovery: 'it is ended; a new thread, at once',
      codes: ['deadline_exceeded'],
      model: { ...THREADS, runTimeoutMs: RUN_TIMEOUT_MS },
      inject: (bed) => assertFails(bed.poison('spin'), 'deadline_exceeded', /./),
    },
    {
      name: 'native crash (SIGSEGV) in a thread',
      requests: 'all open ones of the runtime: `engine_lost`, since the engine goes with it',
      recovery: 'a new engine with new workers, at once',
      codes: ['engine_lost'],
      concernsAll: true,
      mostFailed: Number.POSITIVE_INFINITY,
      model: THREADS,
      inject: (bed) => assertFails(bed.poison('segv'), 'engine_lost', /was killed by SIGSEGV/),
    },
  ],
};
