/** Every link between the pages, and from help pages, leads somewhere: to a file, and to a heading in it. */
import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
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

test('every path of this repository that a page names is there', () => {
  const missing = pagePaths().flatMap((page) =>
    [...readPage(page).matchAll(PATH)].flatMap(([, path = '']) => (isThere(path) ? [] : [`${page}: ${path}`])),
  );
  assert.deepEqual(missing, []);
});

const PATH = /`((?:assets|docs|examples|icons|nodes|resources|scripts|src|test)\/[\w./-]+)`/g;
/** Written by a command that the page names. */
const WRITTEN = new Set(['test/times.json']);

/** Whether there is such a file or folder; a test may be named without the marks of its file. */
function isThere(path: string): boolean {
  if (WRITTEN.has(path) || existsSync(join(repositoryRoot, path))) return true;
  const [name = '', ...marks] = posix.basename(path).split('.');
  const folder = join(repositoryRoot, posix.dirname(path));
  const files = existsSync(folder) ? readdirSync(folder) : [];
  return files.some((file) => file.startsWith(`${name}.`) && marks.every((mark) => file.split('.').includes(mark)));
}

test('a link of a help page leads to the page whose title it is, or to another site', () => {
  const problems = ['en-US', 'zh-CN'].flatMap((locale) => {
    const folder = join('nodes', 'locales', locale);
    const pages = readdirSync(join(repositoryRoot, folder)).filter((name) => name.endsWith('.html'));
    return pages.flatMap((name) =>
      [...readPage(join(folder, name)).matchAll(/<a href="([^"]*)"[^>]*>([^<]*)<\/a>/g)].flatMap(
        ([, target = '', text = '']) => {
          const problem = problemOf('README.md', target) ?? promiseOf(target, text);
          return problem === null ? [] : [`${locale}/${name}: ${problem}`];
        },
      ),
    );
  });
  assert.deepEqual(problems, []);
});

/** The error of a link into this repository whose text is not the title of its page. */
function promiseOf(target: string, text: string): string | null {
  const own = OWN.find((start) => target.startsWith(start));
  if (own === undefined) return target.includes(NAME) ? `${target} leads to no page` : null;
  const [path = ''] = target.slice(own.length).split('#', 1);
  const title = /^# (.*)$/m.exec(readPage(path))?.[1];
  return title === text ? null : `"${text}" leads to the page "${title}"`;
}
