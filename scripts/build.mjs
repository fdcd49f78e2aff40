// Compiles with tsc, marks the result with its hash, makes the editor halves, and copies what tsc leaves behind: Python,
// locales and icons. Node-RED looks for icons/ and locales/ beside the built node files only, hence dist/nodes/.
import { spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { editorHalf, readSources } from './editor-halves.mjs';
import { install } from './install.mjs';

const root = join(dirname(fileURLToPath(import.meta.url)), '..');
const require = createRequire(import.meta.url);

install();
rmSync(join(root, 'dist'), { recursive: true, force: true });
const tsc = join(dirname(require.resolve('typescript/package.json')), 'bin', 'tsc');
const compiled = spawnSync(process.execPath, [tsc, '-p', join(root, 'tsconfig.json')], { stdio: 'inherit' });
if (compiled.status !== 0) process.exit(compiled.status ?? 1);

// Copy Python files unchanged.
cpSync(join(root, 'src', 'runtime', 'worker', 'python'), join(root, 'dist', 'src', 'runtime', 'worker', 'python'), {
  recursive: true,
  filter: (path) => !path.includes('__pycache__'),
});

// Processes compare this hash to check that they run the same code: see src/process/build-id.ts.
const code = join(root, 'dist', 'src');
const build = createHash('sha256');
for (const file of readdirSync(code, { recursive: true }).sort()) {
  if (/\.(js|py)$/.test(file)) build.update(file).update(readFileSync(join(code, file)));
}
// Workers in other languages find it two folders above the Python entry: see docs/reference/wire-protocol.md.
writeFileSync(join(code, 'runtime', 'build-id.txt'), `${build.digest('hex').slice(0, 16)}\n`);

const target = join(root, 'dist', 'nodes');
mkdirSync(target, { recursive: true });
const sources = await readSources(join(root, 'dist'), root);
for (const file of readdirSync(join(root, 'nodes'))) {
  if (!file.endsWith('.html')) continue;
  const page = readFileSync(join(root, 'nodes', file), 'utf8');
  writeFileSync(join(target, file), editorHalf(page, file.slice(0, -'.html'.length), sources));
}
cpSync(join(root, 'nodes', 'locales'), join(target, 'locales'), { recursive: true });
if (existsSync(join(root, 'icons'))) cpSync(join(root, 'icons'), join(target, 'icons'), { recursive: true });
