/** Begins `msg.modelet`, or goes on with it where a message comes back to a pipeline. */
import { systemClock } from '../../core/clock.ts';
import type { ModeletTrace, PipelineMessage } from './messages.ts';
import { enterRequest, PROCESS_TAG } from './request-id.ts';

let lastPass = 0;

/** A message that has been through a pipeline goes on under the same request id and deadline. */
export function continueTrace(msg: PipelineMessage, deadline: number): ModeletTrace {
  lastPass += 1;
  const pass = lastPass;
  const known = msg.modelet;
  // Times that another process has written mean nothing here.
  if (known?.process === PROCESS_TAG && typeof known.requestId === 'string' && Array.isArray(known.stages)) {
    // A copy: several messages that a function node or a split has made of one may share it.
    msg.modelet = { ...known, pass, stages: [...known.stages] };
    return msg.modelet;
  }
  const trace: ModeletTrace = {
    requestId: enterRequest(msg.req?.headers, msg.res?._res),
    process: PROCESS_TAG,
    pass,
    totalMs: 0,
    gateMs: 0,
    stages: [],
    startedAt: systemClock.now(),
    ...(deadline === Number.POSITIVE_INFINITY ? {} : { deadline }),
  };
  msg.modelet = trace;
  return trace;
}
