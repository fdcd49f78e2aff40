/**
 * The running flows in Node-RED, and the pipeline nodes among them by id, with their settings. A deploy replaces nodes, not
 * this table.
 */
import type { Node, NodeAPI } from 'node-red';
import type { StageConfig } from '../config/compile-stage.ts';
import type { LookUp, Raw } from '../config/validate.ts';
import { asError, ModeletError } from '../core/errors.ts';
import { compileStageFrom } from '../flow/read/compile-definitions.ts';
import { type CompiledNode, CompiledNodes } from '../flow/read/compiled-nodes.ts';
import type { Flows } from '../flow/read/graph-reader.ts';
import { type Definition, type RunningNode, runningNodes, SUBFLOW } from '../flow/read/running-nodes.ts';

export type LiveNode = CompiledNode & { readonly node: Node };
export type LiveGate = Extract<LiveNode, { kind: 'gate' }>;

export class LiveNodes extends CompiledNodes<LiveNode> {
  /** Removes a node, unless a new instance has already taken its id. */
  remove(node: Node): void {
    if (this.get(node.id)?.node === node) this.nodes.delete(node.id);
  }
}

/** A running node with its wires, which Node-RED's types lack. */
export type LiveFlowNode = Node & { readonly wires?: readonly (readonly string[])[] };

export type RunningLive = RunningNode<LiveFlowNode>;

export interface LiveFlows extends Flows {
  readonly running: readonly RunningLive[];
}

/** Reads the running flows out of Node-RED. */
export function liveFlows(RED: NodeAPI): LiveFlows {
  const definitions: Definition[] = [];
  RED.nodes.eachNode((definition) => {
    definitions.push(definition as unknown as Definition);
  });
  const getNode = (id: string): LiveFlowNode | null => RED.nodes.getNode(id) as LiveFlowNode | null;
  const running = runningNodes(definitions, ({ id }, { prefix }) => getNode(prefix + id));
  return { definitions, getNode, running };
}

/** Returns a lookup from the id of a tab or a subflow instance (a node's `z`) to its label. */
export function tabNames(definitions: readonly Definition[]): (id: string) => string {
  const names = new Map<string, string>();
  for (const { id, type, label, name } of definitions) {
    if (type === 'tab' || type.startsWith(SUBFLOW)) names.set(id, label || name || id);
  }
  return (id) => names.get(id) ?? id;
}

/**
 * Compiles the properties of a stage, deployed or not.
 * @throws ModeletError `config_invalid`.
 */
export function compileStageIn(RED: NodeAPI, definition: Raw, lookUp: LookUp): StageConfig {
  const config = compileStageFrom(RED.settings, definition, lookUp);
  const { input, output, dropKey, sticky, keyBy } = config;
  checkProperty(RED, 'input', input);
  checkProperty(RED, 'output', output);
  if (dropKey !== '') checkProperty(RED, 'dropKey', dropKey);
  if (sticky !== '') checkProperty(RED, 'sticky', sticky);
  if (keyBy !== '') checkProperty(RED, 'keyBy', keyBy);
  return config;
}

/**
 * Checks the syntax of a property expression.
 * @throws ModeletError `config_invalid` if Node-RED cannot parse the expression
 */
export function checkProperty(RED: NodeAPI, property: string, expression: string): void {
  try {
    RED.util.normalisePropertyExpression(expression);
  } catch (thrown) {
    throw new ModeletError('config_invalid', `${property}: ${asError(thrown).message}`);
  }
}
