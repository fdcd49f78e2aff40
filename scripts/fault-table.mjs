// Writes the tables of docs/faults.md anew: faults from the tests' rows, seeded bugs from their edits.
import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { root } from './runtimes.mjs';

const built = spawnSync(process.execPath, [join(root, 'scripts', 'build.mjs')], { stdio: 'inherit' });
if (built.status !== 0) process.exit(built.status ?? 1);

const { withTables } = await import('../dist/test/faults/table.js');
const page = join(root, 'docs', 'faults.md');
writeFileSync(page, withTables(readFileSync(page, 'utf8')));
