/** Each fault of Node-RED's process or of its HTTP clients, injected while requests come to one Node-RED. */
import { CLIENT_FAULTS } from './client-faults.ts';
import { clientsThatLeave, testNodeRedFaults } from './node-red-bed.ts';
import { ELSEWHERE, NODE_RED_FAULTS } from './node-red-faults.ts';

testNodeRedFaults([CLIENT_FAULTS, NODE_RED_FAULTS], [...ELSEWHERE, ...clientsThatLeave()]);
