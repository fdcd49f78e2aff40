/**
 * Makes a modelet from the code in a stage's tabs On Start, Predict and On Stop. Each tab is the body of an async
 * function and has the conveniences of Node-RED's function node that make sense outside Node-RED's process.
 */
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { compileFunction, constants } from 'node:vm';
import { INLINE_NAMES, packageOf } from '../../../config/formats/module-names.ts';
import type { ModuleBinding, StageSource } from '../../../config/stage-source.ts';
import { asError, isModeletError } from '../../../core/errors.ts';
import type { MessageUse } from '../../../core/whole-messages.ts';
import { type LoadSource, type ModeletContext, NO_STATICS, type RequestMeta } from '../modelet/modelet.ts';
import { importFrom } from './import-module.ts';
import { MessageRun } from './message-run.ts';
import { UTIL } from './message-tools.ts';

type Body = (...args: unknown[]) => Promise<unknown>;

export const loadInline: LoadSource<Extract<StageSource, { kind: 'inline' }>> = async (source, definition, context) => {
  // The built-in names, then the variables of its modules. `msg` and `input` are undefined in On Start and On Stop.
  const names = [...INLINE_NAMES, ...source.libs.map((lib) => lib.var)];
  const setup = compile(source.setup, names, `${context.stage}: On Start`);
  const predict = compile(source.code, names, `${context.stage}: Predict`);
  const teardown = compile(source.teardown, names, `${context.stage}: On Stop`);
  const modules = await Promise.all(source.libs.map((lib) => load(lib, definition.requireFrom)));
  const require = requireFrom(definition.requireFrom);
  const { use, variables = {} } = source;
  const node = nodeHabits(context);
  const env = {
    get: (name: string): unknown => (Object.hasOwn(variables, name) ? variables[name] : process.env[name]),
  };
  let state: unknown = {};
  const call = (body: Body, ctx: ModeletContext, msg?: unknown, input?: unknown): Promise<unknown> =>
    body(msg, input, state, definition.init, ctx, node, env, require, FLOW, GLOBAL, CONTEXT, RED, ...modules);
  const runOf = (known: MessageUse, input: unknown, meta: RequestMeta, ctx: ModeletContext): unknown => {
    const run = new MessageRun(known, input, meta, ctx, nodeHabits(context));
    const [flow, global, own] = (['flow', 'global', 'context'] as const).map((scope) =>
      notHere(scope, run.context(scope), NOT_SHARED),
    );
    const { init } = definition;
    return run.run(() =>
      predict(run.msg, input, state, init, ctx, run.node, env, require, flow, global, own, RED, ...modules),
    );
  };
  return {
    ...NO_STATICS,
    batch: definition.predict === 'batch',
    setup: async () => {
      state = (await call(setup, context)) ?? state;
    },
    predict: use
      ? (input, meta, ctx) => runOf(use, input, meta as RequestMeta, ctx)
      : async (input, meta, ctx) => {
          const msg = { ...(Array.isArray(meta) ? {} : (meta as RequestMeta)), payload: input };
          return payloadOf(await call(predict, ctx, msg, input));
        },
    teardown: () => call(teardown, context),
  };
};

/** Returns the default export if the module has one, else the namespace, as a function node does. */
async function load({ module }: ModuleBinding, folder: string): Promise<unknown> {
  try {
    const namespace = await importFrom(folder, module);
    return 'default' in namespace ? namespace.default : namespace;
  } catch (thrown) {
    if (isModeletError(thrown)) throw thrown;
    const error = asError(thrown);
    error.message = `the module ${module} does not load: ${error.message}`;
    throw error;
  }
}

const PACKAGE = /^@?[\w~-][\w./~-]*$/;

/** Returns the `require` of the code's folder. The error of a missing package says how to get it. */
function requireFrom(folder: string): NodeJS.Require {
  const require = createRequire(join(folder, 'package.json'));
  const explained = (name: string): unknown => {
    try {
      return require(name);
    } catch (thrown) {
      const error = thrown as { readonly code?: unknown; message: string };
      // The missing module may also be a file, or a package that this package needs.
      if (error.code === 'MODULE_NOT_FOUND' && PACKAGE.test(name) && error.message.includes(`'${name}'`))
        error.message = `Cannot find module '${name}': list it on the tab Modules of the stage, or run "npm install ${packageOf(name)}" in ${folder}`;
      throw thrown;
    }
  };
  return Object.assign(explained, require);
}

function compile(code: string, names: readonly string[], filename: string): Body {
  try {
    // Compiled as a script and not with Function, so that a stack names the tab and line that the user sees.
    const make = compileFunction(`return async (${names.join(', ')}) => {\n${code}\n};`, [], {
      filename,
      lineOffset: -1,
      importModuleDynamically: constants.USE_MAIN_CONTEXT_DEFAULT_LOADER as never,
    });
    return make() as Body;
  } catch (thrown) {
    throw withPlace(thrown as Error, filename);
  }
}

/** Adds the place to a syntax error's message. Only its stack has the place, but people see only the message. */
function withPlace(error: Error, filename: string): Error {
  const [place = '', line = ''] = error.stack?.split('\n') ?? [];
  error.message = `${place.startsWith(filename) ? place : filename}: ${error.message}${hintFor(error.message, line)}`;
  return error;
}

/** Returns how to write what only a module, or a generator, may have. */
function hintFor(message: string, line: string): string {
  if (message.startsWith('Cannot use import statement')) return ' (use require, or the tab Modules)';
  return /\byield\b/.test(line)
    ? ' (a result in parts is that of a generator: return (async function* () { ... })())'
    : '';
}

/** Returns the payload if the code returned a message, as code for a function node does. */
function payloadOf(result: unknown): unknown {
  const isMessage = result !== null && typeof result === 'object' && Object.hasOwn(result, 'payload');
  return isMessage ? (result as { payload: unknown }).payload : result;
}

function nodeHabits({ log, stage }: ModeletContext): object {
  return notHere(
    'node',
    { name: stage, log: log.info, warn: log.warn, error: log.error, debug: log.debug, trace: log.debug },
    'return the result; messages and a status are sent in the tab Predict, by code that is called once for each item',
  );
}

const NOT_SHARED =
  'it lives in Node-RED\u2019s process: put what is needed into msg.payload or into the stage\u2019s init';
const FLOW = notHere('flow', {}, NOT_SHARED);
const GLOBAL = notHere('global', {}, NOT_SHARED);
const CONTEXT = notHere('context', {}, NOT_SHARED);
const RED = notHere('RED', { util: notHere('RED.util', UTIL, NOT_SHARED) }, NOT_SHARED);

/** Returns an object with the members of `known`. Reading any other name throws an error that gives the reason. */
function notHere(name: string, known: object, reason: string): object {
  return new Proxy(known, {
    get(target, key) {
      if (Object.hasOwn(target, key)) return target[key as keyof typeof target];
      if (typeof key === 'symbol') return undefined;
      throw new Error(`${name}.${key} does not exist in a worker: ${reason}`);
    },
  });
}
