/** Folders of this Node-RED against which a stage's files and modules are looked up. */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { NodeAPI } from 'node-red';
import { resolveFile } from '../../src/index.ts';

/** Makes a stage's path absolute: `fileWorkingDirectory`, else the active project's folder, else the user directory. */
export function resolveModeletFile(RED: NodeAPI, path: string): string {
  return resolveFile(path, baseFolder(RED));
}

/** Where the modules are that people have installed for their flows. */
export function modulesFolder(RED: NodeAPI): string {
  return RED.settings.userDir ?? process.cwd();
}

function baseFolder(RED: NodeAPI): string {
  const settings = RED.settings as { fileWorkingDirectory?: string; userDir?: string };
  const userDir = settings.userDir ?? process.cwd();
  return settings.fileWorkingDirectory ?? activeProject(userDir) ?? userDir;
}

function activeProject(userDir: string): string | undefined {
  const file = join(userDir, '.config.projects.json');
  if (!existsSync(file)) return undefined;
  try {
    const { activeProject: name } = JSON.parse(readFileSync(file, 'utf8')) as { activeProject?: string };
    const folder = name ? join(userDir, 'projects', name) : undefined;
    return folder && existsSync(folder) ? folder : undefined;
  } catch {
    return undefined;
  }
}
