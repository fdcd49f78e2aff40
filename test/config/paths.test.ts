/** Where a stage's file is looked for: never in the current directory. */
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { resolveFile } from '../../src/config/paths.ts';
import { repositoryRoot } from '../fixtures/repository.ts';

const base = realpathSync(mkdtempSync(join(tmpdir(), 'modelet-paths-')));
after(() => rmSync(base, { recursive: true, force: true }));

function file(...path: string[]): string {
  const full = join(base, ...path);
  mkdirSync(join(full, '..'), { recursive: true });
  writeFileSync(full, '');
  return full;
}

test('an absolute path is taken as it is', () => {
  const full = file('models', 'a.js');
  assert.equal(resolveFile(full, '/nowhere'), full);
});

test('a relative path is looked up in the base folder, with or without a dot', () => {
  const full = file('models', 'b.js');
  assert.equal(resolveFile('models/b.js', base), full);
  assert.equal(resolveFile('./models/b.js', base), full);
  assert.equal(resolveFile('../models/b.js', join(base, 'models')), full);
});

test('a path into a package is found as a module of the base folder', () => {
  file('node_modules', 'some-package', 'package.json');
  writeFileSync(join(base, 'node_modules', 'some-package', 'package.json'), '{"name":"some-package"}');
  const full = file('node_modules', 'some-package', 'model.js');
  assert.equal(resolveFile('some-package/model.js', base), full);
  assert.equal(resolveFile('some-package/model.js', join(base, 'models')), full);
});

test('a file of the base folder goes before a package of the same name', () => {
  file('node_modules', 'both', 'model.js');
  const own = file('both', 'model.js');
  assert.equal(resolveFile('both/model.js', base), own);
});

test('the examples of this package are found wherever it is installed', () => {
  assert.equal(
    resolveFile('@modelet/node-red-pipeline/package.json', '/nowhere'),
    join(repositoryRoot, 'package.json'),
  );
  assert.throws(() => resolveFile('@modelet/node-red-pipeline/none.js', base), /no file .*none\.js/);
});

test('what is not there, or is a folder, is refused with the place where it was looked for', () => {
  assert.throws(() => resolveFile('models/none.js', base), {
    message: `no file ${join(base, 'models', 'none.js')} (from "models/none.js")`,
  });
  assert.throws(() => resolveFile('./none.js', base), /no file/);
  assert.throws(() => resolveFile('no-such-package/model.js', base), /no file/);
  assert.throws(() => resolveFile(join(base, 'none.js'), base), { message: `no file ${join(base, 'none.js')}` });
  assert.throws(() => resolveFile('models', base), /models is not a file/);
});

test('the current directory plays no part', () => {
  assert.throws(() => resolveFile('package.json', join(base, 'models')), /no file/);
});
