/** Each fault of the table, injected while requests come. */
import { MACHINE_FAULTS } from './machine-faults.ts';
import { testServiceFaults } from './service-bed.ts';

testServiceFaults(MACHINE_FAULTS);
