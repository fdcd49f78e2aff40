/** Each fault of the table, injected while requests come. */

import { testNodeRedFaults } from './node-red-bed.ts';
import { ELSEWHERE, NODE_RED_FAULTS } from './node-red-faults.ts';

testNodeRedFaults(NODE_RED_FAULTS, ELSEWHERE);
