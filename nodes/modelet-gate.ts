/** Dispatch gate: admits as many messages as the measured budget allows, and lets the others wait or refuses them. */
import type { NodeAPI } from 'node-red';
import { compileGate } from '../src/config/compile-gate.ts';
import { gate } from '../src/config/schemas/gate.ts';
import { connectGates } from '../src/gate/node-red/gate-routes.ts';
import { pipelineOf, registerPart } from '../src/node-red/pipeline.ts';

export default function register(RED: NodeAPI): void {
  connectGates(RED, pipelineOf(RED));
  registerPart(RED, 'gate', compileGate, { credentials: gate.credentials });
}
