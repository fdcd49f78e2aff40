/** Each fault of the table, injected while requests come. */
import { CLIENT_FAULTS } from './client-faults.ts';
import { clientsThatLeave, testNodeRedFaults } from './node-red-bed.ts';

testNodeRedFaults(CLIENT_FAULTS, clientsThatLeave());
