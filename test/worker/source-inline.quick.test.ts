/** Inline code: the habits of the function node, and what is said of those it does not have. */
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, test } from 'node:test';
import { parseLibs } from '../../src/config/modules.ts';
import { isModeletError } from '../../src/core/errors.ts';
import { runBatch } from '../../src/runtime/worker/batch/run-batch.ts';
import type { LoadedModelet } from '../../src/runtime/worker/modelet/modelet.ts';
import { loadInline } from '../../src/runtime/worker/sources/inline.ts';
import { context, definition, errorOf, input, inputs, type Logged, run, settings } from './rig.ts';

const folder = mkdtempSync(join(tmpdir(), 'modelet-inline-'));
after(() => rmSync(folder, { recursive: true, force: true }));

interface Tabs {
  readonly setup?: string;
  readonly teardown?: string;
  readonly predict?: 'item' | 'batch';
  readonly init?: unknown;
  /** Modules by the variables that stand for them. */
  readonly libs?: Readonly<Record<string, string>>;
}

async function load(code: string, tabs: Tabs = {}, logged: Logged[] = []): Promise<LoadedModelet> {
  const { setup = '', teardown = '', predict = 'item', init = {} } = tabs;
  const libs = parseLibs(Object.entries(tabs.libs ?? {}).map(([name, module]) => ({ var: name, module })));
  const source = { kind: 'inline', setup, code, teardown, libs } as const;
  const loaded = await loadInline(source, definition({ source, init, predict, requireFrom: folder }), context(logged));
  await loaded.setup();
  return loaded;
}

const RETURNS: readonly (readonly [string, string])[] = [
  ['the input by name', 'return input * 2;'],
  ['the payload of the message', 'return msg.payload * 2;'],
  ['the message itself', 'msg.payload = msg.payload * 2;\nreturn msg;'],
  ['another message', 'return { payload: input * 2, topic: "other" };'],
  ['after waiting', 'await new Promise((resolve) => setImmediate(resolve));\nreturn input * 2;'],
  ['a promise', 'return Promise.resolve({ payload: input * 2 });'],
  ['with a comment at the end', 'return input * 2; // twice'],
];

for (const [name, code] of RETURNS) {
  test(`returning ${name}`, async () => {
    assert.deepEqual(await run(await load(code), inputs(4)), [{ value: 8 }]);
  });
}

test('msg has the topic and id of its message beside the payload', async () => {
  const meta = Buffer.from('{"topic":"line 3","_msgid":"abc"}');
  const loaded = await load('return [msg.topic, msg._msgid, Object.keys(msg).length, input];');
  assert.deepEqual(await run(loaded, [input('in', { meta })]), [{ value: ['line 3', 'abc', 3, 'in'] }]);
});

test('in batch mode input and msg.payload are the whole batch', async () => {
  const loaded = await load('return msg.payload.map((x, index) => x + input.length * 10 + index);', {
    predict: 'batch',
  });
  assert.equal(loaded.batch, true);
  assert.deepEqual(await run(loaded, inputs(1, 2)), [{ value: 21 }, { value: 23 }]);
});

test('state is the value that On Start returned, for Predict and for On Stop', async () => {
  const loaded = await load('state.count += 1;\nreturn state.count + init.from;', {
    setup: 'return { count: 0, first: msg === undefined && input === undefined };',
    teardown: 'globalThis.inlineState = state;',
    init: { from: 100 },
  });
  assert.deepEqual(await run(loaded, inputs(0, 0)), [{ value: 101 }, { value: 102 }]);
  await loaded.teardown();
  assert.deepEqual((globalThis as { inlineState?: unknown }).inlineState, { count: 2, first: true });
});

test('On Start may await, and its failure fails the worker', async () => {
  const loaded = await load('return state;', { setup: 'await null;\nreturn "warm";' });
  assert.deepEqual(await run(loaded, inputs(1)), [{ value: 'warm' }]);
  await assert.rejects(load('return 1;', { setup: 'throw new Error("no model");' }), /no model/);
});

function write(path: string, content: string): void {
  const file = join(folder, 'node_modules', path);
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, content);
}

const LIBS: readonly (readonly [what: string, module: string, files: Readonly<Record<string, string>>])[] = [
  ['a CommonJS module', 'common@1', { 'index.js': 'exports.twice = (x) => x * 2;' }],
  [
    'an ES module with a default export',
    '@scope/modern',
    { 'package.json': '{"type": "module"}', 'index.js': 'export default { twice: (x) => x * 2 };' },
  ],
  [
    'an ES module without one',
    'named',
    {
      'package.json': '{"type": "module", "exports": {"import": "./main.js"}}',
      'main.js': 'export const twice = (x) => x * 2;',
    },
  ],
  ['a part of a module', 'parted/lib/twice.js', { 'lib/twice.js': 'exports.twice = (x) => x * 2;' }],
];
for (const [what, module, files] of LIBS) {
  test(`${what} from the list of modules is a separate variable`, async () => {
    const name = /^(?:@[^/]+\/)?[^/@]+/.exec(module)?.[0] ?? '';
    for (const [path, content] of Object.entries(files)) write(join(name, path), content);
    const loaded = await load('return theirs.twice(input);', { libs: { theirs: module } });
    assert.deepEqual(await run(loaded, inputs(4)), [{ value: 8 }]);
  });
}

test('all three tabs have the modules, those of Node.js included, imported before On Start', async () => {
  write('counts/index.js', 'globalThis.importedFirst = globalThis.started === undefined; module.exports = { n: 0 };');
  const loaded = await load('counts.n += 1;\nreturn [path.sep, typeof fs.readFile];', {
    libs: { counts: 'counts', path: 'node:path', fs: 'fs/promises' },
    setup: 'globalThis.started = counts.n += 10;',
    teardown: 'globalThis.inlineCount = counts.n;',
  });
  assert.deepEqual(await run(loaded, inputs(1)), [{ value: ['/', 'function'] }]);
  await loaded.teardown();
  const { importedFirst, inlineCount } = globalThis as { importedFirst?: boolean; inlineCount?: number };
  assert.deepEqual([importedFirst, inlineCount], [true, 11]);
});

test('the error for a missing module of the list says how to install it', async () => {
  await assert.rejects(load('return 1;', { libs: { gone: '@scope/gone/part@2' } }), (error) => {
    assert.ok(isModeletError(error));
    assert.equal(error.code, 'config_invalid');
    assert.match(
      error.message,
      /^the module @scope\/gone\/part is not installed: .* in .*modelet-inline-.*externalModules/,
    );
    assert.match(error.message, /run "npm install @scope\/gone" in /);
    return true;
  });
});

test('the error for a module that does not load names it and its error', async () => {
  write('broken/index.js', "throw new Error('no such library: libx');");
  write('half/index.js', "require('not-there');");
  const wanted = /^Error: the module broken does not load: no such library: libx$/;
  await assert.rejects(load('return 1;', { libs: { broken: 'broken' } }), wanted);
  await assert.rejects(
    load('return 1;', { libs: { half: 'half' } }),
    /the module half does not load: .*Cannot find module 'not-there'/,
  );
});

test('require finds modules in the user directory and those of Node.js', async () => {
  mkdirSync(join(folder, 'node_modules', 'their-module'), { recursive: true });
  writeFileSync(join(folder, 'node_modules', 'their-module', 'index.js'), 'module.exports = (x) => "theirs " + x;');
  const loaded = await load('return require("their-module")(require("node:path").basename(input));');
  assert.deepEqual(await run(loaded, inputs('a/b')), [{ value: 'theirs b' }]);
});

test('the error for a missing package says how to get it, and code can still ask for its kind', async () => {
  const wanted =
    /^Error: Cannot find module '@scope\/gone\/part': list it on the tab Modules of the stage, or run "npm install @scope\/gone" in \/.*modelet-inline-[^"]*$/;
  await assert.rejects(load('return 1;', { setup: 'require("@scope/gone/part");' }), wanted);
  const optional = 'try { return require("gone"); } catch ({ code }) { return code; }';
  assert.deepEqual(await run(await load(optional), inputs(1)), [{ value: 'MODULE_NOT_FOUND' }]);
  const [file] = await run(await load('return require("./gone.js");'), inputs(1));
  assert.ok(file && 'message' in file);
  assert.match(file.message, /^Cannot find module '\.\/gone\.js'\nRequire stack:/);
});

test('an import statement, which only a module can have, is refused with what to use', async () => {
  const wanted = /: On Start:1: Cannot use import statement outside a module \(use require, or the tab Modules\)$/;
  await assert.rejects(load('return 1;', { setup: 'import fs from "node:fs";' }), wanted);
});

test('yield, which only a generator can have, is refused with how to write one', async () => {
  const wanted =
    /: Predict:2: Unexpected identifier.* \(a result in parts is that of a generator: return \(async function\* \(\) \{ \.\.\. \}\)\(\)\)$/;
  await assert.rejects(load('const words = input.split(" ");\nfor (const word of words) yield word;'), wanted);
});

test('the code can import a module as well', async () => {
  const loaded = await load('const { basename } = await import("node:path");\nreturn basename(input);');
  assert.deepEqual(await run(loaded, inputs('a/b')), [{ value: 'b' }]);
});

test('the code has node logs, env and ctx', async () => {
  const logged: Logged[] = [];
  process.env['INLINE_TEST'] = 'from the environment';
  const code =
    'node.log("l"); node.warn("w"); node.error("e", msg); node.debug("d"); node.trace("t");\nctx.log.info({ a: 1 });\nreturn [env.get("INLINE_TEST"), ctx.stage, ctx.worker, node.name];';
  const [reply] = await run(await load(code, {}, logged), inputs(1), { contextFor: () => context(logged) });
  assert.deepEqual(reply, { value: ['from the environment', 'digits', 2, 'digits'] });
  assert.deepEqual(
    logged.map(({ level }) => level),
    ['info', 'warn', 'error', 'debug', 'debug', 'info'],
  );
});

const NOT_HERE: readonly (readonly [string, RegExp])[] = [
  ['flow.get("x")', /flow\.get does not exist in a worker: it lives in Node-RED/],
  ['global.set("x", 1)', /global\.set does not exist in a worker/],
  ['context.get("x")', /context\.get does not exist in a worker/],
  ['RED.settings', /RED\.settings does not exist in a worker/],
  ['RED.util.evaluateNodeProperty', /RED\.util\.evaluateNodeProperty does not exist in a worker/],
  ['node.send(msg)', /node\.send does not exist in a worker: return the result/],
  ['node.status({})', /node\.status does not exist in a worker/],
];

for (const [code, message] of NOT_HERE) {
  test(`the error for ${code} explains itself`, async () => {
    const [reply] = await run(await load(`${code};\nreturn msg;`), inputs(1));
    assert.ok(reply && 'code' in reply && reply.code === 'modelet_failed');
    assert.match(reply.message, message);
  });
}

test('an empty Predict tab returns nothing, and the error says so', async () => {
  assert.deepEqual(await run(await load(''), inputs(1)), [
    { code: 'modelet_failed', message: 'the modelet returned undefined: its code must return the result' },
  ]);
});

test('a stack names the tab and the line as the user sees them', async () => {
  const loaded = await load('const a = 1;\nconst b = 2;\nthrow new Error("third line");');
  const [reply] = await runBatch(loaded, inputs(1), settings());
  assert.match(errorOf(reply).stack ?? '', /digits: Predict:3:7/);
  await assert.rejects(load('', { setup: '\n\nmissing();' }), (error: Error) =>
    /digits: On Start:3:1/.test(error.stack ?? ''),
  );
});

const SYNTAX: readonly (readonly [string, Tabs, RegExp])[] = [
  ['let a = 1;\nlet let = 2;', {}, /^digits: Predict:2: let is disallowed/],
  ['return (1', {}, /^digits: Predict:\d: /],
  ['import fs from "node:fs";', {}, /^digits: Predict:1: Cannot use import statement/],
  ['', { setup: 'foo bar' }, /^digits: On Start:1: Unexpected identifier/],
  ['', { teardown: '\n}' }, /^digits: On Stop:\d: /],
];

for (const [code, tabs, message] of SYNTAX) {
  test(`a syntax error names its tab and line: ${JSON.stringify({ code, ...tabs })}`, async () => {
    await assert.rejects(load(code, tabs), (error) => {
      assert.ok(error instanceof SyntaxError);
      assert.match(error.message, message);
      return true;
    });
  });
}

test('a change of msg in one call does not appear in the next', async () => {
  const loaded = await load('msg.extra = 1;\nreturn Object.keys(msg).length;');
  assert.deepEqual(await run(loaded, inputs(1, 2)), [{ value: 2 }, { value: 2 }]);
});
