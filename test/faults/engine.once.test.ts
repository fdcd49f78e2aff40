/** Each fault of the table, injected while requests come. */
import { ENGINE_FAULTS } from './engine-faults.ts';
import { testServiceFaults } from './service-bed.ts';

testServiceFaults(ENGINE_FAULTS);
