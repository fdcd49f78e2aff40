/** Makes the definition of a stage from that of a function node, and back, with all that does not carry over. */
import { namesIn, type Obstacle, readFunctionCode } from './function-code.ts';

/** The properties of a function node that its code needs. */
export interface FunctionProperties {
  readonly func: string;
  readonly initialize: string;
  readonly finalize: string;
  readonly outputs: number;
  /** In seconds; 0: none. */
  readonly timeout: number;
  readonly libs: readonly { readonly var: string; readonly module: string }[];
}

/** A variable of the node's groups, its tab or its subflow. */
export interface FlowVariable {
  readonly name: string;
  /** As in Node-RED: `str`, `num`, `bool`, `json`, `cred`, ... */
  readonly type: string;
}

/** Properties of an inline stage; the editor has the defaults of the others. */
export interface StageProperties {
  readonly source: string;
  readonly setup: string;
  readonly code: string;
  readonly teardown: string;
  readonly libs: FunctionProperties['libs'];
  readonly env: string;
  readonly runTimeoutMs: number;
}

interface Converted<Properties> {
  readonly properties: Properties;
  readonly obstacles: readonly Obstacle[];
}

/** Variables that a worker would get as text, whatever their type is. */
const TEXT_TYPES: ReadonlySet<string> = new Set(['str', 'cred', 'env']);
/** Variables that Node-RED has for each node, group, flow and subflow. */
const OF_NODE_RED = /^NR_(NODE|GROUP|FLOW|SUBFLOW)_(ID|NAME|PATH)$/;

/** @param variables the innermost of each name */
export function stageOfFunction(
  node: FunctionProperties,
  variables: readonly FlowVariable[],
): Converted<StageProperties> {
  const setup = readFunctionCode(node.initialize, 'setup');
  const code = readFunctionCode(node.func, 'code');
  const teardown = readFunctionCode(node.finalize, 'teardown');
  const obstacles = [...setup.obstacles, ...code.obstacles, ...teardown.obstacles];
  if (node.outputs !== 1) obstacles.unshift({ tab: 'code', line: 1, reason: 'outputs', name: String(node.outputs) });
  const env: Record<string, string> = {};
  for (const name of new Set([...setup.variables, ...code.variables, ...teardown.variables])) {
    const found = variables.find((variable) => variable.name === name);
    // The worker inherits all others from the process.
    if (!found && !OF_NODE_RED.test(name)) continue;
    env[name] = `\${${name}}`;
    if (found && !TEXT_TYPES.has(found.type)) {
      obstacles.push({ tab: 'code', line: lineOf(node.func, name), reason: 'env', name: `env.get('${name}')` });
    }
  }
  const properties: StageProperties = {
    source: 'inline',
    setup: node.initialize,
    code: node.func,
    teardown: node.finalize,
    libs: node.libs,
    env: Object.keys(env).length > 0 ? JSON.stringify(env) : '',
    runTimeoutMs: Math.round(node.timeout * 1000),
  };
  return { properties, obstacles };
}

/** Returns the line that has a text first, counted from 1; 1 if none has it. */
function lineOf(code: string, text: string): number {
  const before = code.slice(0, Math.max(0, code.indexOf(text)));
  return before.split('\n').length;
}

/** @param stage with what a function node has no place for */
export function functionOfStage(
  stage: StageProperties & { readonly init: string; readonly predict: string },
): Converted<FunctionProperties> {
  const { setup, code, teardown, init, libs, runTimeoutMs } = stage;
  const used = new Set([setup, code, teardown].flatMap((text) => [...namesIn(text).keys()]));
  const has = (...names: string[]): boolean => names.some((name) => used.has(name));
  const needsInit = has('init') ? `const init = ${init.trim() || '{}'};\n` : '';
  const isOfMessages = !has('input', 'state', 'init') && !readFunctionCode(code, 'code').obstacles.some(isOfResult);
  const keepsState = has('state');
  const state = keepsState ? "const state = context.get('state');\n" : '';
  const properties: FunctionProperties = {
    func: isOfMessages ? code : `${needsInit}${state}const input = msg.payload;\n${answering(code)}`,
    initialize: keepsState ? `${needsInit}context.set('state', await ${called(setup)});` : `${needsInit}${setup}`,
    finalize: `${needsInit}${state}${teardown}`,
    outputs: 1,
    timeout: runTimeoutMs / 1000,
    libs,
  };
  return { properties, obstacles: obstaclesOfStage(stage) };
}

function obstaclesOfStage(stage: StageProperties & { readonly predict: string }): Obstacle[] {
  const obstacles: Obstacle[] = [];
  if (stage.source !== 'inline') obstacles.push({ tab: 'code', line: 1, reason: 'source', name: stage.source });
  if (stage.predict !== 'item') obstacles.push({ tab: 'code', line: 1, reason: 'batch', name: stage.predict });
  for (const tab of ['setup', 'code', 'teardown'] as const) {
    const names = namesIn(stage[tab]);
    for (const reason of ['ctx', 'require'] as const) {
      const line = names.get(reason);
      if (line !== undefined) obstacles.push({ tab, line, reason, name: reason });
    }
  }
  return obstacles;
}

function isOfResult({ reason }: Obstacle): boolean {
  return reason === 'returns' || reason === 'drops' || reason === 'outputs';
}

/** Keeps the lines of the code as they are, so that an error names a line of it plus a constant. */
function called(code: string): string {
  return `(async () => {\n${code}\n})()`;
}

/** A stage answers with a value, a function node with a message. */
function answering(code: string): string {
  return `const result = await ${called(code)};
const isMessage = result !== null && typeof result === 'object' && Object.hasOwn(result, 'payload');
msg.payload = isMessage ? result.payload : result;
return msg;`;
}
