// The test files, as the marks in their names describe them.
import { readdirSync } from 'node:fs';
import { dirname, join, posix } from 'node:path';
import { root } from '../runtimes.mjs';

/** Kinds of tests that start no process: `npm test` runs them whole, and all files of a kind share a process. */
const IN_PROCESS = new Set([
  'config',
  'core',
  'endpoint',
  'engine',
  'flow',
  'gate',
  'headless',
  'ledger',
  'observe',
  'openapi',
  'remote',
  'server',
  'wire',
]);
/**
 * The marks of a file, as in `load.quick.shared.test.ts`:
 * - quick: `npm test` runs it. It shows a promise, a node, a kind of worker or a dialog with the real thing.
 * - once: `npm run test:full` runs it on Node-RED 5 only, because it is slow and Node-RED 4.1 shows nothing new in it.
 * - long: it has a long form, which it takes where TEST_FULL is set, as `npm run test:full` does.
 * - shared: it uses Node-RED, or Node-RED and a browser, with the usual settings, and leaves nothing in them but flows.
 */
export const MARKS = ['quick', 'once', 'long', 'shared'];

/**
 * A test file. `kind` is its folder directly in `test`, `name` its path without marks, such as `nodered/messages/load`.
 * @typedef {{ name: string, folder: string, kind: string, file: string, marks: Set<string>,
 *   inProcess: boolean }} TestFile
 */

/** Returns the test files below a folder, in the order of their names. @param ending of the files: `.js` in `dist/test` */
export function testFiles(below = join('dist', 'test'), ending = 'js') {
  const paths = readdirSync(join(root, below), { recursive: true })
    .map((path) => path.replaceAll('\\', '/'))
    .filter((path) => path.endsWith(`.test.${ending}`) && !path.startsWith('together/'))
    .sort();
  const files = paths.map((path) => describeFile(path, posix.join(below, path)));
  // A folder beside a test file of the same name holds its parts.
  const whole = new Set(files.map(({ name }) => name));
  return files.filter(({ folder }) => !whole.has(folder));
}

function describeFile(path, file) {
  const [name, ...marks] = posix.basename(path).split('.').slice(0, -2);
  const unknown = marks.find((mark) => !MARKS.includes(mark));
  if (unknown !== undefined) throw new Error(`${path}: unknown mark "${unknown}"; the marks are ${MARKS.join(', ')}`);
  const folder = dirname(path);
  const [kind] = folder.split('/');
  return { name: `${folder}/${name}`, folder, kind, file, marks: new Set(marks), inProcess: IN_PROCESS.has(kind) };
}

/**
 * Returns the files that bear one of the words in their names. A word that is the whole name of a file or folder stands
 * for that alone.
 */
export function bearing(files, words) {
  return files.filter(({ name, folder }) =>
    words.some((word) => {
      const isWhole = files.some((other) => other.name === word || other.folder === word);
      return isWhole ? name === word || folder === word : name.includes(word);
    }),
  );
}
