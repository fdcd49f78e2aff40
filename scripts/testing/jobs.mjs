// From test files to jobs: the processes that run them, each on one pair of Node.js and Node-RED.
import { existsSync } from 'node:fs';
import { expectedSeconds } from './times.mjs';
import { together } from './together.mjs';

/** The common needs of the files of a kind that are marked as shared, and the number of processes that run them. */
const SHARES = {
  nodered: { module: 'fixtures/node-red.js', start: 'shareNodeRed', processes: 3 },
  editor: { module: 'editor/session.js', start: 'sharedSession', processes: 2 },
};
/** A browser keeps a core busy all the time: it takes two of the places that run at once. */
const PLACES = { editor: 2 };

/**
 * A process that runs tests.
 * @typedef {{ name: string, files: import('./files.mjs').TestFile[], path: string, on: { name: string, node: string,
 *   module: string }, places: number, env: Record<string, string>, seconds: number }} Job
 */

/** Returns the jobs that run these files on a pair. @returns {Job[]} */
export function jobsOf(files, on) {
  const kinds = new Map();
  for (const file of files) kinds.set(file.kind, [...(kinds.get(file.kind) ?? []), file]);
  return [...kinds].flatMap(([kind, ofKind]) => jobsOfKind(kind, ofKind, on));
}

/** Returns the jobs that run the long forms of these files. @returns {Job[]} */
export function longForms(files, on) {
  return files.map((file) => job(file.name, [file], file.file, on, { TEST_FULL: '1' }));
}

/** Returns one job for each file. @returns {Job[]} */
export function alone(files, on) {
  return files.map((file) => job(file.name, [file], file.file, on));
}

function jobsOfKind(kind, files, on) {
  if (files[0].inProcess) return [gathered(kind, files, on)];
  const shared = files.filter(({ marks }) => marks.has('shared'));
  const others = files.filter(({ marks }) => !marks.has('shared'));
  const share = SHARES[kind];
  const groups = evenly(shared, share?.processes ?? shared.length);
  return [...groups.map((group, index) => gathered(`${kind}-${index + 1}`, group, on, share)), ...alone(others, on)];
}

function gathered(name, files, on, share) {
  return job(name, files, together(`${name}-on-${on.pair}`, files, share), on);
}

function job(name, files, path, on, env = {}) {
  const long = 'TEST_FULL' in env;
  const seconds = files.reduce((sum, file) => sum + expectedSeconds(file.name, long), 0);
  const chromium = files[0].kind === 'editor' ? { CHROMIUM: findChromium() ?? '' } : {};
  return {
    name: long ? `${name} (long form)` : name,
    files,
    path,
    on,
    places: PLACES[files[0].kind] ?? 1,
    env: { ...chromium, ...env },
    seconds,
  };
}

/** Deals the files out to at most `count` groups so that each takes about equally long. */
function evenly(files, count) {
  const groups = Array.from({ length: Math.min(count, files.length) }, () => ({ seconds: 0, files: [] }));
  const longestFirst = files
    .map((file) => ({ file, seconds: expectedSeconds(file.name) }))
    .sort((a, b) => b.seconds - a.seconds);
  for (const { file, seconds } of longestFirst) {
    const shortest = groups.reduce((best, group) => (group.seconds < best.seconds ? group : best));
    shortest.files.push(file);
    shortest.seconds += seconds;
  }
  return groups.map((group) => group.files);
}

/** Returns the path of the browser for the tests of `test/editor`; undefined if none is installed. */
export function findChromium() {
  const candidates = [process.env.CHROMIUM, '/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'];
  return candidates.find((path) => path && existsSync(path));
}
