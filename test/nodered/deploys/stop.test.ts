/** Node-RED stops with requests in flight: every client is answered, no process stays. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { isAlive } from '../../fixtures/alive.ts';
import { catchNode, endpoint, func, httpIn, httpOut, runtime, stage, TAB } from '../../fixtures/flow.ts';
import { useGate } from '../../fixtures/gate.ts';
import { pidsOf, useNodeRed } from '../../fixtures/node-red.ts';
import { until } from '../../fixtures/polling.ts';
import { type FoundProcess, startedProcesses } from '../../fixtures/processes.ts';

const nodeRed = useNodeRed();
const gate = useGate();

describe('stop', () => {
  test('with requests at work, queued and between two stages answers all of them and ends all processes', async () => {
    await nodeRed.deploy([
      TAB,
      runtime(),
      ...endpoint('/held', 'held'),
      stage('held', gate.code(), 'collector /held'),
      httpIn('in caught', '/caught', 'held and caught'),
      stage('held and caught', gate.code(), 'out caught'),
      catchNode('catch', 'out caught'),
      httpOut('out caught'),
      ...endpoint('/between', 'quick'),
      stage('quick', 'return input;', 'swallow'),
      func('swallow', 'return null;', 'second'),
      stage('second', 'return input;', 'collector /between'),
      runtime('other'),
      ...endpoint('/deaf', 'deaf'),
      // Spins: it hears nothing of the end, and is killed.
      stage('deaf', 'for (;;);', 'collector /deaf', { runtime: 'other' }),
      ...endpoint('/turns', 'takes turns'),
      stage('takes turns', 'flow.set("n", flow.get("n")); for (;;);', 'collector /turns', { runtime: 'other' }),
    ]);
    const pids = pidsOf(await nodeRed.whenReady());
    assert.equal(pids.length, 8);
    const [swallowed, turns] = [nodeRed.inputs('swallow'), nodeRed.inputs('takes turns')];
    const paths = ['/held', '/held', '/held', '/caught', '/caught', '/between', '/deaf', '/deaf', '/turns', '/turns'];
    const answers = paths.map((path, number) => nodeRed.post(path, { number }));
    await until('all have come to where they wait', async () => {
      const { runtimes } = await nodeRed.snapshot();
      const open = runtimes.reduce((sum, { backlog }) => sum + backlog, 0);
      const have = [(await gate.entered()).length, swallowed.length, turns.length, open];
      return have.join() === '2,1,2,8';
    });

    const asked = { stage: { id: 'tried', setup: 'for (;;);' }, sample: 1 };
    const trial = nodeRed.post('/admin/modelets/stages/test', asked);
    const measurement = nodeRed.post('/admin/modelets/stages/measure', asked);
    const isTrial = ({ command, pid }: FoundProcess): boolean =>
      /worker\/main\.js/.test(command) && !pids.includes(pid);
    const tried = await until('a test and a measurement of a stage run', () => {
      const found = startedProcesses().filter(isTrial);
      return found.length === 2 && found.map(({ pid }) => pid);
    });

    const stopped = nodeRed.red.stop();
    for (const answer of [trial, measurement]) {
      const last = (await (await answer).text()).trim().split('\n').at(-1) ?? '';
      assert.equal((JSON.parse(last) as { error: { code: string } }).error.code, 'shutting_down');
    }
    for (const [index, answer] of answers.entries()) {
      const response = await answer;
      const text = await response.text();
      assert.equal(response.status, 503, `${paths[index]}: ${text}`);
      assert.equal((JSON.parse(text) as { error: { code: string } }).error.code, 'shutting_down');
    }
    await stopped;
    assert.deepEqual([...pids, ...tried].filter(isAlive), []);
  });
});
