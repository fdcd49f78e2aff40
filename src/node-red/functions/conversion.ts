/**
 * Makes the definition of a stage from that of a function node, and back, with all that does not carry over; for the action
 * of the editor, which asks by a route.
 */
import { namesIn, type Obstacle, readFunctionCode } from '../../config/code/function-code.ts';
import { obstaclesIn, returnsOf } from '../../config/code/message-use.ts';
import { stage as schema } from '../../config/schemas/stage.ts';
import { ModeletError } from '../../core/errors.ts';
import { execProperties, stageOfExec } from './exec-node.ts';

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

/** Properties of an inline stage; the editor has the defaults of the others. */
export interface StageProperties {
  readonly source: string;
  readonly setup: string;
  readonly code: string;
  readonly teardown: string;
  readonly libs: FunctionProperties['libs'];
  readonly outputs: number;
  readonly runTimeoutMs: number;
}

interface Converted<Properties> {
  readonly properties: Properties;
  readonly obstacles: readonly Obstacle[];
}

const MOST_OUTPUTS = schema.properties.outputs.maximum;

export function stageOfFunction(node: FunctionProperties): Converted<StageProperties> {
  const outputs = Math.min(MOST_OUTPUTS, Math.max(1, node.outputs));
  const setup = readFunctionCode(node.initialize, 'setup');
  const code = readFunctionCode(node.func, 'code');
  const teardown = readFunctionCode(node.finalize, 'teardown');
  const obstacles = [...setup.obstacles, ...obstaclesIn(code, node.func, outputs), ...teardown.obstacles];
  if (node.outputs > MOST_OUTPUTS)
    obstacles.unshift({ tab: 'code', line: 1, reason: 'outputs', name: String(node.outputs) });
  const properties: StageProperties = {
    source: 'inline',
    setup: node.initialize,
    code: node.func,
    teardown: node.finalize,
    libs: node.libs,
    outputs,
    runTimeoutMs: Math.round(node.timeout * 1000),
  };
  return { properties, obstacles };
}

/** @param stage with what a function node has no place for */
export function functionOfStage(
  stage: StageProperties & { readonly init: string; readonly predict: string },
): Converted<FunctionProperties> {
  const { setup, code, teardown, init, libs, outputs, runTimeoutMs } = stage;
  const used = new Set([setup, code, teardown].flatMap((text) => [...namesIn(text).keys()]));
  const has = (...names: string[]): boolean => names.some((name) => used.has(name));
  const needsInit = has('init') ? `const init = ${init.trim() || '{}'};\n` : '';
  const isOfMessages =
    !has('input', 'state', 'init') && returnsOf(readFunctionCode(code, 'code'), outputs) === 'messages';
  const keepsState = has('state');
  const state = keepsState ? "const state = context.get('state');\n" : '';
  const properties: FunctionProperties = {
    func: isOfMessages ? code : `${needsInit}${state}const input = msg.payload;\n${answering(code)}`,
    initialize: keepsState ? `${needsInit}context.set('state', await ${called(setup)});` : `${needsInit}${setup}`,
    finalize: `${needsInit}${state}${teardown}`,
    outputs,
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

/** Body of a question of the editor. */
export type EditorQuestion = Readonly<Record<string, unknown>>;

/** @throws ModeletError if the body has no node that can be converted */
export function convert({ node }: EditorQuestion): object {
  const fields = (node ?? {}) as EditorQuestion;
  const text = (name: string): string => String(fields[name] ?? '');
  const libs = (Array.isArray(fields['libs']) ? fields['libs'] : []) as { var: string; module: string }[];
  if (fields['type'] === 'function') {
    const { outputs = 1, timeout = 0 } = fields;
    const own = { func: text('func'), initialize: text('initialize'), finalize: text('finalize'), libs };
    return stageOfFunction({ ...own, outputs: Number(outputs), timeout: Number(timeout) || 0 });
  }
  if (fields['type'] === 'modelet-stage') {
    const own = { source: text('source'), setup: text('setup'), code: text('code'), teardown: text('teardown'), libs };
    const { runTimeoutMs = 0, outputs = 1 } = fields;
    const more = { init: text('init'), predict: text('predict'), outputs: Number(outputs) || 1 };
    return functionOfStage({ ...own, ...more, runTimeoutMs: Number(runTimeoutMs) || 0 });
  }
  if (fields['type'] === 'exec') return stageOfExec(execProperties(fields), process.cwd());
  throw new ModeletError(
    'bad_request',
    'the body must be {"node": {...}}, with a function node, an exec node or a modelet stage',
  );
}
