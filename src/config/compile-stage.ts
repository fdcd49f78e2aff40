/** Compiles the settings of a stage: the source of its code, its workers with cores and environment, and its limits. */
import { availableParallelism } from 'node:os';
import { counted } from '../core/figures.ts';
import type { PayloadSchema, WorkerPlacement } from '../core/model.ts';
import { isFields } from '../core/objects.ts';
import type { StageVersion, VersionMode, VersionShare } from '../core/versions.ts';
import { messageUseOf, variablesOf } from './code/message-use.ts';
import { parseSchemaText } from './formats/json.ts';
import { parseMediaRanges } from './formats/media-types.ts';
import { parseResultProperty } from './formats/message-property.ts';
import { parseRequirements } from './formats/module-names.ts';
import { parsePins } from './formats/pins.ts';
import { MOST_WORKERS, parseWorkers } from './formats/workers.ts';
import { parseLibs, parseModuleName } from './modules.ts';
import { parseOnnxOptions } from './onnx-options.ts';
import { compilePayloadSchema } from './payload-schema.ts';
import type { SettingsOf } from './schemas/node-schema.ts';
import { stage as schema } from './schemas/stage.ts';
import type { Scaling } from './stage-definition.ts';
import type { StageSource } from './stage-source.ts';
import { hubModelIn, hubText } from './tasks/hub-model.ts';
import { lookIntoFolder } from './tasks/model-folder.ts';
import { parseTaskInit } from './tasks/task-options.ts';
import { INPUT_TYPES, TASKS } from './tasks/tasks.ts';
import {
  invalid,
  type LookUp,
  OF_PROCESS,
  parseJson,
  type Raw,
  readProperty,
  validate,
  withVariables,
} from './validate.ts';

type StageSettings = SettingsOf<typeof schema>;

/** The settings that describe the modelet's source; they become `source`. */
type SourceSetting =
  | ('source' | 'setup' | 'code' | 'teardown' | 'libs' | 'requirements' | 'path' | 'module' | 'python')
  | ('task' | 'model' | 'precision');
/** The settings that describe the workers; they become `workers`. */
type WorkerSetting = 'workers' | 'idleMs' | 'cpus' | 'env';

export type StageConfig = Omit<
  StageSettings,
  | SourceSetting
  | WorkerSetting
  | 'init'
  | 'inputSchema'
  | 'outputSchema'
  | 'mediaTypes'
  | 'versions'
  | 'shares'
  | 'rollback'
> & {
  readonly source: StageSource;
  readonly init: unknown;
  /** Schema of an input; null: the modelet's own schema, if it has one. The same holds for `outputSchema`. */
  readonly inputSchema: PayloadSchema | null;
  readonly outputSchema: PayloadSchema | null;
  /** All workers that there may be. */
  readonly workers: readonly WorkerPlacement[];
  /** Null: all of them run all the time. */
  readonly scaling: Scaling | null;
  /** Media ranges in lower case; an asterisk matches any name. */
  readonly mediaTypes: readonly string[];
  readonly versions: readonly StageVersion[];
  /** Percent of failed requests above which a version loses its share; null: never. */
  readonly rollback: number | null;
};

const NATIVE = 'runs in native code, which would take the engine with it where it crashes: choose processes';
const COMPUTES = 'computes one batch at a time on all cores of its worker: use a batcher, or more workers';
const ON_HOSTS = 'worker hosts choose their number of workers, with --workers: give a number here, or choose local';
/** Makes the paths of files absolute, and throws if there is no such file; those of known models lead to their folders. */
type ResolvePaths = (path: string, of?: 'model') => string;

/** The idle time that `idleMs` 0 stands for. */
const USUAL_IDLE_MS = 600_000;

/**
 * Validates the settings of a stage and freezes the result.
 * @param resolve makes the path of a file or known model absolute; throws if it does not exist.
 * @param lookUp returns the value of `${NAME}` in `init` and `env`.
 * @param cores returns how many workers can compute at a time, for `auto`.
 * @throws ModeletError `config_invalid`.
 */
export function compileStage(
  raw: Raw,
  resolve: ResolvePaths,
  lookUp: LookUp = OF_PROCESS,
  cores: () => number = availableParallelism,
): StageConfig {
  const { versions: listed } = raw;
  // Inside a subflow, Node-RED makes the list of a single id the text of that id, as it has it in the instance.
  const versions = typeof listed === 'string' && listed !== '' ? [listed] : listed;
  const settings = validate(schema, { ...raw, versions });
  const { source, setup, code, teardown, libs, requirements, path, module, python, task, model, precision, ...others } =
    settings;
  const { cpus, env, idleMs, shares, ...kept } = others;
  const init = withVariables('init', parseJson('init', settings.init), lookUp);
  const { workers, min } = compileWorkers(settings, cores, lookUp);
  const compiled = compileSource(settings, init, workers, resolve, lookUp);
  return Object.freeze({
    ...kept,
    name: kept.name.trim(),
    dropKey: kept.dropKey.trim(),
    versions: compileVersions(settings),
    sticky: kept.sticky.trim(),
    keyBy: compileKeyBy(settings),
    rollback: compileRollback(kept.rollback),
    source: compiled,
    init,
    inputSchema: compileSchema('inputSchema', kept.inputSchema),
    outputSchema: compileSchema('outputSchema', kept.outputSchema),
    workers,
    scaling: min < workers.length ? { min, idleMs: idleMs || USUAL_IDLE_MS } : null,
    output: readProperty('output', () => parseResultProperty(kept.output)),
    mediaTypes: readProperty('mediaTypes', () => withRowTypes(settings, withOwnTypes(kept.mediaTypes, compiled))),
  });
}

/** A kept result takes no notice of the state. @throws ModeletError `config_invalid`. */
function compileKeyBy({ keyBy, cache }: StageSettings): string {
  const key = keyBy.trim();
  if (key !== '' && cache > 0)
    throw invalid('keyBy: the result depends on the state of the key, so that it cannot be kept: choose no cache');
  return key;
}

function compileSource(
  stage: StageSettings,
  init: unknown,
  workers: readonly WorkerPlacement[],
  resolve: ResolvePaths,
  lookUp: LookUp,
): StageSource {
  const { source } = stage;
  if (source === 'inline') return compileInline(stage, workers, lookUp);
  if (source === 'module')
    return { kind: 'module', module: readProperty('module', () => parseModuleName(stage.module)) };
  if (source === 'task') return compileTask(stage, init, workers.length, resolve);
  if (source === 'python-code') {
    const requirements = readProperty('requirements', () => parseRequirements(stage.requirements));
    const { setup, code, teardown } = stage;
    return { kind: source, setup, code, teardown, requirements, python: compilePython(stage, resolve) };
  }
  const given = stage.path.trim();
  if (given === '') throw invalid('path: the file of the modelet is missing');
  const path = readProperty('path', () => resolve(given));
  if (source === 'file') return { kind: 'file', path };
  if (source === 'python') return { kind: 'python', path, python: compilePython(stage, resolve) };
  checkNative(stage, 'an ONNX model');
  return { kind: 'onnx', path, options: parseOnnxOptions(init), soleWorker: workers.length === 1 };
}

function compileInline(stage: StageSettings, workers: readonly WorkerPlacement[], lookUp: LookUp): StageSource {
  const { setup, code, teardown, predict, outputs } = stage;
  const libs = readProperty('libs', () => parseLibs(stage.libs));
  const use = predict === 'item' ? messageUseOf(code, outputs) : null;
  if (use && stage.cache > 0) throw invalid(`cache: the code ${use.why}, so equal inputs may have different results`);
  if (use && stage.emits === 'list') throw invalid(`emits: the code ${use.why}, so it has no result to take apart`);
  // The environment of the workers is nearer than that of the flow.
  const variables = variablesOf([setup, code, teardown], (name) =>
    workers.some(({ env }) => Object.hasOwn(env, name)) ? undefined : lookUp(name),
  );
  return {
    ...{ kind: 'inline', setup, code, teardown, libs },
    ...(use && { use }),
    ...(Object.keys(variables).length > 0 && { variables }),
  };
}

/** A model that takes files takes those of their kind, whatever else the setting names. */
function withOwnTypes(mediaTypes: string, source: StageSource): string {
  const takesPicture = source.kind === 'onnx' && source.options.presets.takes === 'picture';
  const input = source.kind === 'task' ? TASKS[source.task].input : takesPicture ? 'picture' : null;
  return input === null ? mediaTypes : [mediaTypes, ...INPUT_TYPES[input]].join();
}

const ROW_TYPES = ['application/jsonl', 'application/x-ndjson', 'text/csv'] as const;

/** A stage that takes JSON takes its rows in all forms. */
function withRowTypes({ maxRows }: StageSettings, mediaTypes: string): readonly string[] {
  const ranges = parseMediaRanges(mediaTypes);
  const takesRows = maxRows > 0 && ['application/json', 'application/*', '*/*'].some((json) => ranges.includes(json));
  return takesRows ? [...new Set([...ranges, ...ROW_TYPES])] : ranges;
}

function compileTask(stage: StageSettings, init: unknown, workers: number, resolve: ResolvePaths): StageSource {
  checkNative(stage, 'a known model');
  const { task, precision } = stage;
  const given = stage.model.trim();
  if (given === '') throw invalid('model: the name or folder of the model is missing');
  const folder = readProperty('model', () => resolve(given, 'model'));
  const hub = hubModelIn(folder, given);
  const rest = { ...parseTaskInit(task, init), soleWorker: workers === 1 };
  // It may come later: the workers look.
  if (hub !== null) return { kind: 'task', task, folder, subfolder: '', precision, hub: hubText(hub), ...rest };
  const { path, ...weights } = readProperty('model', () => lookIntoFolder(folder, task, precision));
  return { kind: 'task', task, folder: path, ...weights, ...rest };
}

function checkNative({ isolation, concurrency }: StageSettings, what: string): void {
  if (isolation === 'thread') throw invalid(`isolation: ${what} ${NATIVE}`);
  if (concurrency > 1) throw invalid(`concurrency: ${what} ${COMPUTES}`);
}

/** Returns the interpreter, resolved if it is a path; the workers look up a plain name in PATH. */
function compilePython(stage: StageSettings, resolve: ResolvePaths): string {
  if (stage.isolation === 'thread') throw invalid('isolation: Python runs in separate processes, not in threads');
  const python = stage.python.trim();
  return /[\\/]/.test(python) ? readProperty('python', () => resolve(python)) : python;
}

function compileSchema(property: string, text: string): PayloadSchema | null {
  if (text.trim() === '') return null;
  return readProperty(property, () => {
    const schema = parseSchemaText(text) as PayloadSchema;
    compilePayloadSchema(schema);
    return schema;
  });
}

/** Returns all workers that there may be, and how many there are at least. */
function compileWorkers(
  { workers, cpus, env, placement }: StageSettings,
  cores: () => number,
  lookUp: LookUp,
): { workers: WorkerPlacement[]; min: number } {
  const pins = readProperty('cpus', () => parsePins(cpus));
  const one = Math.max(1, pins.length);
  const given = readProperty('workers', () => parseWorkers(workers)) ?? { min: one, max: one };
  const count = given.max ?? (pins.length || cores());
  if (count > MOST_WORKERS) throw invalid(`workers: must be a whole number from 1 to ${MOST_WORKERS}; got ${count}`);
  const min = Math.min(given.min, count);
  if (min < count && placement === 'remote') throw invalid(`workers: ${ON_HOSTS}`);
  const environments = compileEnv(env, count, lookUp);
  const placements = Array.from({ length: count }, (_, index) => ({
    cpus: pins.length === 0 ? null : (pins[index % pins.length] ?? null),
    env: environments[index] ?? {},
  }));
  return { workers: placements, min };
}

function compileEnv(text: string, workers: number, lookUp: LookUp): Record<string, string>[] {
  if (text.trim() === '') return [];
  const parsed = withVariables('env', parseJson('env', text), lookUp);
  if (Array.isArray(parsed)) {
    if (parsed.length !== workers) {
      throw invalid(`env: an array needs one object per worker: ${parsed.length} for ${counted(workers, 'worker')}`);
    }
    return parsed.map(environment);
  }
  const shared = environment(parsed);
  return Array.from({ length: workers }, () => shared);
}

function environment(value: unknown): Record<string, string> {
  if (!isFields(value)) throw invalid('env: must be an object of names and values, or an array of such objects');
  return Object.fromEntries(
    Object.entries(value).map(([name, content]) => {
      if (typeof content === 'object') throw invalid(`env: ${name} must be text or a number`);
      const text = String(content);
      // No system can pass on a variable with NUL. The message omits the value because it may be a secret.
      if (`${name}${text}`.includes('\0')) throw invalid(`env: ${JSON.stringify(name)} must not contain NUL`);
      return [name, text];
    }),
  );
}

const MODES: readonly string[] = ['answer', 'shadow'] satisfies VersionMode[];

/**
 * Skips rows without a stage. Whether the stages can be versions depends on the flows, see src/flow/versions.ts.
 * @throws ModeletError `config_invalid`.
 */
function compileVersions({ versions: ids, shares }: Pick<StageSettings, 'versions' | 'shares'>): StageVersion[] {
  if (ids.length !== shares.length)
    throw invalid(`versions: there must be one share for each: ${shares.length} for ${counted(ids.length, 'version')}`);
  const versions = ids.flatMap((stage, index) => (stage === '' ? [] : { stage, ...compileShare(shares[index]) }));
  const twice = ids.find((id, index) => id !== '' && ids.indexOf(id) < index);
  if (twice !== undefined) throw invalid(`versions: stage ${twice} is listed twice`);
  const sum = versions.reduce((total, { mode, share }) => total + (mode === 'answer' ? share : 0), 0);
  // Shares such as 33.3 have no exact sum.
  if (sum > 100 + 1e-6)
    throw invalid(`versions: the shares of those that answer sum to ${sum} %, the maximum is 100 %`);
  return versions;
}

function compileShare({ share: text = '', mode = '' }: Partial<StageSettings['shares'][number]> = {}): VersionShare {
  const share = percent(text);
  if (share === null) throw invalid(`versions: shares must be numbers from 0 to 100; got "${text}"`);
  if (!MODES.includes(mode)) throw invalid(`versions: the mode must be ${MODES.join(' or ')}; got "${mode}"`);
  return { share, mode: mode as VersionMode };
}

/** Returns the limit; null if it is blank. @throws ModeletError `config_invalid`. */
function compileRollback(text: string): number | null {
  if (text.trim() === '') return null;
  const limit = percent(text);
  if (limit === null) throw invalid(`rollback: must be a number from 0 to 100, or blank; got "${text}"`);
  return limit;
}

function percent(text: string): number | null {
  const value = text.trim() === '' ? Number.NaN : Number(text);
  return value >= 0 && value <= 100 ? value : null;
}
