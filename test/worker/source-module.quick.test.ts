/** Modelets from npm modules: where they are looked up, and which forms of packages there are. */
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, test } from 'node:test';
import { parseModuleName } from '../../src/config/modules.ts';
import type { LoadedModelet } from '../../src/runtime/worker/modelet/modelet.ts';
import { loadModule } from '../../src/runtime/worker/sources/file.ts';
import { context, definition, inputs, run } from './rig.ts';

const userDir = mkdtempSync(join(tmpdir(), 'modelet-modules-'));
after(() => rmSync(userDir, { recursive: true, force: true }));

function write(path: string, content: string): void {
  const file = join(userDir, 'node_modules', path);
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, content);
}

function load(named: string): Promise<LoadedModelet> {
  const source = { kind: 'module', module: parseModuleName(named) } as const;
  return loadModule(source, definition({ source, requireFrom: userDir }), context());
}

write('common/package.json', '{"main": "lib/index.js"}');
write('common/lib/index.js', 'module.exports = (x) => x + 1;');
write('common/part.js', 'module.exports = class { predict(x) { return x + 2; } };');
write('modern/package.json', '{"type": "module", "exports": {"import": "./index.js"}}');
write('modern/index.js', 'export default (x) => x + 3;');
write('@scope/both/package.json', '{"exports": {".": "./index.mjs", "./deep/part": "./part.cjs"}}');
write('@scope/both/index.mjs', 'const f = (x) => x + 4; f.examples = [1]; export default f;');
write('@scope/both/part.cjs', 'module.exports = (x) => x + 5;');
write('broken/index.js', "require('not-there');");
write('other/index.js', 'module.exports = { predict: (x) => x };');

const FOUND: readonly (readonly [string, number])[] = [
  ['common', 1],
  ['common@1.2.3', 1],
  ['common/part', 2],
  ['modern', 3],
  ['@scope/both', 4],
  ['@scope/both@^2', 4],
  ['@scope/both/deep/part', 5],
];
for (const [named, added] of FOUND) {
  test(`the worker finds ${named} in the user directory`, async () => {
    assert.deepEqual(await run(await load(named), inputs(10)), [{ value: 10 + added }]);
  });
}

test('a module may have examples', async () => {
  assert.deepEqual((await load('@scope/both')).examples, [1]);
});

const UNUSABLE: readonly (readonly [string, RegExp])[] = [
  ['nowhere', /^ModeletError: the module nowhere is not installed: .* in .*modelet-modules-/],
  ['broken', /Cannot find module 'not-there'/],
  ['other', /other must export a function or a class as its default, found object/],
];
for (const [named, message] of UNUSABLE) {
  test(`${named} is an error that says why`, async () => {
    await assert.rejects(load(named), message);
  });
}
