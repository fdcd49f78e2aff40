/** docs/architecture.md names the files and rooms that there are. */
import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { repositoryRoot } from '../fixtures/repository.ts';

const page = readFileSync(join(repositoryRoot, 'docs', 'architecture.md'), 'utf8');

function filesIn(text: string): string[] {
  return [
    ...new Set(
      [...text.matchAll(/`((?:src|nodes|scripts)\/[\w./-]+\.(?:ts|mjs))`/g)].map(([, file]) => file as string),
    ),
  ];
}

function section(title: string): string {
  const start = page.indexOf(`\n## ${title}\n`);
  assert.ok(start >= 0, `no section ${title}`);
  const end = page.indexOf('\n## ', start + 1);
  return page.slice(start, end < 0 ? undefined : end);
}

test('every file that the page names exists', () => {
  const missing = filesIn(page).filter((file) => !existsSync(join(repositoryRoot, file)));
  assert.deepEqual(missing, []);
});

test('the table of rooms has every folder of src, and no other', () => {
  const rooms = [...section('Rooms').matchAll(/^\| `([^`]+)` \|/gm)].map(([, room]) => room);
  const folders = readdirSync(join(repositoryRoot, 'src'), { withFileTypes: true })
    .filter((entry) => entry.isDirectory() && readdirSync(join(repositoryRoot, 'src', entry.name)).length > 0)
    .map(({ name }) => `src/${name}`);
  assert.deepEqual([...rooms].sort(), [...folders, 'nodes'].sort());
});

const HOUSES = ['flow', 'gate', 'headless', 'hosts', 'http', 'node-red', 'runtime'];

for (const house of HOUSES) {
  test(`src/${house} begins with a README of at most 40 lines, whose files exist`, () => {
    const folder = join(repositoryRoot, 'src', house);
    const text = readFileSync(join(folder, 'README.md'), 'utf8');
    assert.ok(text.trimEnd().split('\n').length <= 40);
    const named = [...text.matchAll(/`([\w./-]+\.ts|[\w-]+(?:\/[\w-]+)+)`/g)].map(([, file]) => file as string);
    assert.notEqual(named.length, 0, 'it names no file to start with');
    const missing = named.filter((file) => ![folder, repositoryRoot].some((from) => existsSync(join(from, file))));
    assert.deepEqual(missing, []);
  });
}
