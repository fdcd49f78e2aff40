/** Settings of runtimes that their stages get with each plan. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { compileDefinitions } from '../../src/flow/read/compile-definitions.ts';

test('a stage has the time limit of the requests of its runtime, and the same modelet with another one', () => {
  const plannedWith = (timeoutMs: string) => {
    const stage = { type: 'modelet-stage', z: 'tab', code: 'return input;', wires: [[]] };
    const nodes = [
      { id: 'tab', type: 'tab' },
      { id: 'r', type: 'modelet-runtime', timeoutMs },
      { id: 'usual', type: 'modelet-runtime' },
      { ...stage, id: 'a', runtime: 'r' },
      { ...stage, id: 'b', runtime: 'usual' },
    ];
    const { plan } = compileDefinitions(nodes as never, {} as never);
    return ['r', 'usual'].flatMap((runtime) => plan.of(runtime).stages);
  };
  const [before, after] = [plannedWith('45000'), plannedWith('0')];
  assert.deepEqual(
    [before, after].map((stages) => stages.map(({ id, requestTimeoutMs }) => [id, requestTimeoutMs])),
    [
      [
        ['a', 45_000],
        ['b', 30_000],
      ],
      [
        ['a', 0],
        ['b', 30_000],
      ],
    ],
  );
  assert.deepEqual(after[0]?.modelet, before[0]?.modelet);
});
