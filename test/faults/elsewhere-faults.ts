/** What can happen and is injected by a test of another folder, which looks at it from more sides. */

export interface ElsewhereFault {
  readonly name: string;
  readonly requests: string;
  readonly recovery: string;
  /** Below `test`, without `.test.ts`, and the test's name in it. */
  readonly suite: string;
  readonly test: string;
}

export const ELSEWHERE_FAULTS: readonly ElsewhereFault[] = [
  {
    name: 'the package is updated on disk, then a worker dies',
    requests: 'those of its batch: `worker_lost`; the other workers serve all others, as they are',
    recovery: 'the stage says "package updated: restart Node-RED"',
    suite: 'processes/package-update',
    test: 'a worker that has to be replaced says so, the other one serves on',
  },
  {
    name: 'the package is updated on disk, then the last worker dies',
    requests: '`stage_unavailable`, with that reason',
    recovery: 'Node-RED is started again, or the files are back',
    suite: 'processes/package-update',
    test: 'with no worker left the stage answers stage_unavailable, and serves by itself when the files are back',
  },
  {
    name: 'the package is updated on disk, then the engine dies',
    requests: '`engine_lost`, with that reason',
    recovery: 'Node-RED is started again',
    suite: 'processes/package-update',
    test: 'an engine that has to be replaced is not: requests get engine_lost with the reason',
  },
];
