/** Finds and reads the flows: a file, or a user directory of Node-RED with its settings. */
import { existsSync, readFileSync, statSync } from 'node:fs';
import { createRequire } from 'node:module';
import { hostname } from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { activeProject } from '../config/folders.ts';
import type { HttpSettings } from '../config/http/http-settings.ts';
import { asError } from '../core/errors.ts';
import type { CompilerSettings } from '../flow/read/compile-definitions.ts';
import type { FileDefinition } from '../flow/read/expand.ts';

/** The settings of Node-RED that matter here. */
export interface Settings extends CompilerSettings, HttpSettings {
  readonly userDir: string;
  readonly flowFile?: string;
}

export interface FlowSource {
  readonly file: string;
  readonly settings: Settings;
  readonly definitions: readonly FileDefinition[];
}

/**
 * Reads the flows.
 * @param path a file with flows, or a user directory; only a directory has settings
 * @throws Error that says which file cannot be used, and why
 */
export function readFlows(path: string): FlowSource {
  const place = resolve(path);
  if (!existsSync(place)) throw new Error(`there is no file or folder ${place}`);
  const isFolder = statSync(place).isDirectory();
  const settings = isFolder ? readSettings(place) : { userDir: dirname(place) };
  const file = isFolder ? flowFileOf(settings) : place;
  return { file, settings, definitions: readDefinitions(file) };
}

function readSettings(folder: string): Settings {
  const file = join(folder, 'settings.js');
  // Node-RED may be started with settings from elsewhere: then a project that is there counts.
  if (!existsSync(file)) return { userDir: folder, editorTheme: { projects: { enabled: true } } };
  try {
    const loaded = createRequire(file)(file) as Partial<Settings> & { readonly default?: Partial<Settings> };
    return { userDir: folder, ...(loaded.default ?? loaded) };
  } catch (thrown) {
    throw new Error(`the settings ${file} cannot be read: ${asError(thrown).message}`);
  }
}

/** Chooses the file as Node-RED does: of the active project, of the settings, of this host, else flows.json. */
function flowFileOf(settings: Settings): string {
  const { userDir, flowFile } = settings;
  const project = activeProject(settings);
  if (project !== undefined) return join(project, flowFileOfProject(project));
  if (flowFile) return resolve(userDir, flowFile);
  const ofHost = join(userDir, `flows_${hostname()}.json`);
  return existsSync(ofHost) ? ofHost : join(userDir, 'flows.json');
}

function flowFileOfProject(folder: string): string {
  const file = join(folder, 'package.json');
  const content = existsSync(file) ? (parse(file) as { 'node-red'?: { settings?: { flowFile?: string } } }) : {};
  return content['node-red']?.settings?.flowFile ?? 'flows.json';
}

function readDefinitions(file: string): readonly FileDefinition[] {
  if (!existsSync(file)) throw new Error(`there is no flow file ${file}`);
  const content = parse(file);
  const flows = Array.isArray(content) ? content : (content as { flows?: unknown } | null)?.flows;
  if (!Array.isArray(flows)) throw new Error(`${file} holds no flows: an array of nodes, as Node-RED exports them`);
  const ids = new Set<string>();
  for (const node of flows as unknown[]) {
    const { id, type } = (node ?? {}) as { id?: unknown; type?: unknown };
    if (typeof id !== 'string' || typeof type !== 'string') throw new Error(`${file} holds a node without id or type`);
    if (ids.has(id)) throw new Error(`${file} holds two nodes with the id ${id}`);
    ids.add(id);
  }
  return flows as FileDefinition[];
}

function parse(file: string): unknown {
  try {
    // As Node-RED does, without the mark that some editors put at the beginning.
    return JSON.parse(readFileSync(file, 'utf8').replace(/^\uFEFF/, ''));
  } catch (thrown) {
    throw new Error(`${file} cannot be read: ${asError(thrown).message}`);
  }
}
