/** Modelets from files: functions and classes, ES and CommonJS modules, compiled ones. */
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import type { LoadedModelet } from '../../src/runtime/worker/modelet/modelet.ts';
import { loadFile } from '../../src/runtime/worker/sources/file.ts';
import { repositoryRoot } from '../fixtures/repository.ts';
import { context, definition, inputs, run } from './rig.ts';

const folder = mkdtempSync(join(tmpdir(), 'modelet-sources-'));
after(() => rmSync(folder, { recursive: true, force: true }));
let files = 0;

async function load(
  code: string,
  options: { type?: 'mjs' | 'cjs'; predict?: 'item' | 'batch'; init?: unknown } = {},
): Promise<LoadedModelet> {
  const { type = 'mjs', predict = 'item', init = {} } = options;
  files += 1;
  const path = join(folder, `modelet-${files}.${type}`);
  writeFileSync(path, code);
  const source = { kind: 'file', path } as const;
  return loadFile(source, definition({ source, init, predict, requireFrom: folder }), context());
}

const FUNCTIONS: readonly (readonly [string, string, 'mjs' | 'cjs'])[] = [
  ['an arrow function', 'export default (x) => x + 1;', 'mjs'],
  ['an async function', 'export default async function (x) { return x + 1; }', 'mjs'],
  ['a CommonJS function', 'module.exports = function (x) { return x + 1; };', 'cjs'],
  [
    'a compiled default',
    'Object.defineProperty(exports, "__esModule", { value: true }); exports.default = (x) => x + 1;',
    'cjs',
  ],
  ['an arrow function whose parameter starts with class', 'export default classes => classes + 1;', 'mjs'],
  ['a method whose name starts with class', 'export default { classify(x) { return x + 1; } }.classify;', 'mjs'],
];

for (const [name, code, type] of FUNCTIONS) {
  test(`${name} gets one call per item`, async () => {
    assert.deepEqual(await run(await load(code, { type }), inputs(1, 2)), [{ value: 2 }, { value: 3 }]);
  });
}

test('a function gets the context, and whole batches if the stage says so', async () => {
  const loaded = await load('export default (x, ctx) => x.map((one) => [ctx.stage, ctx.worker, one].join("/"));', {
    predict: 'batch',
  });
  assert.equal(loaded.batch, true);
  assert.deepEqual(await run(loaded, inputs('a', 'b')), [{ value: 'digits/2/a' }, { value: 'digits/2/b' }]);
});

for (const predict of ['item', 'batch'] as const) {
  test(`the class that the dialog offers to start with works, called per ${predict}`, async () => {
    const code = readFileSync(join(repositoryRoot, 'resources', 'start', `${predict}.js`), 'utf8');
    assert.deepEqual(await run(await load(code, { predict }), inputs(1, 2)), [{ value: 1 }, { value: 2 }]);
  });
}

test('a function and a class may have examples, in an array', async () => {
  const examples = 'const f = (x) => x; f.examples = [1, { n: 2 }]; export default f;';
  assert.deepEqual((await load(examples)).examples, [1, { n: 2 }]);
  const ofClass = 'module.exports = class { static examples = ["x"]; predict(x) { return x; } };';
  assert.deepEqual((await load(ofClass, { type: 'cjs' })).examples, ['x']);
  assert.deepEqual((await load('export default (x) => x;')).examples, []);
  const wrong = 'const f = (x) => x; f.examples = "abc"; export default f;';
  await assert.rejects(load(wrong), /examples in .* must be an array, found string/);
});

const CLASS = `class Model {
  constructor(init, ctx) { this.log = ['constructor ' + init.k + ' ' + ctx.stage]; }
  async setup() { this.log.push('setup'); }
  preprocess(x, ctx) { return x + '<' + ctx.worker; }
  predict(x, ctx) { return this.log.join(', ') + ': ' + x + ctx.cpus; }
  postprocess(y, x) { return { y, x }; }
  teardown() { globalThis.toreDown = this.log.length; }
}`;

test('the worker constructs a class with init and context, and its methods keep their this', async () => {
  for (const [code, type] of [
    [`export default ${CLASS}`, 'mjs'],
    [`module.exports = ${CLASS}`, 'cjs'],
    [`exports.__esModule = true; exports.default = ${CLASS}`, 'cjs'],
  ] as const) {
    const loaded = await load(code, { type, init: { k: 5 } });
    await loaded.setup();
    assert.equal(loaded.batch, false);
    assert.deepEqual(await run(loaded, inputs('a')), [{ value: { y: 'constructor 5 digits, setup: a<23', x: 'a<2' } }]);
    await loaded.teardown();
    assert.equal((globalThis as { toreDown?: number }).toreDown, 2);
  }
});

test('a class needs no method but predict, which may be inherited or a field', async () => {
  const inherited = await load('class Base { predict(x) { return x * 2; } }\nexport default class extends Base {}');
  await inherited.setup();
  assert.deepEqual(await run(inherited, inputs(4)), [{ value: 8 }]);
  await inherited.teardown();
  assert.deepEqual(await run(await load('export default class{predict=(x)=>x*3}'), inputs(4)), [{ value: 12 }]);
});

test('an old-style constructor with predict on its prototype is a class', async () => {
  const code =
    'function Model(init) { this.k = init.k; }\nModel.prototype.predict = function (x) { return x + this.k; };\nmodule.exports = Model;';
  assert.deepEqual(await run(await load(code, { type: 'cjs', init: { k: 10 } }), inputs(1)), [{ value: 11 }]);
});

test('both static batch and the setting of the stage make a class get batches', async () => {
  const code = (batch: string): string =>
    `export default class { ${batch} predict(x) { return Array.isArray(x) ? x : 'one ' + x; } }`;
  assert.equal((await load(code('static batch = true;'))).batch, true);
  assert.equal((await load(code('static batch = false;'))).batch, false);
  assert.equal((await load(code(''), { predict: 'batch' })).batch, true);
});

test('the error for an export that is not a modelet names the file and the value found', async () => {
  await assert.rejects(load('export default { predict() {} };'), /must export a function or a class .*found object/);
  await assert.rejects(load('export const predict = () => 1;'), /modelet-\d+\.mjs must export .*found undefined/);
  await assert.rejects(
    load('export default class { infer() {} }'),
    /the class in .*modelet-\d+\.mjs has no method predict/,
  );
});

test('the error for a file that cannot be loaded says why', async () => {
  await assert.rejects(load('export default ('), SyntaxError);
  await assert.rejects(load('throw new Error("at load");'), /at load/);
  await assert.rejects(
    load('export default class { constructor() { throw new Error("no weights"); } predict() {} }'),
    /no weights/,
  );
  await assert.rejects(load('import "no-such-package-anywhere"; export default () => 1;'), /no-such-package-anywhere/);
});

test('loading does not run setup', async () => {
  await load('export default class { setup() { globalThis.setUp = true; } predict() {} }');
  assert.equal((globalThis as { setUp?: boolean }).setUp, undefined);
});
