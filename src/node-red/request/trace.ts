/** Starts `msg.modelet`, or continues it if the message has been through a pipeline before. */
import { systemClock } from '../../core/clock.ts';
import { enterRequest, PROCESS_TAG } from '../../endpoint/request-id.ts';
import type { ModeletTrace, PipelineMessage } from './messages.ts';

let lastPass = 0;

/** Starts or continues a message's trace. A message that comes back keeps its request id and deadline. */
export function continueTrace(msg: PipelineMessage, deadline: number): ModeletTrace {
  const pass = nextPass();
  const known = msg.modelet;
  // Times from another process mean nothing on this process's clock.
  if (known?.process === PROCESS_TAG && typeof known.requestId === 'string' && Array.isArray(known.stages)) {
    // A copy, because a function node or a split may have made several messages that share the object.
    msg.modelet = { ...known, pass, stages: [...known.stages] };
    return msg.modelet;
  }
  msg.modelet = newTrace(enterRequest(msg.req?.headers, msg.res?._res), deadline, pass);
  return msg.modelet;
}

/** Starts the trace of a request that enters its first pipeline. */
export function newTrace(requestId: string, deadline: number, pass: number = nextPass()): ModeletTrace {
  return {
    requestId,
    process: PROCESS_TAG,
    pass,
    totalMs: 0,
    gateMs: 0,
    stages: [],
    startedAt: systemClock.now(),
    ...(deadline === Number.POSITIVE_INFINITY ? {} : { deadline }),
  };
}

function nextPass(): number {
  lastPass += 1;
  return lastPass;
}
