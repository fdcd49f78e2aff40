/** Each fault of the table, injected while requests come. */
import { testServiceFaults } from './service-bed.ts';
import { THREAD_FAULTS } from './thread-faults.ts';

testServiceFaults(THREAD_FAULTS);
