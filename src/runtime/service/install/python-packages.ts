/** Finds a stage's Python and the packages that its code lacks or lists, and plans their installation by pip into a virtual environment. */
import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { ModeletError } from '../../../core/errors.ts';
import { runToEnd } from '../../../process/parent/launch.ts';
import { findPython } from '../../../process/python.ts';
import type { InstallPlan } from './installation.ts';

const IMPORTS = fileURLToPath(new URL('../../worker/python/imports.py', import.meta.url));
const LONGEST_MS = 20_000;
const MOST_LOOKS = 4;
/** The file beside a Python file that lists its packages. */
const REQUIREMENTS = 'requirements.txt';
const PIP: readonly string[] = [
  ...['-m', 'pip', 'install'],
  ...['--no-input', '--disable-pip-version-check', '--progress-bar', 'off', '--retries', '1'],
];

/**
 * Packages that a button may install, by the modules that they bring. Others may be by any author: their names come from a file,
 * and a package of the same name may have another author.
 */
const PACKAGES: Readonly<Record<string, string>> = {
  PIL: 'pillow',
  cv2: 'opencv-python-headless',
  joblib: 'joblib',
  jsonschema: 'jsonschema',
  lightgbm: 'lightgbm',
  numpy: 'numpy',
  onnxruntime: 'onnxruntime',
  pandas: 'pandas',
  safetensors: 'safetensors',
  scipy: 'scipy',
  sklearn: 'scikit-learn',
  tensorflow: 'tensorflow',
  tokenizers: 'tokenizers',
  torch: 'torch',
  torchvision: 'torchvision',
  transformers: 'transformers',
  xgboost: 'xgboost',
  yaml: 'PyYAML',
};

/** The settings of a stage that decide about its interpreter; `path` is absolute, or '' if there is no file to read. */
export interface PythonStage {
  readonly path: string;
  readonly python: string;
  /** Packages that code of the dialog needs, which has no file; absent: the file says it. */
  readonly requirements?: readonly string[];
}

interface PythonStanding {
  readonly interpreter: string;
  readonly version: string;
  /** Packages that the file needs and a button may install. */
  readonly installable: readonly string[];
  /** Modules that the file needs and whose package is unknown. */
  readonly unknown: readonly string[];
}

let looks = 0;

/** @throws ModeletError `config_invalid` if there is no interpreter, `capacity_exceeded` if too many are asked already. */
export async function lookAtPython(stage: PythonStage, userDir: string): Promise<PythonStanding> {
  const { path, requirements } = stage;
  const interpreter = interpreterOf(stage, userDir);
  if (looks >= MOST_LOOKS) {
    throw new ModeletError('capacity_exceeded', 'Node-RED looks at other files; try again in a moment', {
      retryAfterSeconds: 1,
    });
  }
  looks += 1;
  try {
    const asked = requirements ? ['--requirements', ...requirements] : path === '' ? [] : [path];
    const found = await runToEnd([interpreter, IMPORTS, ...asked], LONGEST_MS);
    const { version, missing } = JSON.parse(found) as { readonly version: string; readonly missing: readonly string[] };
    if (requirements) return { interpreter, version, installable: missing, unknown: [] };
    const installable = missing.flatMap((name) => (Object.hasOwn(PACKAGES, name) ? [PACKAGES[name] as string] : []));
    return { interpreter, version, installable, unknown: missing.filter((name) => !Object.hasOwn(PACKAGES, name)) };
  } catch (thrown) {
    throw new ModeletError('config_invalid', `the Python at ${interpreter} cannot be used`, { cause: thrown });
  } finally {
    looks -= 1;
  }
}

/**
 * Returns how to install packages for the interpreter of a stage: into its virtual environment, or into a new one in the user
 * directory, which stages take if their setting is blank. Null if the setting names a Python outside of environments, which
 * may belong to the system.
 */
export function planPython(
  stage: PythonStage,
  { interpreter, installable }: PythonStanding,
  userDir: string,
): InstallPlan | null {
  const isOwn = isOfEnvironment(interpreter);
  if (!isOwn && stage.python !== '') return null;
  const folder = join(userDir, '.venv');
  // The packages of the machine stay in sight: other stages use them.
  const make = isOwn ? [] : makeEnvironment(interpreter, folder, '--system-site-packages');
  // A package without a wheel would run its own program to build itself: only what the user has listed may.
  const install = [...PIP, ...(stage.requirements ? [] : ['--only-binary', ':all:']), '--', ...installable];
  const into = isOwn ? interpreter : join(folder, 'bin', 'python');
  return { what: installable.join(', '), commands: [...make, [into, ...install]] };
}

/**
 * Returns how to install the requirements: into the virtual environment of the interpreter that the stage names, or into `.venv`
 * beside the file, which is made if it is not there. Null if there is no such file, or if the setting names a Python outside of
 * environments, which may belong to the system.
 *
 * The list is the user's own, so pip may build packages and take them from folders.
 * @throws ModeletError `config_invalid` if there is no interpreter
 */
export function planRequirements(stage: PythonStage, userDir: string): InstallPlan | null {
  const cwd = dirname(stage.path);
  if (!existsSync(stage.path) || !existsSync(join(cwd, REQUIREMENTS))) return null;
  const interpreter = interpreterOf(stage, userDir);
  const install = (into: string): string[] => [into, ...PIP, '-r', REQUIREMENTS];
  if (stage.python !== '') {
    return isOfEnvironment(interpreter) ? { what: REQUIREMENTS, cwd, commands: [install(interpreter)] } : null;
  }
  const folder = join(cwd, '.venv');
  // An environment without pip is one whose making has failed.
  const make = existsSync(join(folder, 'bin', 'pip')) ? [] : makeEnvironment(interpreter, folder);
  return { what: REQUIREMENTS, cwd, commands: [...make, install(join(folder, 'bin', 'python'))] };
}

/** Whether the interpreter belongs to a virtual environment. */
function isOfEnvironment(interpreter: string): boolean {
  return existsSync(join(dirname(interpreter), '..', 'pyvenv.cfg'));
}

/** Returns the commands that make a virtual environment. The first fails where it cannot be made, before anything is written. */
function makeEnvironment(interpreter: string, folder: string, ...options: readonly string[]): string[][] {
  return [
    [interpreter, '-c', 'import ensurepip, venv'],
    [interpreter, '-m', 'venv', ...options, folder],
  ];
}

function interpreterOf({ path, python }: PythonStage, userDir: string): string {
  return findPython(path === '' ? { python } : { path, python }, userDir, process.env['PATH'] ?? '');
}
