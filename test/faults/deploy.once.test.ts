/** Each fault of the table, injected while requests come. */
import { DEPLOY_FAULTS } from './deploy-faults.ts';
import { testServiceFaults } from './service-bed.ts';

testServiceFaults(DEPLOY_FAULTS);
