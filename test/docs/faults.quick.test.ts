/** The page about faults lists what the tests inject. */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { ELSEWHERE_FAULTS } from '../faults/elsewhere-faults.ts';
import { withFaultTables } from '../faults/table.ts';
import { repositoryRoot } from '../fixtures/repository.ts';
import { MUTATIONS } from '../mutations/edits.ts';

test('docs/faults.md has a row for each fault that is tested and for each seeded bug (npm run fault-table writes them)', () => {
  const page = readFileSync(join(repositoryRoot, 'docs', 'faults.md'), 'utf8');
  assert.equal(page, withFaultTables(page));
});

test('each seeded bug changes one place of its file, and the file of its test is there', () => {
  const paths = readdirSync(join(repositoryRoot, 'test'), { recursive: true }) as string[];
  const suites = new Set(paths.map((path) => path.replaceAll('\\', '/').replace(/(\.\w+)*\.test\.ts$/, '')));
  for (const { bug, file, find, suite } of MUTATIONS) {
    assert.equal(readFileSync(join(repositoryRoot, file), 'utf8').split(find).length, 2, `${bug}: ${file}`);
    assert.ok(suites.has(suite), `${bug}: ${suite}`);
  }
});

test('each fault that the page finds in another folder is tested there', () => {
  for (const { suite, test: name } of ELSEWHERE_FAULTS) {
    const source = readFileSync(join(repositoryRoot, 'test', `${suite}.test.ts`), 'utf8');
    assert.ok(source.includes(name), `${suite} has a test "${name}"`);
  }
});
