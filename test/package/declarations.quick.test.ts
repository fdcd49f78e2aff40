/** The declarations that a modelet in TypeScript reads: the package holds all that its entry names. */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import { repositoryRoot } from '../fixtures/repository.ts';
import { npm, type Packed, run } from './packing.ts';

/** The declarations that one names by a relative path. */
async function namedBy(declaration: string): Promise<string[]> {
  const text = await readFile(join(repositoryRoot, declaration), 'utf8');
  return [...text.matchAll(/(?:from|import\()\s*['"](\.[^'"]+)\.[tj]s['"]/g)].map(([, path = '']) =>
    join(dirname(declaration), `${path}.d.ts`),
  );
}

test('the package holds every declaration that its entry names', async () => {
  const { stdout } = await run(process.execPath, [npm, 'pack', '--dry-run', '--json', '--ignore-scripts'], {
    cwd: repositoryRoot,
    maxBuffer: 10_000_000,
  });
  const [packed] = JSON.parse(stdout) as Packed[];
  const held = new Set(packed?.files.map(({ path }) => path));
  const named = new Set(['dist/src/index.d.ts']);
  for (const declaration of named) for (const other of await namedBy(declaration)) named.add(other);
  assert.ok(named.size > 10, `${named.size} declarations`);
  assert.deepEqual(
    [...named].filter((declaration) => !held.has(declaration)),
    [],
  );
});
