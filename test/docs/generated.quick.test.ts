/** The documentation repeats what the code declares, and has a place for all of it. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ERROR_CODES } from '../../src/core/errors.ts';
import { METRICS } from '../../src/observe/export/metrics.ts';
import { NODE_SCHEMAS } from '../fixtures/node-schemas.ts';
import { withTables } from './generated.ts';
import { pagePaths, readPage, tableRows } from './pages.ts';
import { shownBy, subjects } from './test-files.ts';

test('the committed tables are those that "npm run docs" writes', () => {
  const outdated = pagePaths().filter((path) => withTables(readPage(path)) !== readPage(path));
  assert.deepEqual(outdated, []);
});

for (const [type, { properties }] of Object.entries(NODE_SCHEMAS)) {
  test(`docs/nodes/${type}.md has a row for each property`, () => {
    const rows = tableRows(readPage(`docs/nodes/${type}.md`), 'property');
    assert.deepEqual(
      rows.map(([name]) => name),
      Object.keys(properties),
    );
  });
}

test('the index has a row for each node', () => {
  const rows = tableRows(readPage('docs/README.md'), 'node').map(([cell = '']) => /\[([^\]]+)\]/.exec(cell)?.[1]);
  assert.deepEqual(rows.toSorted(), Object.keys(NODE_SCHEMAS).toSorted());
});

test('the reference has a row for each error code and each metric', () => {
  const codes = tableRows(readPage('docs/reference/errors.md'), 'code').map(([code]) => code);
  assert.deepEqual(codes, ERROR_CODES);
  const metrics = readPage('docs/reference/metrics.md').match(/^\| `modelet_\w+`/gm) ?? [];
  assert.equal(metrics.length, METRICS.length);
});

test('npm test shows each subject with the real thing, and the files name no other subject', () => {
  const shown = shownBy();
  assert.deepEqual(
    subjects().filter((subject) => !shown.has(subject)),
    [],
  );
  assert.deepEqual(
    [...shown.keys()].filter((subject) => !subjects().includes(subject)),
    [],
  );
});
