/** The command `npm run path`: measures the path of a request, prints its functions, and writes the list of its files. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { repositoryRoot } from '../../fixtures/repository.ts';
import { measurePaths } from './measure.ts';
import { filesOf, WAYS, withPath } from './page.ts';

const page = join(repositoryRoot, 'docs', 'architecture.md');

const paths = await measurePaths();
for (const way of WAYS) {
  console.log(`\n${way}: ${filesOf(paths[way]).length} files, ${paths[way].length} functions`);
  for (const { process, file, name, callsPerRequest } of paths[way])
    console.log(`  ${process.padEnd(8)} ${file} ${name || '(anonymous)'} ${callsPerRequest}`);
}
writeFileSync(page, withPath(readFileSync(page, 'utf8'), paths));
console.log('\nwrote the list in docs/architecture.md');
