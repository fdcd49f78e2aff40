// Writes the fault tables of docs/faults.md anew from the tests' rows.
import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { root } from './runtimes.mjs';

const built = spawnSync(process.execPath, [join(root, 'scripts', 'build.mjs')], { stdio: 'inherit' });
if (built.status !== 0) process.exit(built.status ?? 1);

const { withFaultTables } = await import('../dist/test/faults/table.js');
const page = join(root, 'docs', 'faults.md');
writeFileSync(page, withFaultTables(readFileSync(page, 'utf8')));
