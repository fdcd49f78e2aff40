// Reads which functions of the source files a test has run, from the coverage that V8 writes for the test, for every
// process that it starts (NODE_V8_COVERAGE), and for the pages of its browser (test/fixtures/editor.ts). Compiled files have
// one source file each, so no source map is needed.
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { root } from '../runtimes.mjs';

const COMPILED = /^dist\/((?:src|nodes)\/.*)\.js$/;
/** Scripts of pages: as they are served to the editor and to the dashboard, and as a test imports them. */
const SERVED = /\/(?:resources\/@modelet\/node-red-pipeline|modelets\/dashboard\/page)\/(.+\.js)$/;
const RESOURCE = /^resources\/.+\.js$/;

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
  const address = url.replace(/[?#].*$/, '');
  if (!address.startsWith('file:')) {
    const served = SERVED.exec(address);
    return served ? `resources/${served[1]}` : null;
  }
  const path = relative(root, fileURLToPath(address)).replaceAll('\\', '/');
  if (RESOURCE.test(path)) return path;
  const compiled = COMPILED.exec(path);
  return compiled ? `${compiled[1]}.ts` : null;
}

function add(sets, key, value) {
  const set = sets.get(key) ?? new Set();
  sets.set(key, set.add(value));
}
