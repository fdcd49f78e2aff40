/** Connects editors to the live view: an admin route issues tickets, and editors redeem them over their connections. */
import type { RequestHandler } from 'express';
import type { NodeAPI } from 'node-red';
import { systemClock } from '../../core/clock.ts';
import type { Around } from '../../observe/views/view.ts';
import { whyRouteEnds } from '../../observe/views/why.ts';
import { allowedCpus, visibleCpus } from '../../process/affinity.ts';
import type { Pipeline } from '../pipeline.ts';
import { gateViews } from './gate-view.ts';
import { LiveView } from './live-view.ts';

/** An event that Node-RED emits for an editor's connection. */
interface CommsEvent {
  readonly session?: string;
  /** Data that the editor sent. */
  readonly data?: unknown;
}

interface Events {
  on(event: string, listener: (event: CommsEvent) => void): void;
  emit(event: 'comms', message: object): void;
}

/** Serves the live view. Call once per Node-RED process. */
export function serveLiveView(RED: NodeAPI, pipeline: Pipeline, mayRead: RequestHandler): void {
  const events = RED.events as unknown as Events;
  const live = new LiveView({
    clock: systemClock,
    measure: () => pipeline.services.map((service) => service.measure()),
    around: () => aroundOf(pipeline),
    // Like RED.comms.publish, but to one connection only.
    publish: (session, view) => events.emit('comms', { topic: 'modelets/view', data: view, retain: false, session }),
  });
  RED.httpAdmin.post('/modelets/watch', mayRead, (_request, response) => {
    response.json({ ticket: live.ticket() });
  });
  events.on('comms:message:modelets/watch', ({ session, data }) => {
    if (typeof session === 'string' && typeof data === 'string') live.watch(session, data);
  });
  const leave = ({ session }: CommsEvent): void => {
    if (typeof session === 'string') live.leave(session);
  };
  events.on('comms:message:modelets/leave', leave);
  events.on('comms:connection-removed', leave);
}

function aroundOf(pipeline: Pipeline): Around {
  return {
    chains: [...pipeline.deployment.routes.values()].map(({ route }) => ({
      runtime: route.runtime,
      stages: route.stages,
      why: whyRouteEnds(route),
      unfused: route.unfused,
    })),
    gates: gateViews(pipeline),
    loop: pipeline.loop.snapshot,
    allowedCpus: visibleCpus(pipeline.allowedCpus),
    serverCpus: maskOf('self'),
    engineCpus: maskOf,
  };
}

function maskOf(pid: number | 'self'): readonly number[] | null {
  const cpus = allowedCpus(pid);
  return cpus.length > 0 ? cpus : null;
}
