/** Each fault of the table, injected while requests come. */
import { testServiceFaults } from './service-bed.ts';
import { WORKER_FAULTS } from './worker-faults.ts';

testServiceFaults(WORKER_FAULTS);
