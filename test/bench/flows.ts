/** Flows for the Node-RED of the benchmark, node by node. */
import type { FlowNode } from '../fixtures/node-red.ts';

export const TAB = 'bench';
export const RUNTIME = 'runtime';

export function tabAndRuntime(): FlowNode[] {
  return [
    { id: TAB, type: 'tab', label: 'bench' },
    { id: RUNTIME, type: 'modelet-runtime', name: 'bench' },
  ];
}

export function node(id: string, type: string, next: readonly string[], properties: object = {}): FlowNode {
  return { id, type, z: TAB, x: 0, y: 0, wires: next.length > 0 ? [next] : [], ...properties };
}

export function functionNode(id: string, next: string, code: string): FlowNode {
  return node(id, 'function', [next], { func: code, outputs: 1, timeout: 0, initialize: '', finalize: '', libs: [] });
}

/** A stage with inline code. */
export function stage(id: string, next: string, code: string, properties: object = {}): FlowNode {
  return node(id, 'modelet-stage', [next], { name: id, runtime: RUNTIME, source: 'inline', code, ...properties });
}

export function batcher(id: string, next: string, maxBatchSize = 32): FlowNode {
  return node(id, 'modelet-batcher', [next], { maxBatchSize, policy: 'greedy', maxWaitMs: 0 });
}

/** Takes messages and does nothing with them. */
export function sink(id: string): FlowNode {
  return node(id, 'debug', [], { active: false, tosidebar: false, console: false, complete: 'payload' });
}

/** `POST path` into `first`; the response is sent by the node `<path>-out`. */
export function httpPair(path: string, first: string): FlowNode[] {
  return [
    node(`${path}-in`, 'http in', [first], { url: `/${path}`, method: 'post' }),
    node(`${path}-out`, 'http response', []),
  ];
}
