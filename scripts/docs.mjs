// Regenerates the tables of the documentation from the code: properties, errors, metrics, frames.
//   npm run docs
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { build } from './run-built.mjs';
import { root } from './runtimes.mjs';

build();
const { withTables } = await import('../dist/test/docs/generated.js');
const { pagePaths } = await import('../dist/test/docs/pages.js');
for (const path of pagePaths()) {
  const file = join(root, path);
  const page = readFileSync(file, 'utf8');
  const made = withTables(page);
  if (made === page) continue;
  writeFileSync(file, made);
  console.log(`wrote ${path}`);
}
