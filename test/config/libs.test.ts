/** The modules of inline code: the dialog and the runtime agree on what is a module, and on what is a variable. */
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import * as formats from '../../src/config/formats/module-names.ts';
import { parseLibs } from '../../src/config/modules.ts';
import type { ModuleBinding } from '../../src/config/stage-source.ts';
import { repositoryRoot } from '../fixtures/repository.ts';

interface Dialog {
  problemOf(libs: readonly ModuleBinding[]): { error: string } | null;
}

/** What the module of the dialog finds in its page, with a Node-RED that allows everything. */
const PAGE = {
  window: { modelet: { formats } },
  RED: {
    events: { on: () => {} },
    settings: { get: (_: string, otherwise: object) => otherwise },
    utils: { parseModuleList: () => [], checkModuleAllowed: () => true },
  },
};

const { INLINE_NAMES } = formats;
let problemOf: Dialog['problemOf'];

before(async () => {
  Object.assign(globalThis, PAGE);
  const file = join(repositoryRoot, 'resources', 'modules-list.js');
  ({ problemOf } = (await import(pathToFileURL(file).href)) as Dialog);
});

after(() => {
  for (const name of Object.keys(PAGE)) Reflect.deleteProperty(globalThis, name);
});

function verdicts(libs: readonly ModuleBinding[]): [runtime: boolean, dialog: boolean] {
  try {
    parseLibs(libs);
    return [true, problemOf(libs) === null];
  } catch {
    return [false, problemOf(libs) === null];
  }
}

const VARIABLES = ['jpeg', '_', '$', 'a1', 'J\u00fcrgen', '\u53d8\u91cf', 'util', 'async', 'of'];
const NO_VARIABLES = [
  '',
  '1a',
  'a-b',
  'a b',
  'a.b',
  '){',
  'await',
  'class',
  'let',
  'arguments',
  'console',
  ...INLINE_NAMES,
];
const MODULES = ['jpeg-js', '@scope/name', 'name@1.2', 'name/part@^1', 'fs', 'node:fs', 'node:fs/promises', 'a.b_c~d'];
const NO_MODULES = ['', '../mine', '/abs', 'a b', 'https://x', '@scope', 'file:x'];

const GOOD = [
  ...VARIABLES.map((name) => ({ var: name, module: 'fs' })),
  ...MODULES.map((module) => ({ var: 'it', module })),
];
for (const lib of GOOD) {
  test(`${JSON.stringify(lib)} can be used, say both`, () => assert.deepEqual(verdicts([lib]), [true, true]));
}

const BAD = [
  ...NO_VARIABLES.map((name) => ({ var: name, module: 'fs' })),
  ...NO_MODULES.map((module) => ({ var: 'it', module })),
];
for (const lib of BAD) {
  test(`${JSON.stringify(lib)} cannot be used, say both`, () => assert.deepEqual(verdicts([lib]), [false, false]));
}

test('the variable of two modules cannot be used, say both', () => {
  const libs = ['os', 'fs'].map((module) => ({ var: 'it', module }));
  assert.deepEqual(verdicts(libs), [false, false]);
});

test('every variable that passes the check can be a parameter of the code', () => {
  const names = parseLibs(VARIABLES.map((name) => ({ var: name, module: 'fs' }))).map((lib) => lib.var);
  assert.equal(new Function(...INLINE_NAMES, ...names, 'return arguments.length;')(), 0);
});

test('the import omits versions and blanks around names', () => {
  assert.deepEqual(parseLibs([{ var: ' a ', module: ' @s/a/b@^1.2 ' }]), [{ var: 'a', module: '@s/a/b' }]);
});
