/** The trace of a message that comes to pipelines again and again. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { appendTimings, continueTrace, type PipelineMessage, withGather } from '../../src/node-red/request/messages.ts';

const MOST_TIMINGS = 1000;
const TIMING = { stage: 1, waitMs: 0, batchMs: 0, runMs: 1, batchSize: 1, worker: 0 };

test('a message that goes round in a flow keeps its last timings, and the place of each gathering among them', () => {
  const msg = { _msgid: 'm' } as PipelineMessage;
  const { requestId } = continueTrace(msg, Number.POSITIVE_INFINITY);
  for (let round = 0; round < MOST_TIMINGS + 10; round += 1) {
    const trace = continueTrace(msg, Number.POSITIVE_INFINITY);
    appendTimings(trace, [{ ...TIMING, worker: round }], () => 'stage');
    // The stage is behind the node that gathered in the round before.
    const [gathered] = Object.values(trace.gathers ?? {});
    assert.equal(gathered?.stages ?? 0, trace.stages.length - 1);
    trace.gathers = withGather(trace.gathers ?? {}, 'join', trace.stages.length);
  }
  const { stages = [], gathers, requestId: last } = msg.modelet ?? {};
  assert.equal(stages.length, MOST_TIMINGS + 1);
  assert.deepEqual([stages.at(-1)?.worker, last], [MOST_TIMINGS + 9, requestId]);
  assert.deepEqual(gathers, { join: { times: MOST_TIMINGS + 10, stages: MOST_TIMINGS + 1 } });
});
