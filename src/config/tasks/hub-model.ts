/** Known models on a hub: their names, their folders in the cache, and which of their files a task needs. Pure. */
import { basename, posix } from 'node:path';
import type { TaskName } from '../stage-source.ts';
import { ENDINGS, endingOf, SUBFOLDERS } from './model-folder.ts';
import { TASKS } from './tasks.ts';

export interface HubModel {
  /** `OWNER/MODEL`. */
  readonly name: string;
  /** A branch, a tag or a commit. */
  readonly revision: string;
}

/** A file as the hub lists it. */
export interface HubFile {
  readonly name: string;
  readonly size: number;
  /** The hash that its content must give; null: the hub does not tell. */
  readonly hash: { readonly kind: 'sha256' | 'git'; readonly value: string } | null;
}

const NAME = /^([A-Za-z0-9][\w.-]*\/[A-Za-z0-9][\w.-]*)(?:@([A-Za-z0-9][\w./-]*))?$/;

/** Files that the library reads if they are there. */
const OPTIONAL: readonly string[] = ['generation_config.json', 'processor_config.json', 'chat_template.jinja'];

const WHOLE: readonly (readonly string[])[] = [['model']];
const ENCODED: readonly string[] = ['encoder_model', 'decoder_model_merged'];
/** The networks of a task by the names of their files: the first set of which the model has all. */
const NETWORKS: Readonly<Partial<Record<TaskName, readonly (readonly string[])[]>>> = {
  'image-feature-extraction': [['vision_model'], ...WHOLE],
  'feature-extraction': [...WHOLE, ['text_model']],
  'automatic-speech-recognition': [ENCODED, ...WHOLE],
  'text-generation': [...WHOLE, ENCODED, ['embed_tokens', 'decoder_model_merged']],
};

/** Reads `OWNER/MODEL` or `OWNER/MODEL@REVISION`; null for any other text. */
export function parseHubName(text: string): HubModel | null {
  const [, name, revision = 'main'] = NAME.exec(text) ?? [];
  return name === undefined || `${name}/${revision}`.split('/').some(isUpwards) ? null : { name, revision };
}

/** Returns the name as users write it. */
export function hubText({ name, revision }: HubModel): string {
  return revision === 'main' ? name : `${name}@${revision}`;
}

/** Returns the name of the model's folder in the cache. Hubs have no names with two hyphens. */
export function hubFolder({ name, revision }: HubModel): string {
  return `${name.replace('/', '--')}@${encodeURIComponent(revision)}`;
}

/** Returns the model on a hub that a text names if this is its folder; null for a folder of the user. */
export function hubModelIn(folder: string, text: string): HubModel | null {
  const model = parseHubName(text);
  return model !== null && basename(folder) === hubFolder(model) ? model : null;
}

/** Whether the name of a file stays within its folder, on every platform. */
export function isSafeName(name: string): boolean {
  return name !== '' && !/[\\:\0]/.test(name) && name.split('/').every((part) => part !== '' && !isUpwards(part));
}

function isUpwards(part: string): boolean {
  return part === '.' || part === '..';
}

/**
 * Returns the files that a task needs, weights last, so that a folder without weights is incomplete.
 * @param precision `auto`: the first of those that the model has
 * @throws Error that lists what the model lacks
 */
export function neededFiles(files: readonly HubFile[], task: TaskName, precision: string): readonly HubFile[] {
  const byName = new Map(files.map((file) => [file.name, file]));
  const fixed = ['config.json', ...TASKS[task].files];
  const missing = fixed.filter((name) => !byName.has(name));
  const weights = weightsOf([...byName.keys()], task, precision);
  if (weights.length === 0)
    missing.push(`weights as ONNX${precision === 'auto' ? '' : ` of the precision ${precision}`}`);
  if (missing.length > 0) throw new Error(`it lacks ${missing.join(', ')}`);
  const data = weights.flatMap((weight) => [...byName.keys()].filter((name) => name.startsWith(`${weight}_data`)));
  const names = [...fixed, ...OPTIONAL.filter((name) => byName.has(name)), ...data, ...weights];
  return names.map((name) => byName.get(name) as HubFile);
}

function weightsOf(names: readonly string[], task: TaskName, precision: string): readonly string[] {
  const wanted = ENDINGS.filter(([name]) => precision === 'auto' || name === precision);
  for (const folder of SUBFOLDERS) {
    const here = names.filter((name) => name.endsWith('.onnx') && posix.dirname(name) === (folder || '.'));
    for (const [, ending] of wanted) {
      const path = (network: string): string => posix.join(folder, `${network}${ending}.onnx`);
      const set = (NETWORKS[task] ?? WHOLE).find((networks) =>
        networks.every((network) => here.includes(path(network))),
      );
      if (set) return set.map(path);
      // A model of another make: all of its networks.
      const all = here.filter((name) => endingOf(name) === ending);
      if (all.length > 0) return all;
    }
  }
  return [];
}
