/** Whether the npm package of a source is installed where workers look for it, and how npm installs it. */
import { existsSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { inSearchPath } from '../../../process/search-path.ts';
import type { InstallPlan } from './installation.ts';

export interface NpmPackage {
  readonly name: string;
  /** The versions that work. */
  readonly range: string;
}

/** The packages by the sources that need them, or by an input. */
export const NPM_PACKAGES: Readonly<Record<'onnx' | 'wasm' | 'task' | 'picture' | 'sound', NpmPackage>> = {
  // Its first version that tells the shapes of inputs and outputs.
  onnx: { name: 'onnxruntime-node', range: '>=1.22.0' },
  // The same where no native build runs.
  wasm: { name: 'onnxruntime-web', range: '>=1.22.0' },
  task: { name: '@huggingface/transformers', range: '>=4.3.0 <5' },
  picture: { name: 'sharp', range: '>=0.34.0 <1' },
  sound: { name: 'audio-decode', range: '>=3.12.0 <4' },
};

/** Returns the installed version, or null. `folders`: where workers begin to look, upwards. */
export function installedVersion(name: string, folders: readonly string[]): string | null {
  for (const folder of folders) {
    // Not by `require`, which would remember in this process that the package is missing.
    for (const modules of createRequire(join(folder, 'package.json')).resolve.paths(name) ?? []) {
      const version = versionIn(join(modules, name, 'package.json'));
      if (version !== null) return version;
    }
  }
  return null;
}

function versionIn(manifest: string): string | null {
  if (!existsSync(manifest)) return null;
  try {
    return String((JSON.parse(readFileSync(manifest, 'utf8')) as { readonly version?: unknown }).version ?? '');
  } catch {
    return null;
  }
}

/**
 * Returns how to install them into `userDir`, with the options that Node-RED gives to npm; null if there is no npm. Without
 * install scripts, which only download files for graphics cards from another server.
 * @param program the file that runs as Node-RED, which brings npm along
 */
export function planNpm(packages: readonly NpmPackage[], userDir: string, program: string): InstallPlan | null {
  const npm = npmCommand(program);
  if (!npm) return null;
  const options = [
    '--no-audit',
    '--no-update-notifier',
    '--no-fund',
    '--omit=dev',
    '--engine-strict',
    '--ignore-scripts',
  ];
  const save = ['--save', '--save-prefix=~', '--prefix', userDir];
  const patience = ['--fetch-retries=1', '--fetch-retry-mintimeout=1000', '--fetch-retry-maxtimeout=5000'];
  const wanted = packages.map(({ name, range }) => `${name}@${range}`);
  const command = [...npm, 'install', ...options, ...save, ...patience, '--', ...wanted];
  return { what: packages.map(({ name }) => name).join(', '), commands: [command] };
}

function npmCommand(program: string): string[] | null {
  try {
    const registry = createRequire(program).resolve('@node-red/registry/package.json');
    const cli = join(dirname(createRequire(registry).resolve('npm/package.json')), 'bin', 'npm-cli.js');
    return [process.execPath, cli];
  } catch {
    const npm = inSearchPath('npm', process.env['PATH'] ?? '');
    return npm === undefined ? null : [npm];
  }
}
