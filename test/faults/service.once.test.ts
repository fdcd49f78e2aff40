/** Each fault of a worker, an engine, a deploy or the machine, injected while requests come to a service. */
import { DEPLOY_FAULTS } from './deploy-faults.ts';
import { ENGINE_FAULTS } from './engine-faults.ts';
import { MACHINE_FAULTS } from './machine-faults.ts';
import { testServiceFaults } from './service-bed.ts';
import { THREAD_FAULTS } from './thread-faults.ts';
import { WORKER_FAULTS } from './worker-faults.ts';

// The faults of the machine come last: the clock that they load jumps in this process, too.
for (const group of [WORKER_FAULTS, THREAD_FAULTS, ENGINE_FAULTS, DEPLOY_FAULTS, MACHINE_FAULTS]) {
  testServiceFaults(group);
}
