// Writes test files that run several others in one process: they load the code under test, and start Node-RED, once.
import { mkdirSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { root } from '../runtimes.mjs';

const FOLDER = join('dist', 'test', 'together');

/**
 * Returns the path of a test file that runs `files`, one after the other, each as a separate suite. Their hooks stay
 * their own, because `require` runs a file within its suite; a file with a top-level await cannot be among them.
 * @param {import('./files.mjs').TestFile[]} files
 * @param share module and function that start, before the first file, what all files share
 */
export function together(name, files, share) {
  const path = join(FOLDER, `${name.replaceAll('/', '-')}.test.js`);
  const parts = files.map((file) => [file.name, relative(FOLDER, file.file)]);
  const first = share ? `import { ${share.start} } from '../${share.module}';\n${share.start}();\n` : '';
  mkdirSync(join(root, FOLDER), { recursive: true });
  writeFileSync(
    join(root, path),
    `import { createRequire } from 'node:module';
import { describe } from 'node:test';
${first}
const require = createRequire(import.meta.url);
for (const [name, file] of ${JSON.stringify(parts)}) describe(name, () => void require(file));
`,
  );
  return path;
}
