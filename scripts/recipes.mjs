// Installs the packages of docs/guides/recipes.md and calling.md into the folder .recipes, where the long forms of their
// tests find them.
import { spawnSync } from 'node:child_process';
import { copyFileSync, existsSync, mkdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { npm } from './install.mjs';
import { root } from './runtimes.mjs';

const folder = join(root, '.recipes');
const lists = ['requirements.txt', 'package.json'].map((name) => ({
  wanted: join(root, 'test', 'docs', 'recipes', name),
  installed: join(folder, name),
}));

function run(command, ...args) {
  const { status } = spawnSync(command, args, { cwd: folder, stdio: ['ignore', 'ignore', 'inherit'] });
  if (status !== 0) fail(`${command} ${args.join(' ')}`);
}

function fail(what) {
  console.error(`\nthe packages of the recipes could not be installed: ${what}\n`);
  process.exit(1);
}

const isCurrent = lists.every(
  ({ wanted, installed }) => existsSync(installed) && readFileSync(installed).equals(readFileSync(wanted)),
);
if (!isCurrent) {
  console.log('Installing the packages of the recipes (once, about a minute) ...');
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder);
  run('python3', '-m', 'venv', 'venv');
  const pip = ['-m', 'pip', 'install', '--quiet', '--no-compile', '--disable-pip-version-check'];
  // Without their dependencies, which are listed; tokenizers would bring a client of its hub.
  run(join('venv', 'bin', 'python'), ...pip, '--no-deps', '-r', lists[0].wanted);
  copyFileSync(lists[1].wanted, lists[1].installed);
  if (!npm(['install', '--no-package-lock'], folder)) fail('npm install');
  // Last: an installation that was cut off begins anew.
  copyFileSync(lists[0].wanted, lists[0].installed);
}
