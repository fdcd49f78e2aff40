/** Reads the pages of the documentation: which there are, and their headings, links and code blocks. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { repositoryRoot } from '../fixtures/repository.ts';

/** A fenced block of a page. */
export interface CodeBlock {
  /** First word after the fence, such as `js`; blank without packages. */
  readonly language: string;
  /** Further words after the fence, such as the name of the file that the block is. */
  readonly label: string;
  readonly text: string;
  /** Line of the opening fence, from 1. */
  readonly line: number;
}

export interface Link {
  readonly target: string;
  readonly line: number;
}

const FENCE = /^\s*```(\S*)[ \t]*(.*)$/;

/** Paths of all pages, relative to the repository: those at its top, and those in `docs/`. */
export function pagePaths(): string[] {
  const top = readdirSync(repositoryRoot).filter((name) => name.endsWith('.md'));
  const docs = readdirSync(join(repositoryRoot, 'docs'), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.md'))
    .map((name) => `docs/${name.replaceAll('\\', '/')}`);
  return [...top, ...docs].sort();
}

export function readPage(path: string): string {
  return readFileSync(join(repositoryRoot, path), 'utf8');
}

export function codeBlocks(page: string): CodeBlock[] {
  const blocks: CodeBlock[] = [];
  let open: { language: string; label: string; line: number; lines: string[] } | null = null;
  for (const [index, line] of page.split('\n').entries()) {
    const fence = FENCE.exec(line);
    if (fence && open) {
      blocks.push({ ...open, text: `${open.lines.join('\n')}\n` });
      open = null;
    } else if (fence) {
      open = { language: fence[1] ?? '', label: (fence[2] ?? '').trim(), line: index + 1, lines: [] };
    } else {
      open?.lines.push(line);
    }
  }
  if (open) throw new Error(`the code block of line ${open.line} does not end`);
  return blocks;
}

/** Returns the page's lines, blank where a code block or a comment is, so that line numbers stay. */
function proseLines(page: string): string[] {
  let inCode = false;
  return page
    .replace(/<!--[\s\S]*?-->/g, (comment) => comment.replace(/[^\n]/g, ''))
    .split('\n')
    .map((line) => {
      const isFence = FENCE.test(line);
      if (isFence) inCode = !inCode;
      return isFence || inCode ? '' : line;
    });
}

export function linksOf(page: string): Link[] {
  return proseLines(page).flatMap((line, index) =>
    [...line.replace(/`[^`]*`/g, (code) => code.replace(/[[\]()]/g, '_')).matchAll(/\]\(([^)\s]+)\)/g)].map(
      ([, target]) => ({ target: target as string, line: index + 1 }),
    ),
  );
}

/** Returns the anchors of the page's headings, as GitHub makes them. */
export function anchorsOf(page: string): Set<string> {
  const anchors = new Set<string>();
  for (const line of proseLines(page)) {
    const [, title] = /^#{1,6}\s+(.+?)\s*$/.exec(line) ?? [];
    if (title === undefined) continue;
    const plain = title.replace(/\[([^\]]*)\]\([^)]*\)/g, '$1').toLowerCase();
    const slug = plain.replace(/[^\p{L}\p{N}\s_-]/gu, '').replace(/\s/g, '-');
    let anchor = slug;
    for (let count = 1; anchors.has(anchor); count += 1) anchor = `${slug}-${count}`;
    anchors.add(anchor);
  }
  return anchors;
}

/** Returns the rows of the table whose head starts with `head`, cells trimmed and without code marks. */
export function tableRows(page: string, head: string): string[][] {
  const lines = page.split('\n');
  const start = lines.findIndex((line) => line.startsWith(`| ${head} |`));
  if (start < 0) throw new Error(`no table headed ${head}`);
  const end = lines.findIndex((line, index) => index > start && !line.startsWith('|'));
  return lines.slice(start + 2, end < 0 ? undefined : end).map((line) =>
    line
      .split(/(?<!\\)\|/)
      .slice(1, -1)
      .map((cell) => cell.trim().replaceAll('`', '')),
  );
}
