/** Looks into the folder of a known model: which precisions it has, and what it lacks. Reads no file but the configuration. */
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type { TaskName } from '../stage-source.ts';
import { TASKS } from './tasks.ts';

/** Precisions of weights in the order of preference, and how the names of their files end. */
export const ENDINGS: readonly (readonly [precision: string, ending: string])[] = [
  ['fp32', ''],
  ['q8', '_quantized'],
  ['fp16', '_fp16'],
  ['int8', '_int8'],
  ['uint8', '_uint8'],
  ['q4', '_q4'],
  ['q4f16', '_q4f16'],
  ['bnb4', '_bnb4'],
];
/** Folders of the weights: that of exports for the library, and that of others. */
export const SUBFOLDERS = ['onnx', ''] as const;

export interface ModelFolder {
  readonly path: string;
  /** Folder of the weights within the folder. */
  readonly subfolder: string;
  /** As the library calls it. */
  readonly precision: string;
}

/**
 * Returns where the weights are.
 * @param precision `auto`: the first of those that the folder has
 * @throws Error that lists what the folder lacks
 */
export function lookIntoFolder(path: string, task: TaskName, precision: string): ModelFolder {
  if (statSync(path, { throwIfNoEntry: false })?.isDirectory() === false)
    throw new Error(`${path} is a file: give the folder that has it`);
  const missing = ['config.json', ...TASKS[task].files].filter((name) => !isFile(join(path, name)));
  const subfolder = SUBFOLDERS.find((name) => weightsIn(join(path, name)).length > 0);
  const weights = subfolder === undefined ? [] : weightsIn(join(path, subfolder));
  const there = ENDINGS.filter(([, ending]) => weights.some((name) => endingOf(name) === ending)).map(([name]) => name);
  const chosen = precision === 'auto' ? there[0] : there.find((name) => name === precision);
  if (there.length === 0) missing.push('onnx/*.onnx, the weights');
  else if (chosen === undefined) missing.push(`weights of the precision ${precision} (it has ${there.join(', ')})`);
  if (missing.length > 0) throw new Error(`the folder ${path} lacks ${missing.join(', ')}`);
  checkConfig(join(path, 'config.json'));
  return { path, subfolder: subfolder as string, precision: chosen as string };
}

/** Whether the folder has all that the task needs. */
export function isWholeModel(path: string, task: TaskName, precision: string): boolean {
  try {
    return lookIntoFolder(path, task, precision) !== null;
  } catch {
    return false;
  }
}

function weightsIn(folder: string): string[] {
  try {
    return readdirSync(folder).filter((name) => name.endsWith('.onnx'));
  } catch {
    return [];
  }
}

export function endingOf(name: string): string {
  const stem = name.slice(0, -'.onnx'.length);
  return ENDINGS.find(([, ending]) => ending !== '' && stem.endsWith(ending))?.[1] ?? '';
}

function isFile(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isFile() === true;
}

function checkConfig(path: string): void {
  let config: { readonly model_type?: unknown };
  try {
    config = JSON.parse(readFileSync(path, 'utf8')) as typeof config;
  } catch (cause) {
    throw new Error(`${path} is not JSON: ${(cause as Error).message}`, { cause });
  }
  if (typeof config?.model_type !== 'string') throw new Error(`${path} names no model_type: it is no known model`);
}
