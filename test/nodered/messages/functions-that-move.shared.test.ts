/** The function nodes that move as they are: the same messages in the same order from the stage that each becomes. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { stageOfFunction } from '../../../src/node-red/functions/conversion.ts';
import { collector, node, runtime, sink, TAB } from '../../fixtures/flow.ts';
import { FUNCTION_CORPUS } from '../../fixtures/function-corpus.ts';
import { type FlowNode, type Message, useNodeRed } from '../../fixtures/node-red.ts';
import { until } from '../../fixtures/polling.ts';

const PLACE = { name: 'PLACE', value: 'here', type: 'str' };
const MOVING = FUNCTION_CORPUS.filter(({ obstacles }) => obstacles.length === 0);

/** Both ways of each function node, side by side. */
function flows(): FlowNode[] {
  const pairs = MOVING.flatMap(({ func, initialize = '', libs = [] }, at) => {
    const own = { func, initialize, finalize: '', outputs: 1, timeout: 0, libs };
    const { properties } = stageOfFunction(own, [PLACE]);
    return [
      node(`function-${at}`, 'function', [`before-${at}`], own),
      sink(`before-${at}`),
      node(`stage-${at}`, 'modelet-stage', [`collector-${at}`], { ...properties, name: `s${at}`, runtime: 'runtime' }),
      collector(`collector-${at}`, `after-${at}`),
      sink(`after-${at}`),
    ];
  });
  return [{ ...TAB, env: [PLACE] }, runtime(), ...pairs];
}

/** Returns the message without its id and the trace of the pipeline, as objects of this realm: a function node has its own. */
function contentOf({ _msgid, modelet, _event, ...content }: Message): object {
  return structuredClone(content);
}

describe('function nodes that became stages', () => {
  const red = useNodeRed({ flows });

  for (const [at, { name, messages }] of MOVING.entries()) {
    test(name, async () => {
      const [before, after] = [red.inputs(`before-${at}`), red.inputs(`after-${at}`)];
      for (const message of messages) {
        red.send(`function-${at}`, { ...message });
        red.send(`stage-${at}`, { ...message });
      }
      await until('all are through', () => before.length === messages.length && after.length === messages.length);
      assert.deepEqual(after.map(contentOf), before.map(contentOf));
    });
  }
});
