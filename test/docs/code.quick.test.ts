/** Every code block of the documentation is what it says it is, and every command exists. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { promisify } from 'node:util';
import { repositoryRoot } from '../fixtures/repository.ts';
import { type CodeBlock, codeBlocks, pagePaths, readPage, tableRows } from './pages.ts';

const run = promisify(execFile);
const { scripts } = JSON.parse(readFileSync(join(repositoryRoot, 'package.json'), 'utf8')) as {
  scripts: Record<string, string>;
};
/** Languages of blocks that are no code: drawings of flows, and configuration of other programs. */
const DRAWINGS: readonly string[] = ['', 'text', 'yaml', 'dockerfile', 'html'];

const all = pagePaths().flatMap((page) => codeBlocks(readPage(page)).map((block) => ({ page, block })));

function of(language: string): typeof all {
  return all.filter(({ block }) => block.language === language);
}

describe('code blocks', () => {
  let folder: string;
  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'modelet-docs-'));
  });
  after(() => rm(folder, { recursive: true }));

  /** Inline code is the body of an async function; anything else is a module. */
  async function assertJavaScript({ text }: CodeBlock): Promise<void> {
    const isModule = /^(export|import|module\.exports|const .* = require)/m.test(text);
    const file = join(folder, /^(export|import)/m.test(text) ? 'block.mjs' : 'block.cjs');
    await writeFile(file, isModule ? text : `(async (input, init, state, msg) => {\n${text}\n});`);
    await run(process.execPath, ['--check', file]);
  }

  test('blocks of JavaScript parse', async () => {
    for (const { page, block } of of('js'))
      await assertJavaScript(block).catch((error: Error) => assert.fail(`${page}:${block.line}: ${error.message}`));
    assert.ok(of('js').length > 5);
  });

  test('blocks of JSON parse', () => {
    for (const { page, block } of of('json'))
      assert.doesNotThrow(() => JSON.parse(block.text), `${page}:${block.line}`);
    assert.ok(of('json').length > 10);
  });

  test('blocks of Python compile', async () => {
    for (const { page, block } of of('python')) {
      const compile = 'import sys; compile(sys.argv[1], "block", "exec")';
      // Code of the dialog may return, as the body of a function.
      const text = /^return /m.test(block.text) ? `def tab():\n${block.text.replaceAll(/^/gm, ' ')}` : block.text;
      await run('python3', ['-c', compile, text]).catch((error: Error) =>
        assert.fail(`${page}:${block.line}: ${error.message}`),
      );
    }
    assert.ok(of('python').length > 3);
  });

  test('blocks of shell parse, and run scripts that exist', async () => {
    for (const { page, block } of of('sh')) {
      await run('bash', ['-n', '-c', block.text]).catch((error: Error) =>
        assert.fail(`${page}:${block.line}: ${error.message}`),
      );
    }
    assert.ok(of('sh').length > 5);
  });

  test('no block has a language that nothing checks', () => {
    const checked = [...DRAWINGS, 'js', 'json', 'python', 'sh'];
    const others = all.filter(({ block }) => !checked.includes(block.language));
    assert.deepEqual(
      others.map(({ page, block }) => `${page}:${block.line}: ${block.language}`),
      [],
    );
  });
});

test('every npm script that a page names exists', () => {
  const missing = pagePaths().flatMap((page) =>
    [...readPage(page).matchAll(/`?npm (?:run ([\w:-]+)|(start|test)\b)/g)].flatMap(([, named, short]) => {
      const script = named ?? short ?? '';
      return script in scripts ? [] : [`${page}: ${script}`];
    }),
  );
  assert.deepEqual(missing, []);
});

function shippedExamples(): string[] {
  return readdirSync(join(repositoryRoot, 'examples')).flatMap((name) => /^(.+)\.json$/.exec(name)?.[1] ?? []);
}

test('every example that a page names exists', () => {
  const shipped = shippedExamples();
  const list = /\bexamples? (\*[^*]+\*(?:(?:,|,? and)\s+\*[^*]+\*)*)/g;
  const named = pagePaths().flatMap((page) =>
    [...readPage(page).matchAll(list)].flatMap(([, titles = '']) =>
      [...titles.matchAll(/\*([^*]+)\*/g)].map(([, title = '']) => ({ page, title: title.replace(/\s+/g, ' ') })),
    ),
  );
  assert.deepEqual(
    named.filter(({ title }) => !shipped.some((example) => example === title || example.startsWith(`${title} - `))),
    [],
  );
  assert.ok(named.length > 5);
});

test('the index lists every example', () => {
  const listed = tableRows(readPage('docs/README.md'), 'example').map(([cell = '']) => cell.replaceAll('*', ''));
  assert.deepEqual(listed.toSorted(), shippedExamples().toSorted());
});
