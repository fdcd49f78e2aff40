// The table of the tests that run each source file. `npm test -- --of FILE` reads it, `npm run test-table` writes it.
//
// Each line of test/table.json is a source file with its tests, the best first, and the share of its functions that each
// test calls, in percent. Files that move keep their lines: they are found by the end of their path.
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, extname, join, posix } from 'node:path';
import { root } from '../runtimes.mjs';
import { expectedSeconds } from './times.mjs';

const TABLE = join(root, 'test', 'table.json');
/** Most tests of a source file in the table. Some files run in every test. */
const MOST_TESTS = 12;

/**
 * Returns the tests of a source file, the best first. The tests of a file that the table lacks, such as a new file, are
 * those of the files that import it.
 * @param {string} path whole, or its end
 * @param {import('./files.mjs').TestFile[]} files all test files
 * @returns {{ source: string, test: import('./files.mjs').TestFile, percent: number }[]}
 */
export function testsOf(path, files) {
  const table = readTable();
  const known = sourcesOf(path, [...table.keys()]);
  const sources = known.length > 0 ? known : importersOf(path).filter((file) => table.has(file));
  const rows = sources.flatMap((source) =>
    [...table.get(source)].flatMap(([name, percent]) => {
      const [found] = nearest(
        files.map((file) => file.name),
        name,
      );
      const test = files.find((file) => file.name === found);
      return test ? [{ source, test, percent }] : [];
    }),
  );
  return known.length > 0 ? rows : rows.sort((a, b) => b.percent - a.percent).slice(0, MOST_TESTS);
}

/** Returns the files of the table that the path stands for. A file that is there can have no other's line. */
function sourcesOf(path, keys) {
  if (keys.includes(path)) return [path];
  const isThere = (file) => existsSync(join(root, file));
  return nearest(isThere(path) ? keys.filter((file) => !isThere(file)) : keys, path);
}

/** Returns the paths of the files that the table may have. */
function sourceFiles() {
  const below = (place) =>
    readdirSync(join(root, place), { recursive: true }).map((name) => posix.join(place, name.replaceAll('\\', '/')));
  return ['src', 'nodes', 'resources'].flatMap(below).filter((file) => ['.ts', '.js'].includes(extname(file)));
}

function importersOf(path) {
  const isImported = (file) =>
    [...readFileSync(join(root, file), 'utf8').matchAll(/from '(\.[^']+)'/g)].some(([, target]) => {
      return posix.join(posix.dirname(file), target).endsWith(path);
    });
  return sourceFiles().filter(isImported);
}

/** Writes the shares of the measured tests into the table. @param shares a map from source file to test to percent */
export function writeTable(shares, measured) {
  const table = readTable(sourceFiles());
  for (const tests of table.values()) for (const name of measured) tests.delete(name);
  for (const [source, tests] of shares) {
    const known = table.get(source) ?? new Map();
    for (const [name, percent] of tests) known.set(name, percent);
    table.set(source, known);
  }
  const lines = [...table]
    .filter(([, tests]) => tests.size > 0)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([source, tests]) => [source, bestOf(tests, source)]);
  writeFileSync(TABLE, `${JSON.stringify(Object.fromEntries(lines), null, 2)}\n`);
}

/** Puts a test of the file's name first, then those that call most functions, and among equals the quick ones. */
function bestOf(tests, source) {
  const isNamed = (test) => Number(basename(test) === basename(source, extname(source)));
  return [...tests]
    .sort(
      ([a, x], [b, y]) =>
        isNamed(b) - isNamed(a) || y - x || expectedSeconds(a) - expectedSeconds(b) || (a < b ? -1 : 1),
    )
    .slice(0, MOST_TESTS)
    .map(([name, percent]) => `${name} ${percent}`)
    .join(', ');
}

/** Reads the table. @param sources the present files: lines get the paths to which their files have moved */
function readTable(sources) {
  if (!existsSync(TABLE)) return new Map();
  const lines = Object.entries(JSON.parse(readFileSync(TABLE, 'utf8'))).map(([source, text]) => {
    const tests = text.split(', ').map((test) => test.split(' '));
    return [source, new Map(tests.map(([name, percent]) => [name, Number(percent)]))];
  });
  if (!sources) return new Map(lines);
  return new Map(
    lines.flatMap(([source, tests]) => {
      const found = nearest(sources, source);
      return found.length === 1 ? [[found[0], tests]] : [];
    }),
  );
}

/** Returns the paths that have most parts in common with `path`, from the end; none if the last part differs. */
function nearest(paths, path) {
  const common = (other) => {
    const [a, b] = [path, other].map((one) => one.split('/').reverse());
    const differs = a.findIndex((part, index) => part !== b[index]);
    return differs < 0 ? a.length : differs;
  };
  const most = Math.max(0, ...paths.map(common));
  return most === 0 ? [] : paths.filter((other) => common(other) === most);
}
