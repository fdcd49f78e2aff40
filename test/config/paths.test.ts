/** The lookup of a stage's file never uses the current directory. */
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { resolveFile } from '../../src/config/files/paths.ts';
import { resolveModeletFile } from '../../src/config/folders.ts';
import { repositoryRoot } from '../fixtures/repository.ts';

const base = realpathSync(mkdtempSync(join(tmpdir(), 'modelet-paths-')));
after(() => rmSync(base, { recursive: true, force: true }));

function file(...path: string[]): string {
  const full = join(base, ...path);
  mkdirSync(join(full, '..'), { recursive: true });
  writeFileSync(full, '');
  return full;
}

test('an absolute path stays unchanged', () => {
  const full = file('models', 'a.js');
  assert.equal(resolveFile(full, '/nowhere'), full);
});

test('a relative path resolves against the base folder, with or without a dot', () => {
  const full = file('models', 'b.js');
  assert.equal(resolveFile('models/b.js', base), full);
  assert.equal(resolveFile('./models/b.js', base), full);
  assert.equal(resolveFile('../models/b.js', join(base, 'models')), full);
});

test('a path into a package resolves to a module of the base folder', () => {
  file('node_modules', 'some-package', 'package.json');
  writeFileSync(join(base, 'node_modules', 'some-package', 'package.json'), '{"name":"some-package"}');
  const full = file('node_modules', 'some-package', 'model.js');
  assert.equal(resolveFile('some-package/model.js', base), full);
  assert.equal(resolveFile('some-package/model.js', join(base, 'models')), full);
});

test('a file of the base folder takes precedence over a package of the same name', () => {
  file('node_modules', 'both', 'model.js');
  const own = file('both', 'model.js');
  assert.equal(resolveFile('both/model.js', base), own);
});

test('a path into this package leads to its own files wherever it is installed', () => {
  assert.equal(
    resolveFile('@modelet/node-red-pipeline/package.json', '/nowhere'),
    join(repositoryRoot, 'package.json'),
  );
  assert.throws(() => resolveFile('@modelet/node-red-pipeline/none.js', base), /no file .*none\.js/);
});

test('a path below examples of an earlier version leads to the file in assets', () => {
  const model = join(repositoryRoot, 'assets', 'models', 'digits.onnx');
  const installed = join(base, 'node_modules', '@modelet', 'node-red-pipeline');
  mkdirSync(join(installed, '..'), { recursive: true });
  symlinkSync(repositoryRoot, installed, 'junction');
  const earlier = [
    '@modelet/node-red-pipeline/examples/models/digits.onnx',
    join(repositoryRoot, 'examples', 'models', 'digits.onnx'),
    join(installed, 'examples', 'models', 'digits.onnx'),
    'node_modules/@modelet/node-red-pipeline/examples/models/digits.onnx',
    './node_modules/@modelet/node-red-pipeline/examples/models/digits.onnx',
  ];
  for (const path of earlier) assert.equal(resolveFile(path, base), model, path);
});

test('a file in an examples folder of the user stays where it is', () => {
  const full = file('examples', 'models', 'digits.onnx');
  assert.equal(resolveFile('examples/models/digits.onnx', base), full);
  assert.throws(() => resolveFile('examples/models/none.onnx', base), {
    message: `no file ${join(base, 'examples', 'models', 'none.onnx')} (from "examples/models/none.onnx")`,
  });
});

test('the error for a missing file or a folder shows the path that was tried', () => {
  assert.throws(() => resolveFile('models/none.js', base), {
    message: `no file ${join(base, 'models', 'none.js')} (from "models/none.js")`,
  });
  assert.throws(() => resolveFile('./none.js', base), /no file/);
  assert.throws(() => resolveFile('no-such-package/model.js', base), /no file/);
  assert.throws(() => resolveFile(join(base, 'none.js'), base), { message: `no file ${join(base, 'none.js')}` });
  assert.throws(() => resolveFile('models', base), /models is not a file/);
});

test('the current directory has no influence on the result', () => {
  assert.throws(() => resolveFile('package.json', join(base, 'models')), /no file/);
});

test('a model that is no name on a hub and no folder is refused with what it must be', () => {
  const find = (model: string): string => resolveModeletFile({ userDir: base }, model, 'model');
  for (const model of ['vit-base', 'https://huggingface.co/Xenova/vit-base']) {
    const message = `must be OWNER/MODEL or a folder, and there is no folder "${model}"`;
    assert.throws(() => find(model), { message });
  }
  assert.throws(() => find('./vit-base'), /^Error: no folder .*vit-base/);
  assert.throws(() => find('a/b/c'), /^Error: no folder .*c \(from "a\/b\/c"\)$/);
  assert.match(find('Xenova/vit-base'), /models.Xenova--vit-base@main$/);
  mkdirSync(join(base, 'vit-base'));
  assert.equal(find('vit-base'), join(base, 'vit-base'));
});
