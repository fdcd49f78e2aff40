/** Faults of Node-RED's own process. */
import assert from 'node:assert/strict';
import type { FlowNode } from '../fixtures/node-red.ts';
import { allGone } from '../fixtures/processes.ts';
import type { FaultGroup } from './fault.ts';
import { elsewhere, type NodeRedBed, type NodeRedFault } from './node-red-bed.ts';

/** Node-RED's answer while it has not started its flows. */
const NOT_YET = 'status 404';

const ENDS = {
  concernsAll: true,
  mostFailed: Number.POSITIVE_INFINITY,
  recovery: 'engine and workers end within 5 s; Node-RED is served again once it is started again',
};

async function startAgainOnceGone(bed: NodeRedBed): Promise<void> {
  await allGone();
  await bed.startAgain();
}

/** Flows that the faults need beside the pipelines. */
export const ELSEWHERE: readonly FlowNode[] = [
  ...elsewhere('/throws', `setTimeout(() => { throw new Error('thrown elsewhere'); }, 1);`),
  ...elsewhere('/rejects', `Promise.reject(new Error('rejected elsewhere'));`),
];

export const NODE_RED_FAULTS: FaultGroup<NodeRedFault> = {
  title: 'The Node-RED process',
  faults: [
    {
      ...ENDS,
      name: 'kill -9 of Node-RED',
      requests: 'all: the connection is lost',
      codes: ['connection lost', NOT_YET],
      inject: async (bed) => {
        bed.red.kill('SIGKILL');
        assert.equal(await bed.red.exited(), 'SIGKILL');
        await startAgainOnceGone(bed);
      },
    },
    {
      ...ENDS,
      name: 'SIGTERM of Node-RED',
      requests: 'those that are open: their result or `shutting_down`; then no connection',
      codes: ['shutting_down', 'connection lost', NOT_YET],
      inject: async (bed) => {
        bed.red.kill('SIGTERM');
        assert.equal(await bed.red.exited(), 0);
        await startAgainOnceGone(bed);
      },
    },
    {
      name: 'an exception elsewhere in the flow that Node-RED handles',
      requests: 'none',
      recovery: 'not needed',
      inject: async (bed) => {
        await bed.post('/throws', {});
        await bed.load.served();
        assert.match(bed.red.output, /thrown elsewhere/);
      },
    },
    {
      ...ENDS,
      name: 'an exception elsewhere in the flow that ends Node-RED',
      requests: 'all: the connection is lost',
      codes: ['connection lost', NOT_YET],
      inject: async (bed) => {
        await bed.post('/rejects', {});
        assert.equal(await bed.red.exited(), 1);
        assert.match(bed.red.output, /Uncaught Exception[\s\S]*rejected elsewhere/);
        await startAgainOnceGone(bed);
      },
    },
  ],
};
