/** The folders in which the files and modules of stages are looked up. They follow from Node-RED's settings. */
import { existsSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { liesIn, OWN_ROOT, resolveFile, resolveFolder } from './files/paths.ts';
import { type HubModel, hubFolder, parseHubName } from './tasks/hub-model.ts';

/** The settings of Node-RED that name folders. */
export interface FolderSettings {
  readonly userDir?: string | undefined;
  readonly fileWorkingDirectory?: string | undefined;
  readonly modelets?: ModelSettings | undefined;
  readonly editorTheme?: { readonly projects?: ProjectSettings | undefined } | undefined;
}

interface ProjectSettings {
  /** Only `true` makes Node-RED use projects. It remembers the active one all the same. */
  readonly enabled?: boolean;
  /** Folder of the projects. */
  readonly path?: string;
}

/** Settings that say where known models come from and where they stay. */
export interface ModelSettings {
  /** Addresses of hubs, in the order in which they are asked. */
  readonly hub?: string | readonly string[];
  /** Folder of the models. */
  readonly modelFolder?: string;
  /** Most disk space of the models, in GB. */
  readonly maxModelGb?: number;
}

/** Returns the user directory, in which Node-RED installs the modules that flows need. */
export function userFolder({ userDir }: FolderSettings): string {
  return userDir ?? process.cwd();
}

/** Returns the path of a file that this package keeps. */
export function ownFile(settings: FolderSettings, name: string): string {
  return join(userFolder(settings), 'modelets', name);
}

/**
 * Returns the folder from which modules are looked up, upwards: the active project's folder, which is below the user
 * directory, else the user directory itself.
 */
export function modulesFolder(settings: FolderSettings): string {
  return activeProject(settings) ?? userFolder(settings);
}

/**
 * Returns a stage's path of a file, of a folder, or of a known model, as an absolute path. The base is `fileWorkingDirectory`,
 * else the active project's folder, else the user directory.
 */
export function resolveModeletFile(settings: FolderSettings, path: string, of?: 'folder' | 'model'): string {
  if (of === 'model') return resolveModel(settings, path);
  return (of === 'folder' ? resolveFolder : resolveFile)(path, baseFolder(settings));
}

/** Returns the folder with the known models of hubs. */
export function modelsFolder(settings: FolderSettings): string {
  const { modelFolder } = settings.modelets ?? {};
  return modelFolder ? resolve(userFolder(settings), modelFolder) : ownFile(settings, 'models');
}

/** Returns the folder of a model from a hub, whether it is there or not. */
export function folderOfHub(settings: FolderSettings, model: HubModel): string {
  return join(modelsFolder(settings), hubFolder(model));
}

/** The address of a model's page, or a name without its owner. */
const NO_PATH = /^https?:|^[\w-][\w.-]*$/;

/** Returns the folder of a known model: the folder itself if there is one, else that of the model of this name on a hub. */
function resolveModel(settings: FolderSettings, text: string): string {
  const model = parseHubName(text);
  const isThere = existsSync(resolve(baseFolder(settings), text));
  if (model !== null && !isThere) return folderOfHub(settings, model);
  if (!isThere && NO_PATH.test(text))
    throw new Error(`must be OWNER/MODEL or a folder, and there is no folder "${text}"`);
  return resolveModeletFile(settings, text, 'folder');
}

/** Returns the folders for files of flows, that for relative paths first. */
export function flowFolders(settings: FolderSettings): readonly string[] {
  return [...new Set([baseFolder(settings), modulesFolder(settings), userFolder(settings)])];
}

/** Whether a file lies in one of the folders for files of flows or in this package. */
export function isFileOfFlows(settings: FolderSettings, file: string): boolean {
  return liesIn(file, [OWN_ROOT, ...flowFolders(settings)]);
}

/** Returns the folder at which relative paths start. */
export function baseFolder(settings: FolderSettings): string {
  return settings.fileWorkingDirectory ?? modulesFolder(settings);
}

/** Returns the folder of the active project; undefined if Node-RED uses no projects. */
export function activeProject(settings: FolderSettings): string | undefined {
  const userDir = userFolder(settings);
  const { enabled, path = join(userDir, 'projects') } = settings.editorTheme?.projects ?? {};
  const file = join(userDir, '.config.projects.json');
  if (enabled !== true || !existsSync(file)) return undefined;
  try {
    const { activeProject: name } = JSON.parse(readFileSync(file, 'utf8')) as { activeProject?: string };
    const folder = name ? join(path, name) : undefined;
    return folder && existsSync(folder) ? folder : undefined;
  } catch {
    return undefined;
  }
}
