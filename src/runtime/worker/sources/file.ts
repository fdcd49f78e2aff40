/**
 * Loads a modelet from a file, or from an npm module in the folder where Node-RED puts modules: an ES or CommonJS
 * module whose default export is a function or a class.
 */
import { pathToFileURL } from 'node:url';
import type { StageSource } from '../../../config/stage-source.ts';
import {
  type Loadable,
  type LoadedModelet,
  type LoadSource,
  type ModeletContext,
  type Statics,
  staticsOf,
} from '../modelet/modelet.ts';
import { StepLoop } from '../modelet/step-loop.ts';
import { importFrom } from './import-module.ts';

type Method = (...args: unknown[]) => unknown;
type Methods = Partial<
  Record<'setup' | 'preprocess' | 'predict' | 'step' | 'postprocess' | 'onKeyEnd' | 'teardown', Method>
>;

export const loadFile: LoadSource<Extract<StageSource, { kind: 'file' }>> = async (source, definition, context) =>
  modeletOf(await import(pathToFileURL(source.path).href), source.path, definition, context);

/**
 * Returns the modelet that a module exports. `name`: the module's name, for errors.
 * @throws TypeError if the export is no modelet, and any error that its constructor throws.
 */
export function modeletOf(module: object, name: string, definition: Loadable, context: ModeletContext): LoadedModelet {
  const exported = defaultExport(module);
  if (typeof exported !== 'function') {
    throw new TypeError(`${name} must export a function or a class as its default, found ${typeof exported}`);
  }
  const asked = definition.predict === 'batch';
  const statics = staticsOf(exported, name);
  if (!isClass(exported)) return { ...fromFunction(exported as Method, asked), ...statics };
  const instance = Reflect.construct(exported, [definition.init, context]) as Methods;
  const { batch: declared } = exported as { batch?: unknown };
  const mustProve = declared === 'proven';
  const batch = asked || mustProve || declared === true;
  const { predict, step } = instance;
  if (typeof predict === 'function') {
    const made = fromInstance(instance, batch, (input, _, ctx) => predict.call(instance, input, ctx));
    return { ...made, mustProve, ...statics };
  }
  if (typeof step !== 'function') throw new TypeError(`the class in ${name} has no method predict, and no step`);
  if (batch) throw new TypeError(`the class in ${name} runs step by step: its call must be "one item", not a batch`);
  const loop = new StepLoop((sequences) => step.call(instance, sequences, context));
  return { ...fromInstance(instance, batch, (input, _, ctx) => loop.predict(input, ctx)), ...statics };
}

/** Unwraps the default export. CommonJS arrives as `default`; a compiled ES module has a second `default` inside. */
function defaultExport(module: { default?: unknown }): unknown {
  const outer = module.default;
  const compiled = outer !== null && typeof outer === 'object' && '__esModule' in outer && 'default' in outer;
  return compiled ? outer.default : outer;
}

function isClass(value: { prototype?: unknown }): boolean {
  const methods = value.prototype as Methods | undefined;
  return (
    // Do not test the source text: the arrow function `classes => ...` also starts with `class`.
    Object.getOwnPropertyDescriptor(value, 'prototype')?.writable === false ||
    typeof (methods?.predict ?? methods?.step) === 'function'
  );
}

/** A modelet without its statics, which `modeletOf` adds. */
type Callable = Omit<LoadedModelet, keyof Statics>;

function fromFunction(predict: Method, batch: boolean): Callable {
  const { onKeyEnd } = predict as Methods;
  return {
    batch,
    setup: () => {},
    predict: (input, _, ctx) => predict(input, ctx),
    teardown: () => {},
    ...(onKeyEnd ? { onKeyEnd: (key, state, ctx) => onKeyEnd(key, state, ctx) } : {}),
  };
}

function fromInstance(instance: Methods, batch: boolean, predict: Callable['predict']): Callable {
  const { preprocess, postprocess, onKeyEnd } = instance;
  return {
    batch,
    setup: () => instance.setup?.(),
    predict,
    teardown: () => instance.teardown?.(),
    ...(preprocess ? { preprocess: (input, ctx) => preprocess.call(instance, input, ctx) } : {}),
    ...(postprocess ? { postprocess: (output, input, ctx) => postprocess.call(instance, output, input, ctx) } : {}),
    ...(onKeyEnd ? { onKeyEnd: (key, state, ctx) => onKeyEnd.call(instance, key, state, ctx) } : {}),
  };
}

export const loadModule: LoadSource<Extract<StageSource, { kind: 'module' }>> = async (source, definition, context) =>
  modeletOf(await importFrom(definition.requireFrom, source.module), source.module, definition, context);
