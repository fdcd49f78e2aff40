/**
 * The files that the dialog of a stage offers and creates. All lie in the folders for files of flows after all links are
 * resolved: neither `..` nor a link leads out of them.
 */
import { lstatSync, mkdirSync, readFileSync, realpathSync, type Stats, statSync, writeFileSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { basename, dirname, extname, isAbsolute, join, relative, resolve, sep } from 'node:path';
import { baseFolder, type FolderSettings, flowFolders } from '../folders.ts';
import { liesIn, OWN_ROOT } from './paths.ts';

/** Endings of the files of a source: those that the dialog can create, and others. */
interface Endings {
  readonly created: readonly string[];
  readonly others: readonly string[];
}

const ENDINGS: ReadonlyMap<string, Endings> = new Map([
  ['file', { created: ['.js', '.mjs'], others: ['.cjs'] }],
  ['python', { created: ['.py'], others: [] }],
  ['onnx', { created: [], others: ['.onnx'] }],
]);
/** Folders of programs, which have no files of flows. */
const NOT_SHOWN = /^\.|^node_modules$|^__pycache__$/;
const MOST_ENTRIES = 500;

interface FolderEntry {
  readonly name: string;
  readonly kind: 'folder' | 'file';
  /** As the field of the dialog has it: relative where relative paths start, else absolute. */
  readonly path: string;
}

export interface FolderListing {
  readonly folder: string;
  /** The folder around it; null if that must not be listed. */
  readonly parent: string | null;
  /** All folders for files of flows. */
  readonly roots: readonly string[];
  /** Folders first, each in the order of the names. */
  readonly entries: readonly FolderEntry[];
  /** Number of entries that are left off. */
  readonly more: number;
}

/** A reason against a file or folder that a user asked for. */
export type FileRefusal = 'outside' | 'exists' | 'ending' | 'no-folder';

export class FileError extends Error {
  readonly code: FileRefusal;

  constructor(code: FileRefusal, message: string) {
    super(message);
    this.code = code;
  }
}

/**
 * Lists a folder, or the nearest one above it that is there, with the files that suit a source. A blank path is the folder at
 * which relative paths start.
 * @throws FileError for a folder that is not one of those for files of flows.
 */
export async function listFolder(settings: FolderSettings, path: string, source: string): Promise<FolderListing> {
  const roots = flowFolders(settings);
  const folder = existingPart(resolve(baseFolder(settings), path));
  if (!liesIn(folder, roots)) throw outside(folder);
  if (!isFolder(folder)) throw new FileError('no-folder', `${folder} is not a folder`);
  const { created, others } = endingsOf(source);
  // The folder of a known model is found by this file.
  const suits = (name: string): boolean =>
    source === 'task' ? name === 'config.json' : [...created, ...others].includes(extname(name));
  const found = await readdir(folder, { withFileTypes: true });
  const entries = found.flatMap((entry): FolderEntry[] => {
    const place = join(folder, entry.name);
    if (NOT_SHOWN.test(entry.name) || (entry.isSymbolicLink() && !leadsInto(place, roots))) return [];
    const what = entry.isSymbolicLink() ? statOf(place) : entry;
    const kind = what?.isDirectory() ? 'folder' : what?.isFile() && suits(entry.name) ? 'file' : null;
    return kind === null ? [] : [{ name: entry.name, kind, path: asTyped(settings, place) }];
  });
  entries.sort((a, b) => (a.kind === b.kind ? a.name.localeCompare(b.name) : a.kind === 'folder' ? -1 : 1));
  const parent = dirname(folder);
  return {
    folder,
    parent: parent !== folder && liesIn(parent, roots) ? parent : null,
    roots,
    entries: entries.slice(0, MOST_ENTRIES),
    more: Math.max(0, entries.length - MOST_ENTRIES),
  };
}

/** Returns why a file cannot be created; null if it can. */
export function whyNotCreated(settings: FolderSettings, path: string, source: string): FileError | null {
  const file = resolve(baseFolder(settings), path);
  const { created } = endingsOf(source);
  if (!created.includes(extname(file))) {
    return new FileError('ending', `a new file of this source ends with ${created.join(' or ') || 'nothing'}`);
  }
  const around = existingPart(dirname(file));
  if (!liesIn(around, flowFolders(settings))) return outside(file);
  if (!isFolder(around)) return new FileError('no-folder', `${around} is not a folder`);
  // A link that leads nowhere is there, too.
  const isThere = lstatSync(file, { throwIfNoEntry: false }) !== undefined;
  return isThere ? new FileError('exists', `${file} is there already`) : null;
}

/**
 * Writes the file that a stage can begin with, and the folders around it. It never replaces a file.
 * @returns the path of the file
 * @throws FileError if the file is there already or must not be there.
 */
export function createFlowFile(settings: FolderSettings, path: string, source: string, predict: string): string {
  const refusal = whyNotCreated(settings, path, source);
  if (refusal) throw refusal;
  const file = resolve(baseFolder(settings), path);
  const start = `${predict === 'batch' ? 'batch' : 'item'}${source === 'python' ? '.py' : '.js'}`;
  const content = readFileSync(join(OWN_ROOT, 'resources', 'start', start), 'utf8');
  mkdirSync(dirname(file), { recursive: true });
  // A folder on the way may have become a link meanwhile.
  if (!liesIn(dirname(file), flowFolders(settings))) throw outside(file);
  writeFileSync(join(realpathSync(dirname(file)), basename(file)), content, { flag: 'wx' });
  return file;
}

function endingsOf(source: string): Endings {
  return ENDINGS.get(source) ?? { created: [], others: [] };
}

function outside(path: string): FileError {
  return new FileError('outside', `${path} lies outside fileWorkingDirectory, the project and the user directory`);
}

/** Returns the path, or the nearest folder above it that is there. */
function existingPart(path: string): string {
  return statOf(path) === null && dirname(path) !== path ? existingPart(dirname(path)) : path;
}

function isFolder(path: string): boolean {
  return statOf(path)?.isDirectory() === true;
}

/** Whether a link leads to something in the folders. */
function leadsInto(link: string, roots: readonly string[]): boolean {
  return statOf(link) !== null && liesIn(link, roots);
}

/** Returns null for a path that leads nowhere or must not be read. */
function statOf(path: string): Stats | null {
  try {
    return statSync(path);
  } catch {
    return null;
  }
}

function asTyped(settings: FolderSettings, place: string): string {
  const way = relative(baseFolder(settings), place);
  return way === '' || way.startsWith('..') || isAbsolute(way) ? place : way.split(sep).join('/');
}
