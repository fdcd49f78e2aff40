/** Turns a published stage into a stage that this host can run, if its rules allow it: its workers, cores, files and modules. */
import { mkdir, rename, stat, writeFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { basename, join } from 'node:path';
import { parsePins } from '../../config/formats/pins.ts';
import type { PlannedStage } from '../../config/stage-definition.ts';
import type { StageSource } from '../../config/stage-source.ts';
import type { WorkerPlacement } from '../../core/model.ts';
import { BUILD_ID } from '../../process/build-id.ts';
import { type PublishedStage, type StageFile, sha256Of } from '../entries.ts';
import { type HostModels, refusal } from './host-models.ts';

export interface HostRules {
  /** Secret with which definitions are signed; null: what is not signed is read, too, as only local code runs. */
  readonly secret: string | null;
  /** Whether the host runs only its own files and modules. */
  readonly onlyLocalCode: boolean;
  /** Names of the stages to serve; empty: all. */
  readonly stages: readonly string[];
  /** Number of workers of each stage; null: as in the stage's dialog. */
  readonly workers: number | null;
  /** Cores of the workers, in the form of the dialog's field; null: as in the dialog. */
  readonly cpus: string | null;
}

/**
 * Returns the stage as this host runs it, or null if the host does not run the stage, or not before its model is here.
 * @throws ModeletError `config_invalid` that says why the host does not run it.
 */
export async function installed(
  published: PublishedStage,
  rules: HostRules,
  models: HostModels,
): Promise<PlannedStage | null> {
  const { build, key, stage, file } = published;
  if (rules.stages.length > 0 && !rules.stages.includes(stage.name)) return null;
  if (build !== BUILD_ID) throw refusal('the runtime runs another version of this package than the host');
  const { source: given } = stage.modelet;
  const source = given.kind === 'task' ? models.find(given) : await sourceOn(given, file, rules);
  if (source === null) return null;
  const requireFrom = process.cwd();
  const workers = placements(stage.modelet.workers, rules);
  const modelet = { ...stage.modelet, source, requireFrom, workers };
  // The runtime keeps the results, and chooses sizes: a batch stays together here.
  const { batching, cache } = stage;
  const policy = batching.policy === 'adaptive' ? 'oldest' : batching.policy;
  return { ...stage, id: key, modelet, batching: { ...batching, policy }, cache: { ...cache, entries: 0 } };
}

async function sourceOn(source: StageSource, file: StageFile | null, rules: HostRules): Promise<StageSource> {
  if (!('path' in source) || file === null) {
    if (rules.onlyLocalCode && 'code' in source) throw refusal('the host runs no code of the flow (--code local)');
    return source;
  }
  if (await hasContent(file)) return source;
  if (rules.onlyLocalCode) throw refusal(`the host has no such file ${file.path} (--code local)`);
  if (file.content === null) throw refusal(`the host has no such file ${file.path}, and it is too large to be sent`);
  return { ...source, path: await keep(file, file.content) };
}

async function hasContent({ path, sha256 }: StageFile): Promise<boolean> {
  const found = await stat(path).catch(() => null);
  return found?.isFile() === true && (await sha256Of(path)) === sha256;
}

/** Writes the file into a private folder that is named by its content, and returns its path. */
async function keep({ path, sha256 }: StageFile, content: string): Promise<string> {
  const folder = join(homedir(), '.modelet', 'files', sha256);
  const place = join(folder, basename(path));
  if (await hasContent({ path: place, sha256, content })) return place;
  await mkdir(folder, { recursive: true, mode: 0o700 });
  // Another host of this machine may write it at the same time.
  const written = `${place}.${process.pid}`;
  await writeFile(written, Buffer.from(content, 'base64'), { mode: 0o600 });
  if ((await sha256Of(written)) !== sha256) throw refusal(`the content of ${path} is not what its definition says`);
  await rename(written, place);
  return place;
}

function placements(given: readonly WorkerPlacement[], { workers, cpus }: HostRules): WorkerPlacement[] {
  const pins = cpus === null ? given.map((placement) => placement.cpus) : parsePins(cpus);
  const count = workers ?? (cpus === null ? given.length : pins.length);
  return Array.from({ length: count }, (_, index) => ({
    cpus: pins[index % pins.length] ?? null,
    env: given[index % given.length]?.env ?? {},
  }));
}
