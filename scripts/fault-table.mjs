// Regenerates the tables of docs/faults.md: faults from the tests' rows, seeded bugs from their edits.
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { build } from './run-built.mjs';
import { root } from './runtimes.mjs';

build();
const { withFaultTables } = await import('../dist/test/faults/table.js');
const page = join(root, 'docs', 'faults.md');
writeFileSync(page, withFaultTables(readFileSync(page, 'utf8')));
