/** The dialog of a stage lists and creates files of flows, and neither `..` nor a link leads it anywhere else. */
import assert from 'node:assert/strict';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { after, test } from 'node:test';
import { createFlowFile, FileError, listFolder, whyNotCreated } from '../../src/config/files/flow-files.ts';
import { repositoryRoot } from '../fixtures/repository.ts';

const place = realpathSync(mkdtempSync(join(tmpdir(), 'modelet-flow-files-')));
after(() => rmSync(place, { recursive: true, force: true }));

const userDir = join(place, 'user');
const elsewhere = join(place, 'elsewhere');
const settings = { userDir };

function write(...path: string[]): string {
  const file = join(...path);
  mkdirSync(join(file, '..'), { recursive: true });
  writeFileSync(file, 'kept');
  return file;
}

for (const name of ['b.js', 'a.mjs', 'c.cjs', 'model.py', 'digits.onnx', 'notes.txt', '.hidden.js']) {
  write(userDir, 'models', name);
}
write(userDir, 'models', 'deep', 'd.js');
for (const hidden of ['node_modules', '.venv', '__pycache__']) write(userDir, 'models', hidden, 'x.js');
write(elsewhere, 'secret.js');
symlinkSync(elsewhere, join(userDir, 'out'));
symlinkSync(join(elsewhere, 'secret.js'), join(userDir, 'out.js'));
symlinkSync(join(userDir, 'nowhere.js'), join(userDir, 'dangling.js'));
symlinkSync(join(userDir, 'models', 'b.js'), join(userDir, 'in.js'));

/** Paths that lead out of the folders. */
const OUTSIDE = [
  elsewhere,
  relative(userDir, elsewhere),
  `models/../../${relative(place, elsewhere)}`,
  'out',
  join(userDir, 'out'),
  'out/deeper',
  place,
  '/',
  `${elsewhere}/not/there`,
];

async function names(folder: string, source: string): Promise<string[]> {
  const { entries } = await listFolder(settings, folder, source);
  return entries.map(({ path, kind }) => (kind === 'folder' ? `${path}/` : path));
}

test('a listing has folders and the files that suit the source, without the folders of programs', async () => {
  assert.deepEqual(await names('models', 'file'), ['models/deep/', 'models/a.mjs', 'models/b.js', 'models/c.cjs']);
  assert.deepEqual(await names('models', 'python'), ['models/deep/', 'models/model.py']);
  assert.deepEqual(await names('models', 'onnx'), ['models/deep/', 'models/digits.onnx']);
  assert.deepEqual(await names('models', 'module'), ['models/deep/']);
});

test('a listing begins where relative paths start, and goes up as far as the folders reach', async () => {
  const { folder, parent, roots } = await listFolder(settings, '', 'file');
  assert.deepEqual({ folder, parent, roots }, { folder: userDir, parent: null, roots: [userDir] });
  assert.equal((await listFolder(settings, 'models/deep', 'file')).parent, join(userDir, 'models'));
  assert.equal((await listFolder(settings, 'models/none/deeper', 'file')).folder, join(userDir, 'models'));
});

test('with fileWorkingDirectory, its files have relative paths and those of the user directory absolute ones', async () => {
  const both = { userDir, fileWorkingDirectory: elsewhere };
  const { roots, entries } = await listFolder(both, '', 'file');
  assert.deepEqual(roots, [elsewhere, userDir]);
  assert.deepEqual(entries, [{ name: 'secret.js', kind: 'file', path: 'secret.js' }]);
  const [deep] = (await listFolder(both, join(userDir, 'models'), 'file')).entries;
  assert.equal(deep?.path, join(userDir, 'models', 'deep'));
});

test('a listing follows a link that stays in the folders, and leaves out a link that leads out of them or nowhere', async () => {
  assert.deepEqual(await names('', 'file'), ['models/', 'in.js']);
});

test('no path leads the listing out of the folders', async () => {
  for (const path of OUTSIDE) {
    await assert.rejects(listFolder(settings, path, 'file'), { code: 'outside' }, path);
  }
  await assert.rejects(listFolder(settings, 'models/b.js', 'file'), { code: 'no-folder' });
});

test('a new file has the code that suits its source and call, and its folders are made', () => {
  for (const [path, source, predict, start] of [
    ['new/one.js', 'file', 'item', 'item.js'],
    ['new/two.mjs', 'file', 'batch', 'batch.js'],
    ['new/deep/three.py', 'python', 'item', 'item.py'],
    [join(userDir, 'new', 'four.py'), 'python', 'batch', 'batch.py'],
  ] as const) {
    assert.equal(whyNotCreated(settings, path, source), null);
    const file = createFlowFile(settings, path, source, predict);
    assert.equal(readFileSync(file, 'utf8'), readFileSync(join(repositoryRoot, 'resources', 'start', start), 'utf8'));
    assert.ok(file.startsWith(join(userDir, 'new')));
  }
});

test('a new file never replaces one, nor what a link stands for', () => {
  for (const path of ['models/b.js', 'dangling.js', 'in.js', 'out.js']) assertRefused('exists', path, 'file');
  assert.equal(readFileSync(join(userDir, 'models', 'b.js'), 'utf8'), 'kept');
  assert.equal(existsSync(join(userDir, 'nowhere.js')), false);
});

test('no path leads a new file out of the folders, and none is made for another ending', () => {
  for (const path of OUTSIDE) assertRefused('outside', `${path}/new.js`, 'file');
  assert.equal(existsSync(join(elsewhere, 'not')), false);
  assertRefused('no-folder', 'models/b.js/new.js', 'file');
  for (const [path, source] of [
    ['', 'file'],
    ['models/new', 'file'],
    ['models/.js', 'file'],
    ['models/new.cjs', 'file'],
    ['models/new.py', 'file'],
    ['models/new.js', 'python'],
    ['models/new.onnx', 'onnx'],
    ['models/new.js', '__proto__'],
  ] as const) {
    assertRefused('ending', path, source);
  }
});

function assertRefused(code: string, path: string, source: string): void {
  assert.equal(whyNotCreated(settings, path, source)?.code, code, path);
  assert.throws(
    () => createFlowFile(settings, path, source, 'item'),
    (thrown: unknown) => thrown instanceof FileError && thrown.code === code,
    path,
  );
}
