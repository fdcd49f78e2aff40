// Checks how the code is laid out, as part of `npm run lint`: floors, import circles, sizes of folders and files,
// the files that may import a package, the two sides of each process, names that two files export, and the files that
// comments name.
// docs/architecture.md describes the layout.
import { readdirSync, readFileSync } from 'node:fs';
import { builtinModules } from 'node:module';
import { join, posix } from 'node:path';
import { root } from './runtimes.mjs';
import { testFiles } from './testing/files.mjs';

/**
 * Floors, lowest first. A room may import, types included, only itself and rooms of lower floors. A room is a folder of
 * `src`; `runtime` is a house of four rooms, because the engine, its workers and the service are different processes.
 */
const FLOORS = [
  ['core'],
  ['config', 'observe'],
  ['wire'],
  ['process', 'broker'],
  ['flow', 'runtime/worker'],
  ['runtime/desk'],
  ['runtime/engine', 'runtime/service'],
  ['hosts', 'http'],
  ['headless', 'node-red'],
  ['gate'],
  ['index.ts', 'programs'],
  ['nodes'],
];

/** Rooms that only these files may import, from whatever floor: all others work without them. */
const DOORS = { gate: ['nodes/modelet-gate.ts'] };

/** The files that may import a package. */
const PACKAGES = {
  '@msgpack/msgpack': ['src/http/values/msgpack.ts'],
  '@opentelemetry/api': ['src/observe/export/tracing.ts'],
  bullmq: [
    'src/broker/broker-link.ts',
    'src/broker/broker-packages.ts',
    'src/broker/jobs.ts',
    'src/hosts/batch-queue.ts',
    'src/gate/store/process/bullmq-commands.ts',
  ],
  acorn: ['src/config/code/function-code.ts', 'src/config/code/reachable-end.ts', 'src/config/code/scopes.ts'],
  'acorn-walk': ['src/config/code/function-code.ts', 'src/config/code/reachable-end.ts', 'src/config/code/scopes.ts'],
  ajv: ['src/config/validate.ts', 'src/config/payload-schema.ts'],
  'ajv/dist/2020.js': ['src/config/payload-schema.ts'],
  'ajv-formats': ['src/config/payload-schema.ts'],
  'lru-cache': ['src/runtime/engine/stage/response-cache.ts'],
  'node:child_process': ['src/process/affinity.ts', 'src/process/parent/launch.ts'],
  pino: ['src/observe/log/log.ts'],
  piscina: ['src/runtime/engine/pools/thread-worker.ts'],
  'prom-client': ['src/observe/export/collect.ts'],
  redis: [
    'src/broker/broker-link.ts',
    'src/broker/broker-packages.ts',
    'src/broker/job-events.ts',
    'src/gate/sources/redis.ts',
    'src/hosts/registry.ts',
  ],
  undici: ['src/gate/sources/http-endpoint.ts', 'src/runtime/service/models/hub.ts'],
  ws: ['src/http/sockets/sockets.ts'],
};
/** Packages that every file of some rooms may import. Of `express`, only types are used. */
const PACKAGES_OF_ROOMS = { 'node-red': ['node-red', 'gate', 'nodes'], express: ['node-red'] };

/** Pairs of folders that run in different processes. They share only `wire` and the files directly in `src/process`. */
const SIDES = [
  ['src/process/parent/', 'src/process/child/'],
  ['src/runtime/engine/', 'src/runtime/service/'],
  ['src/runtime/engine/', 'src/runtime/worker/'],
  ['src/gate/store/client/', 'src/gate/store/process/'],
  ['src/process/parent/', 'src/runtime/worker/'],
];
/** Entry files of processes and threads. Their parents find them by URL. */
const ENTRIES = [
  'src/headless/main.ts',
  'src/programs/engine.ts',
  'src/gate/store/process/main.ts',
  'src/runtime/worker/main.ts',
  'src/runtime/worker/onnx/inspect.ts',
  'src/runtime/worker/thread.ts',
];
/** Most source files in one folder. */
const MOST_FILES = 12;
/** The folders with more files: one table per node type, and the form of these tables. */
const LARGE = ['src/config/schemas'];
/** Lines below which a file needs a reason, because a fragment is hard to understand alone. */
const SMALL = 40;
/** The smaller files, or folders of them, each with its reason. */
const REASONS = {
  'nodes/': 'Node-RED loads one file per node type, which only registers it',
  'src/config/formats/': 'one file per format, without anything that only Node.js has',
  'src/config/modules.ts': 'names of modules need Node.js, which knows its own, and the formats have none',
  'src/config/schemas/': 'one table per node type',
  'src/core/objects.ts': 'rooms that do not know each other tell the same kinds of objects apart',
  'src/runtime/engine/stage/stage-host.ts': 'an interface that keeps the parts of a stage from importing the stage',
  'src/gate/sources/': 'one file per source of a budget',
  'src/headless/compile-flows.ts': 'a compiled flow file is what every other file of the room starts from',
  'src/index.ts': 'the entry of the package',
  'src/node-red/http/http-types.ts': 'requests and messages know its types, and never import each other',
  'src/process/build-id.ts': 'parent and child compare it, and never import each other',
  'src/process/replace-file.ts': 'an engine and Node-RED keep their files with it, and never import each other',
  'src/process/native-builds.ts': 'the dialog and the worker ask it, and never import each other',
  'src/runtime/worker/main.ts': 'the entry of a process',
  'src/runtime/worker/onnx/inspect.ts': 'the entry of a process',
  'src/runtime/worker/sources/load.ts': 'the only file that knows all kinds of sources',
};

const files = ['src', 'nodes'].flatMap((folder) =>
  readdirSync(join(root, folder), { recursive: true })
    .map((name) => posix.join(folder, name.replaceAll('\\', '/')))
    .filter((name) => name.endsWith('.ts')),
);
const texts = new Map(files.map((file) => [file, readFileSync(join(root, file), 'utf8')]));
const imports = new Map(files.map((file) => [file, importsOf(file)]));
const faults = [
  ...floorFaults(),
  ...doorFaults(),
  ...packageFaults(),
  ...sideFaults(),
  ...circles(),
  ...folderFaults(),
  ...forgottenTests(),
  ...waitingTests(),
  ...smallFaults(),
  ...nameFaults(),
  ...commentFaults(),
];

for (const fault of faults) console.error(fault);
if (faults.length > 0) process.exit(1);
console.log(`Checked the structure of ${files.length} files.`);
if (process.argv.includes('--lines')) printLines();

/** Prints the lines of each room of src, of nodes and of resources, without locales. */
function printLines() {
  const lines = new Map();
  for (const folder of ['src', 'nodes', 'resources']) {
    for (const name of readdirSync(join(root, folder), { recursive: true })) {
      if (!/\.(?:ts|js|py|html|css)$/.test(name) || name.startsWith('locales')) continue;
      const file = posix.join(folder, name.replaceAll('\\', '/'));
      const count = readFileSync(join(root, file), 'utf8').split('\n').length - 1;
      for (const place of [roomOf(file), 'all']) lines.set(place, (lines.get(place) ?? 0) + count);
    }
  }
  for (const [place, count] of [...lines].sort(([, a], [, b]) => b - a)) console.log(`${count} ${place}`);
}

function importsOf(file) {
  const statement = /(?:^(?:import|\} from|(?:import|export) [^;'"(]*? from) |\b(?:import|require)\()'([^']+)'/gm;
  return [...texts.get(file).matchAll(statement)].map(([, specifier]) =>
    specifier.startsWith('.') ? posix.join(posix.dirname(file), specifier) : specifier,
  );
}

function roomOf(file) {
  const [first, second, third] = file.split('/');
  if (first !== 'src') return first;
  return second === 'runtime' ? `${second}/${third}` : second;
}

function floorOf(room) {
  return FLOORS.findIndex((rooms) => rooms.includes(room));
}

function floorFaults() {
  return files.flatMap((file) => {
    const room = roomOf(file);
    if (floorOf(room) < 0) return [`${file}: the room ${room} is on no floor`];
    return local(file)
      .filter((target) => roomOf(target) !== room && floorOf(roomOf(target)) >= floorOf(room))
      .map((target) => `${file} imports ${target}: imports go down the floors`);
  });
}

function doorFaults() {
  return files.flatMap((file) =>
    local(file)
      .filter((target) => roomOf(target) !== roomOf(file) && !(DOORS[roomOf(target)]?.includes(file) ?? true))
      .map((target) => `${file} imports ${target}: only ${DOORS[roomOf(target)].join(', ')} may import that room`),
  );
}

function packageFaults() {
  return files.flatMap((file) =>
    imports
      .get(file)
      .filter((name) => !texts.has(name) && !allows(name, file))
      .map((name) => `${file} imports ${name}, which the table of packages does not allow`),
  );
}

function allows(name, file) {
  if (PACKAGES[name]) return PACKAGES[name].includes(file);
  return PACKAGES_OF_ROOMS[name]?.includes(roomOf(file)) ?? builtinModules.includes(name.replace(/^node:/, ''));
}

function sideFaults() {
  return files.flatMap((file) =>
    local(file).flatMap((target) => {
      if (ENTRIES.includes(target)) return [`${file} imports ${target}: a process entry is found by its URL`];
      const crosses = SIDES.some(
        (sides) => sideOf(file, sides) !== sideOf(target, sides) && bothIn(file, target, sides),
      );
      return crosses ? [`${file} imports ${target}: they run in different processes`] : [];
    }),
  );
}

/** Returns the longest matching prefix, since a room may keep the code of its process in a subfolder. */
function sideOf(file, sides) {
  return sides.filter((side) => file.startsWith(side)).sort((a, b) => b.length - a.length)[0];
}

function bothIn(one, other, sides) {
  return sideOf(one, sides) !== undefined && sideOf(other, sides) !== undefined;
}

/** Returns every group of files that import each other, types included (Tarjan's algorithm). */
function circles() {
  const found = [];
  const order = new Map();
  const low = new Map();
  const path = [];
  const visit = (file) => {
    order.set(file, order.size);
    low.set(file, order.get(file));
    path.push(file);
    for (const target of local(file)) {
      if (!order.has(target)) visit(target);
      if (path.includes(target)) low.set(file, Math.min(low.get(file), low.get(target)));
    }
    if (low.get(file) !== order.get(file)) return;
    const group = path.splice(path.indexOf(file));
    if (group.length > 1) found.push(`these files import each other: ${group.sort().join(', ')}`);
  };
  for (const file of files) if (!order.has(file)) visit(file);
  return found;
}

function folderFaults() {
  const sizes = new Map();
  for (const file of files) sizes.set(posix.dirname(file), (sizes.get(posix.dirname(file)) ?? 0) + 1);
  return [...sizes]
    .filter(([folder, size]) => size > MOST_FILES && !LARGE.includes(folder))
    .map(([folder, size]) => `${folder} has ${size} files, ${MOST_FILES} at most`);
}

function smallFaults() {
  const small = files.filter((file) => texts.get(file).split('\n').length <= SMALL);
  const reasonOf = (file) => Object.keys(REASONS).find((place) => file === place || isIn(file, place));
  return [
    ...small
      .filter((file) => reasonOf(file) === undefined)
      .map(
        (file) => `${file} has fewer than ${SMALL} lines: merge it, or give its reason in scripts/check-structure.mjs`,
      ),
    ...Object.keys(REASONS)
      .filter((place) => !small.some((file) => reasonOf(file) === place))
      .map((place) => `${place} needs no reason to be small any more: remove it from scripts/check-structure.mjs`),
  ];
}

/** Returns the names that several files export: a reader who meets such a name cannot know which thing it is. */
function nameFaults() {
  const declared =
    /^export (?:declare )?(?:abstract )?(?:async )?(?:class|function\*?|const|let|interface|type|enum) (\w+)/gm;
  const filesOf = new Map();
  for (const file of files) {
    for (const name of new Set([...texts.get(file).matchAll(declared)].map(([, found]) => found))) {
      filesOf.set(name, [...(filesOf.get(name) ?? []), file]);
    }
  }
  return [...filesOf]
    .filter(([, holders]) => holders.length > 1)
    .map(([name, holders]) => `${holders.join(' and ')} both export ${name}: give each export a unique name`);
}

/** Returns the comments that name a file or folder which is not there. */
function commentFaults() {
  const folders = ['src', 'nodes', 'scripts', 'resources', 'test', 'assets', 'docs'];
  const all = folders.flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true }).map((name) => posix.join(folder, name.replaceAll('\\', '/'))),
  );
  const known = [...all, ...readdirSync(root)].map((file) => `/${file}`);
  const named =
    /(?<![\w./@*-])(?:(?:[\w-]+\/)*[\w-]+\.(?:ts|mjs|py|md)\b|(?:src|nodes|test|scripts)(?:\/[\w-]+)+(?![\w./*-]))/g;
  const comments = /^\s*(?:\/?\*|\/\/|#).*$|\s\/\/ .*$/gm;
  return all
    .filter((file) => /\.(?:ts|mjs|js|py)$/.test(file))
    .flatMap((file) => (readFileSync(join(root, file), 'utf8').match(comments) ?? []).map((text) => [file, text]))
    .flatMap(([file, text]) => (text.match(named) ?? []).map((name) => [file, name]))
    .filter(([, name]) => !known.some((one) => one.endsWith(`/${name}`)))
    .map(([file, name]) => `${file}: a comment names ${name}, which is not there`);
}

function isIn(file, folder) {
  return folder.endsWith('/') && file.startsWith(folder);
}

function local(file) {
  return imports.get(file).filter((name) => texts.has(name));
}

/** Returns the tests of the browser that no file runs: those in subfolders run only where a file of `test/editor` imports them. */
function forgottenTests() {
  const folder = join(root, 'test/editor');
  const names = readdirSync(folder, { recursive: true }).map((name) => name.replaceAll('\\', '/'));
  const tests = names.filter((name) => name.endsWith('.test.ts'));
  const entries = tests.filter((name) => !name.includes('/')).map((name) => readFileSync(join(folder, name), 'utf8'));
  return tests
    .filter((name) => name.includes('/') && !entries.some((text) => text.includes(`'./${name}'`)))
    .map((name) => `test/editor/${name}: no test file directly in test/editor imports it, so it never runs`);
}

/** Returns the test files that run together with others, see scripts/testing/together.mjs, and could not be loaded so. */
function waitingTests() {
  return testFiles('test', 'ts')
    .filter(({ marks, inProcess }) => marks.has('shared') || inProcess)
    .filter(({ file }) =>
      /^(?:(?:export )?(?:const|let) [^\n]*? = \(?await |await |\} = \(?await )/m.test(
        readFileSync(join(root, file), 'utf8'),
      ),
    )
    .map(({ file }) => `${file} runs together with others, so it can have no await outside a test or hook`);
}
