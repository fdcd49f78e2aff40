/** The Python that answers beside the stages, with its packages at fixed versions. */
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { repositoryRoot } from '../../fixtures/repository.ts';

const FOLDER = join(repositoryRoot, 'test', 'bench', 'known');
/** Outside of the product's dependencies; ignored by git. */
const ENVIRONMENT = join(repositoryRoot, '.known-models');
const PACKAGES: readonly string[] = [
  ...['torch==2.15.0', 'torchvision', 'transformers==5.24.0', 'onnx==1.23.2', 'onnxscript'],
  ...['numpy', 'pillow'],
];

/** Returns a Python that has the packages, and installs them on the first use. */
function pythonWithPackages(): string {
  const python = join(ENVIRONMENT, 'bin', 'python');
  const done = join(ENVIRONMENT, 'installed.txt');
  const wanted = PACKAGES.join(' ');
  if (existsSync(done) && readFileSync(done, 'utf8') === wanted) return python;
  if (!existsSync(python)) must('python3', ['-m', 'venv', ENVIRONMENT]);
  console.error(`Installing ${wanted} into ${ENVIRONMENT} (once, up to 6 GB where torch comes with CUDA) ...`);
  must(python, ['-m', 'pip', 'install', '--quiet', '--no-compile', '--disable-pip-version-check', ...PACKAGES]);
  // Last: an installation that was cut off goes on.
  writeFileSync(done, wanted);
  return python;
}

/** Makes models, inputs and Python's answers. @param cases names of the functions in reference.py; none: all */
export function makeReference(folder: string, cases: readonly string[]): void {
  must(pythonWithPackages(), [join(FOLDER, 'reference.py'), folder, ...cases]);
}

function must(command: string, args: readonly string[]): void {
  const { status, error } = spawnSync(command, args, { stdio: ['ignore', 'ignore', 'inherit'] });
  if (status !== 0) throw new Error(`${command} ${args.join(' ')} failed${error ? `: ${error.message}` : ''}`);
}
