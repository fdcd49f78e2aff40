/** Every link between the pages leads somewhere: to a file, and to a heading in it. */
import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join, posix } from 'node:path';
import { test } from 'node:test';
import { repositoryRoot } from '../fixtures/repository.ts';
import { anchorsOf, linksOf, pagePaths, readPage } from './pages.ts';

interface Manifest {
  readonly repository: { readonly url: string };
}

const { repository } = JSON.parse(readFileSync(join(repositoryRoot, 'package.json'), 'utf8')) as Manifest;
/** Owner and name of the repository on GitHub. */
const NAME = /github\.com\/(.+)\.git$/.exec(repository.url)?.[1] ?? '';
/** Addresses of this repository's own files, on pages that are also read elsewhere, such as npm's. */
const OWN = [`https://raw.githubusercontent.com/${NAME}/main/`, `https://github.com/${NAME}/blob/main/`];

/** The error of a link; null if it is right or leads to another site. */
function problemOf(page: string, target: string): string | null {
  const own = OWN.find((start) => target.startsWith(start));
  if (own === undefined && /^[a-z]+:/.test(target)) return null;
  const [path = '', anchor] = (own === undefined ? target : target.slice(own.length)).split('#', 2);
  const base = own === undefined ? posix.dirname(page) : '.';
  const file = path === '' ? page : posix.join(base, decodeURIComponent(path));
  if (!existsSync(join(repositoryRoot, file))) return `no file ${file}`;
  if (anchor === undefined) return null;
  return anchorsOf(readPage(file)).has(anchor) ? null : `no heading #${anchor} in ${file}`;
}

test('every link leads to a file and a heading that exist', () => {
  const broken = pagePaths().flatMap((page) =>
    linksOf(readPage(page)).flatMap(({ target, line }) => {
      const problem = problemOf(page, target);
      return problem === null ? [] : [`${page}:${line}: ${problem}`];
    }),
  );
  assert.deepEqual(broken, []);
});

test('a broken link and a missing heading are found', () => {
  assert.match(String(problemOf('docs/README.md', 'guides/none.md')), /no file/);
  assert.match(String(problemOf('README.md', 'docs/faq.md#none')), /no heading/);
  assert.equal(problemOf('docs/guides/gate.md', '#how-it-decides'), null);
});

test('every page of docs can be reached from its index', () => {
  const reached = new Set(['docs/README.md']);
  for (const page of reached) {
    for (const { target } of linksOf(readPage(page))) {
      const [path = ''] = target.split('#', 1);
      if (!path.endsWith('.md') || /^[a-z]+:/.test(path)) continue;
      const file = posix.join(dirname(page), path);
      if (file.startsWith('docs/')) reached.add(file);
    }
  }
  const docs = pagePaths().filter((page) => page.startsWith('docs/'));
  assert.deepEqual(
    docs.filter((page) => !reached.has(page)),
    [],
  );
});

test('the pictures of the README and of docs have absolute addresses, which npm needs', () => {
  const relative = pagePaths().flatMap((page) =>
    [...readPage(page).matchAll(/!\[[^\]]*\]\(([^)]+)\)/g)].flatMap(([, target = '']) =>
      OWN.some((start) => target.startsWith(start)) ? [] : [`${page}: ${target}`],
    ),
  );
  assert.deepEqual(relative, []);
});
