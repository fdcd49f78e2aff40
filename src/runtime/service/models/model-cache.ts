/** The folder of the models that came from hubs: one folder a model, with what is known of it, and files in progress aside. */
import { readdir, readFile, rm, statfs, writeFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { type HubFile, type HubModel, hubFolder, hubText, parseHubName } from '../../../config/tasks/hub-model.ts';
import { bytesHeld } from './fetch-file.ts';
import { DownloadError } from './hub.ts';

const MANIFEST = 'modelet.json';
/** Folder of the files in progress. */
export const PARTS = '.parts';
/** Room that a download leaves on the disk, in bytes. */
const MARGIN = 64 * 1024 * 1024;
const GB = 1024 ** 3;
export const USUAL_GB = 20;

/** The facts that a folder tells of itself. */
export interface Manifest extends HubModel {
  /** All files of the folder are of this commit. */
  readonly commit: string;
}

export interface CachedModel {
  /** Name of its folder. */
  readonly folder: string;
  readonly model: string;
  readonly bytes: number;
  /** Whether a download has begun and not ended. */
  readonly isPartial: boolean;
}

export class ModelCache {
  readonly folder: string;
  readonly maxBytes: number;

  constructor(folder: string, maxGb: number = USUAL_GB) {
    this.folder = folder;
    this.maxBytes = maxGb * GB;
  }

  pathOf(model: HubModel): string {
    return join(this.folder, hubFolder(model));
  }

  /** Returns what the folder of a model says of itself; null if it says nothing. */
  async manifestOf(model: HubModel): Promise<Manifest | null> {
    try {
      const read = JSON.parse(await readFile(join(this.pathOf(model), MANIFEST), 'utf8')) as Partial<Manifest>;
      return typeof read.commit === 'string' ? { ...model, commit: read.commit } : null;
    } catch {
      return null;
    }
  }

  async writeManifest(manifest: Manifest): Promise<void> {
    await writeFile(join(this.pathOf(manifest), MANIFEST), `${JSON.stringify(manifest, null, 2)}\n`);
  }

  /** Returns the files that are not there as the hub has them. */
  async missing(model: HubModel, files: readonly HubFile[]): Promise<readonly HubFile[]> {
    const folder = this.pathOf(model);
    const sizes = await Promise.all(files.map(({ name }) => bytesHeld(join(folder, name))));
    return files.filter(({ size }, at) => sizes[at] !== size);
  }

  /** Returns the path at which a file grows. The name tells its content, so that the rest of another version never follows. */
  partOf(model: HubModel, { name, hash, size }: HubFile): string {
    const content = hash?.value.replaceAll(/\W/g, '').slice(0, 16) ?? String(size);
    return join(this.pathOf(model), PARTS, `${content}-${encodeURIComponent(name)}`);
  }

  async list(): Promise<readonly CachedModel[]> {
    const names = await readdir(this.folder).catch(() => [] as string[]);
    const all = names.map(async (folder): Promise<CachedModel[]> => {
      const model = modelOf(folder);
      if (model === null) return [];
      const path = join(this.folder, folder);
      const parts = await readdir(join(path, PARTS)).catch(() => [] as string[]);
      return [{ folder, model: hubText(model), bytes: await bytesIn(path), isPartial: parts.length > 0 }];
    });
    return (await Promise.all(all)).flat();
  }

  /** Removes a model; returns whether it was there. */
  async remove(folder: string): Promise<boolean> {
    if (modelOf(folder) === null || !(await readdir(this.folder).catch(() => [] as string[])).includes(folder))
      return false;
    await rm(join(this.folder, folder), { recursive: true, force: true });
    return true;
  }

  /** @throws DownloadError if so many bytes more are beyond the limit, or if the disk has no room for them */
  async checkRoom(bytes: number): Promise<void> {
    const held = await bytesIn(this.folder);
    if (held + bytes > this.maxBytes) {
      const [has, needs, limit] = [held, bytes, this.maxBytes].map(inMb);
      throw new DownloadError(
        'over_limit',
        `the models have ${has}, this one needs ${needs}, and modelets.maxModelGb in settings.js allows ${limit}: remove some`,
      );
    }
    const { bavail, bsize } = await statfs(this.folder);
    const free = bavail * bsize - MARGIN;
    if (bytes > free)
      throw new DownloadError(
        'disk_full',
        `the disk has room for ${inMb(Math.max(0, free))}, and the model needs ${inMb(bytes)}`,
      );
  }
}

export function inMb(bytes: number): string {
  return `${(bytes / 1e6).toFixed(bytes < 10e6 ? 1 : 0)} MB`;
}

/** Returns the model of a folder's name; null for a folder that is something else. */
function modelOf(folder: string): HubModel | null {
  const [, name = '', revision = ''] = /^(.+?)@(.+)$/.exec(basename(folder)) ?? [];
  let model: HubModel | null = null;
  try {
    model = parseHubName(`${name.replace('--', '/')}@${decodeURIComponent(revision)}`);
  } catch {
    return null;
  }
  return model !== null && hubFolder(model) === folder ? model : null;
}

async function bytesIn(folder: string): Promise<number> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true }).catch(() => []);
  const files = entries.filter((entry) => entry.isFile());
  const sizes = await Promise.all(files.map(({ parentPath, name }) => bytesHeld(join(parentPath, name))));
  // A file may go while they are read.
  return sizes.reduce((sum, size) => sum + Math.max(0, size), 0);
}
