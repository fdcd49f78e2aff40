/**
 * Makes a modelet of the code in a stage's tabs On Start / Predict / On Stop: bodies of async functions with the
 * habits of Node-RED's function node, as far as they make sense outside Node-RED's process.
 */
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { compileFunction, constants } from 'node:vm';
import { INLINE_NAMES } from '../../config/libs.ts';
import { asError, isModeletError } from '../../core/errors.ts';
import type { ModuleBinding, StageSource } from '../../core/model.ts';
import type { ModeletContext, RequestMeta } from '../modelet/modelet.ts';
import { NO_STATICS } from '../modelet/statics.ts';
import { importFrom } from './import-module.ts';
import type { LoadSource } from './source.ts';

type Body = (...args: unknown[]) => Promise<unknown>;

export const loadInline: LoadSource<Extract<StageSource, { kind: 'inline' }>> = async (source, definition, context) => {
  // What it has anyway, `msg` and `input` undefined in On Start and On Stop, and then its modules.
  const names = [...INLINE_NAMES, ...source.libs.map((lib) => lib.var)];
  const setup = compile(source.setup, names, `${context.stage}: On Start`);
  const predict = compile(source.code, names, `${context.stage}: Predict`);
  const teardown = compile(source.teardown, names, `${context.stage}: On Stop`);
  const modules = await Promise.all(source.libs.map((lib) => load(lib, definition.requireFrom)));
  const require = createRequire(join(definition.requireFrom, 'package.json'));
  const node = nodeHabits(context);
  let state: unknown;
  const call = (body: Body, msg?: unknown, input?: unknown): Promise<unknown> =>
    body(msg, input, state, definition.init, context, node, ENV, require, FLOW, GLOBAL, CONTEXT, NO_RED, ...modules);
  return {
    ...NO_STATICS,
    batch: definition.predict === 'batch',
    setup: async () => {
      state = await call(setup);
    },
    predict: async (input, meta) => {
      const msg = { ...(Array.isArray(meta) ? {} : (meta as RequestMeta)), payload: input };
      return payloadOf(await call(predict, msg, input));
    },
    teardown: () => call(teardown),
  };
};

/** What a variable stands for, as in a function node: the default export where there is one. */
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

function compile(code: string, names: readonly string[], filename: string): Body {
  try {
    // Compiled as a script and not through Function, so that a stack names the tab and the line the user sees.
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

/** A syntax error says where only in its stack, and it is the message that people see. */
function withPlace(error: Error, filename: string): Error {
  const [place = ''] = error.stack?.split('\n') ?? [];
  error.message = `${place.startsWith(filename) ? place : filename}: ${error.message}`;
  return error;
}

/** Returning a message means its payload, as returning from a function node would. */
function payloadOf(result: unknown): unknown {
  const isMessage = result !== null && typeof result === 'object' && Object.hasOwn(result, 'payload');
  return isMessage ? (result as { payload: unknown }).payload : result;
}

const ENV = { get: (name: string): string | undefined => process.env[name] };

function nodeHabits({ log, stage }: ModeletContext): object {
  return notHere(
    'node',
    { name: stage, log: log.info, warn: log.warn, error: log.error, debug: log.debug, trace: log.debug },
    'return the result instead of sending it; the status badge is the stage\u2019s own',
  );
}

const NOT_SHARED =
  'it lives in Node-RED\u2019s process: put what is needed into msg.payload or into the stage\u2019s init';
const FLOW = notHere('flow', {}, NOT_SHARED);
const GLOBAL = notHere('global', {}, NOT_SHARED);
const CONTEXT = notHere('context', {}, NOT_SHARED);
const NO_RED = notHere('RED', {}, NOT_SHARED);

/** An object that has `known` and explains why it has nothing else. */
function notHere(name: string, known: object, reason: string): object {
  return new Proxy(known, {
    get(target, key) {
      if (Object.hasOwn(target, key)) return target[key as keyof typeof target];
      if (typeof key === 'symbol') return undefined;
      throw new Error(`${name}.${key} does not exist in a worker: ${reason}`);
    },
  });
}
