/** The paced split while deploys replace what is behind it: each item that it has sent comes through, and it goes on. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { arrived, feed, numbers, payloads, sorted } from '../../fixtures/drawn.ts';
import { completeNode, func, node, runtime, sink, stage, TAB, TIMERS } from '../../fixtures/flow.ts';
import { type FlowNode, useNodeRed } from '../../fixtures/node-red.ts';

const ITEMS = 300;
const LEAST_DEPLOYS = 3;
const DELAY = { pauseType: 'delay', timeout: '2', timeoutUnits: 'milliseconds', outputs: 1 };

const red = useNodeRed();

const BEHIND: readonly [string, FlowNode[]][] = [
  ['a stage', [stage('first', 'return input;', 'out')]],
  [
    'an async function and two stages',
    [
      { ...func('first', 'await timers.setTimeout(2); return msg;', 'a'), ...TIMERS },
      stage('a', 'return input;', 'between'),
      func('between', 'return msg;', 'b'),
      stage('b', 'return input;', 'out'),
    ],
  ],
  ['a delay and a stage', [node('first', 'delay', ['a'], DELAY), stage('a', 'return input;', 'out')]],
];

describe('a paced split', () => {
  for (const [what, behind] of BEHIND) {
    for (const window of ['1', '8']) {
      test(`with window ${window} loses no item while ${what} behind it is replaced by Modified nodes`, async () => {
        const flows = (round: number): FlowNode[] => [
          TAB,
          runtime(),
          feed('feed', 'first', { window }),
          ...behind.map((one) => ({ ...one, info: `round ${round}` })),
          completeNode('complete', ['feed'], 'done'),
          sink('done'),
          sink('out'),
        ];
        await red.deploy([TAB]);
        await red.deployReady(flows(0));
        const [out, done] = [red.inputs('out'), red.inputs('done')];
        const sent: number[] = [];
        let deploys = 0;
        // On a machine with slow deploys the items of one message see few of them.
        for (let messages = 1; deploys <= LEAST_DEPLOYS; messages += 1) {
          sent.push(...numbers(ITEMS));
          red.send('feed', { payload: numbers(ITEMS) });
          let isThrough = false;
          const through = arrived(done, messages).finally(() => {
            isThrough = true;
          });
          while (!isThrough) {
            deploys += 1;
            await red.deploy(flows(deploys), 'nodes');
          }
          await through;
        }
        assert.deepEqual(sorted(payloads(await arrived(out, sent.length))), sorted(sent));
      });
    }
  }
});
