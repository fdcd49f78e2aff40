// Reads which functions of the source files a test has run, from the coverage that V8 writes for the test and for every
// process that it starts (NODE_V8_COVERAGE). Compiled files have one source file each, so no source map is needed.
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { root } from '../runtimes.mjs';

const COMPILED = /^(?:src|nodes)\/.*\.js$/;

/**
 * Adds the functions of one test to `all`, and returns those that ran. Both are sets of places in a file, by its path.
 * @param {string} folder the coverage of one test
 * @param {Map<string, Set<number>>} all
 * @returns {Map<string, Set<number>>}
 */
export function functionsRun(folder, all) {
  const ran = new Map();
  for (const { url, functions } of scriptsOf(folder)) {
    const file = sourceOf(url);
    if (file === null) continue;
    // The first function is the file itself, which runs when any other file imports it.
    for (const { ranges } of functions.slice(1)) {
      const [{ startOffset, count }] = ranges;
      add(all, file, startOffset);
      if (count > 0) add(ran, file, startOffset);
    }
  }
  return ran;
}

function scriptsOf(folder) {
  if (!existsSync(folder)) return [];
  return readdirSync(folder).flatMap((name) => {
    try {
      return JSON.parse(readFileSync(join(folder, name), 'utf8')).result;
    } catch {
      // A process was killed while it wrote.
      return [];
    }
  });
}

/** Returns the path of the source file, or null for a script of others. */
function sourceOf(url) {
  if (!url.startsWith('file:')) return null;
  const path = relative(join(root, 'dist'), fileURLToPath(url.replace(/[?#].*$/, ''))).replaceAll('\\', '/');
  return COMPILED.test(path) ? path.replace(/\.js$/, '.ts') : null;
}

function add(sets, key, value) {
  const set = sets.get(key) ?? new Set();
  sets.set(key, set.add(value));
}
