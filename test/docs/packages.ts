/** The packages that `npm run recipes` installs, for tests of libraries that are too large for node_modules. */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { repositoryRoot } from '../fixtures/repository.ts';

export const PACKAGES: string = join(repositoryRoot, '.recipes');
const LISTS = join(repositoryRoot, 'test', 'docs', 'recipes');

/** Why a test that needs the packages is skipped: false where they are. With CI=true it fails instead. */
export function withoutPackages(): string | false {
  const isCurrent = ['requirements.txt', 'package.json'].every((list) => {
    const installed = join(PACKAGES, list);
    return existsSync(installed) && readFileSync(installed).equals(readFileSync(join(LISTS, list)));
  });
  if (!isCurrent && process.env['CI'] === 'true') {
    throw new Error(`${PACKAGES} lacks packages of test/docs/recipes: .ci/run installs them by npm run recipes`);
  }
  return !isCurrent && 'npm run recipes has not been run';
}
