/** The function nodes that move as they are: the same messages in the same order from the stage that each becomes. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { stageOfFunction } from '../../../src/node-red/functions/conversion.ts';
import { catchNode, httpIn, httpOut, node, runtime, sink, stage, TAB } from '../../fixtures/flow.ts';
import { FUNCTION_CORPUS } from '../../fixtures/function-corpus.ts';
import { type FlowNode, type Message, useNodeRed } from '../../fixtures/node-red.ts';
import { until } from '../../fixtures/polling.ts';

const MOVING = FUNCTION_CORPUS.filter(({ obstacles }) => obstacles.length === 0);
/** Both ways of each function node, in separate flows, because nodes share the context of their flow. */
const WAYS = ['function', 'stage'] as const;
/** The outputs of the nodes, and the Catch node. */
const ENDS = [0, 1, 'caught'] as const;

function flows(): FlowNode[] {
  const env = [
    { name: 'PLACE', value: 'here', type: 'str' },
    { name: 'LIMIT', value: '5', type: 'num' },
  ];
  const tabs = WAYS.map((way) => ({ ...TAB, id: way, env }));
  const pairs = MOVING.flatMap(({ func, initialize = '', libs = [], outputs = 1 }, at) => {
    // The context that all flows share is each way's own.
    const own = (way: string): object => ({
      ...{ func: func.replaceAll("'sums'", `'sums${way}${at}'`), initialize, finalize: '', outputs, timeout: 0, libs },
    });
    const properties = stageOfFunction(own('stage') as Parameters<typeof stageOfFunction>[0]).properties;
    const wiresOf = (way: string): string[] => [0, 1].slice(0, outputs).map((output) => `${way}-${at}-${output}`);
    return WAYS.flatMap((way) =>
      [
        way === 'function'
          ? node(`function-${at}`, 'function', wiresOf(way), { ...own(way) })
          : node(`stage-${at}`, 'modelet-stage', wiresOf(way), { ...properties, name: `s${at}`, runtime: 'runtime' }),
        catchNode(`${way}-${at}-catch`, `${way}-${at}-caught`, { scope: [`${way}-${at}`] }),
        ...ENDS.map((end) => sink(`${way}-${at}-${end}`)),
      ].map((one) => ({ ...one, z: way })),
    );
  });
  return [...tabs, TAB, runtime(), ...pairs, ...OTHERS];
}

interface ContextOwner {
  context(): { readonly flow: { get(key: string): unknown } };
}

const COUNTED = 10_000;
const OTHERS: FlowNode[] = [
  stage('counts', 'flow.increment("count");', [], { workers: '4' }),
  httpIn('in', '/parity', 'parity'),
  stage('parity', 'if (!msg.payload.odd) return null; msg.statusCode = 201;\nreturn msg;', ['out']),
  httpOut('out'),
];

/** Returns the message without its id and what names its node, as objects of this realm: a function node has its own. */
function contentOf({ _msgid, modelet, _event, error, ...content }: Message): object {
  return structuredClone({ ...content, error: (error as { message?: string } | undefined)?.message });
}

describe('function nodes that became stages', () => {
  const red = useNodeRed({ flows });

  for (const [at, { name, messages }] of MOVING.entries()) {
    test(name, async () => {
      const [before, after] = WAYS.map((way) => ENDS.map((end) => red.inputs(`${way}-${at}-${end}`)));
      const count = (all: Message[][] = []): number => all.flat().length;
      for (const message of messages) red.send(`function-${at}`, { ...message });
      for (const message of messages) red.send(`stage-${at}`, { ...message });
      await until('all are through', () => count(before) >= messages.length / 2 && count(after) >= count(before));
      assert.deepEqual(
        after?.map((all) => all.map(contentOf)),
        before?.map((all) => all.map(contentOf)),
      );
    });
  }

  test('four workers count each message exactly once', async () => {
    const { flow } = (red.node('counts') as unknown as ContextOwner).context();
    for (let payload = 0; payload < COUNTED; payload += 1) red.send('counts', { payload });
    await until('all are counted', () => Number(flow.get('count')) >= COUNTED);
    assert.equal(flow.get('count'), COUNTED);
  });

  test('an HTTP client gets what the code sets, and an error if the code drops its message', async () => {
    const answered = await red.post('/parity', { odd: true });
    assert.deepEqual([answered.status, await answered.json()], [201, { odd: true }]);
    const dropped = await red.post('/parity', {});
    assert.deepEqual(
      [dropped.status, ((await dropped.json()) as { error: { code: string } }).error.code],
      [503, 'dropped'],
    );
  });
});
