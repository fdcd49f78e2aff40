/** `npm test -- --of FILE` finds the tests of a source file by test/table.json, which `npm run test-table` measures. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { test } from 'node:test';
import { repositoryRoot } from '../fixtures/repository.ts';

/** Returns the names of the tests that the command lists for a source file. */
function testsOf(path: string): string[] {
  const { stdout } = spawnSync(process.execPath, ['scripts/test.mjs', '--of', path, '--list'], {
    cwd: repositoryRoot,
    encoding: 'utf8',
  });
  return [...stdout.matchAll(/^(\S+) calls \d+ % of the functions of /gm)].map(([, name]) => name as string);
}

function assertFinds(path: string, ending: string): void {
  const names = testsOf(path);
  assert.ok(
    names.some((name) => name.endsWith(ending)),
    `${path}: ${names.join(', ')}`,
  );
}

test('the tests of forks and of gathers are found by the paths of their files', () => {
  assertFinds('src/runtime/engine/routes/forks.ts', '/forks');
  assertFinds('src/runtime/desk/gathers.ts', '/gathers');
});

test('a file that has moved keeps its tests, by the end of its path', () => {
  assertFinds('src/other/engine/routes/forks.ts', '/forks');
  assert.deepEqual(testsOf('forks.ts'), testsOf('src/runtime/engine/routes/forks.ts'));
});

test('a file of types has the tests of the files that import it', () => {
  assertFinds('src/gate/source.ts', 'gate/gate');
});

test('a file without tests has none', () => {
  assert.deepEqual(testsOf('src/no-such-file.ts'), []);
});
