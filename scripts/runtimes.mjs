// The Node and Node-RED versions installed with this repository, so that each pair is used whichever Node runs npm.
import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

export const root = join(dirname(fileURLToPath(import.meta.url)), '..');

const [major, minor] = process.versions.node.split('.').map(Number);

function bundledNode(folder) {
  const path = join(root, 'node_modules', folder, 'bin', process.platform === 'win32' ? 'node.exe' : 'node');
  if (!existsSync(path)) return undefined;
  try {
    execFileSync(path, ['--version'], { stdio: 'ignore' });
    return path;
  } catch {
    return undefined;
  }
}

/** Node-RED 5 with Node 24; undefined if that Node could not be installed and the current one is too old. */
export function current() {
  const node = bundledNode('node-24') ?? (major > 22 || (major === 22 && minor >= 9) ? process.execPath : undefined);
  return node && { pair: '5', name: 'Node-RED 5', node, module: 'node-red' };
}

/** Node-RED 4.1 with Node 20. */
export function maintained() {
  return { pair: '4', name: 'Node-RED 4.1', node: bundledNode('node-20') ?? process.execPath, module: 'node-red-4' };
}
