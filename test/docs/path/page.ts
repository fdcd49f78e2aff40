/** The list of files on the path of a request, as docs/architecture.md has it. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { repositoryRoot } from '../../fixtures/repository.ts';
import type { Step, Way } from './measure.ts';

export const WAYS: readonly Way[] = ['listener', 'compiled', 'flow'];

const PLACE = /(<!-- measured: request-path \(npm run path\) -->\n)([\s\S]*?)(<!-- end -->)/;
const ROW = /^\| `([^`]+)` \| ([^|]*) \| ([^|]*) \|/gm;
const FIRST_SENTENCE = /^\/\*\*?\s*([\s\S]*?)(?:[.:](?=\s)|\s*\*\/)/;

/** Returns the page with the list made anew. */
export function withPath(page: string, paths: Readonly<Record<Way, readonly Step[]>>): string {
  if (!PLACE.test(page)) throw new Error('the page has no place for the path of a request');
  const rows = merged(WAYS.map((way) => filesOf(paths[way]))).map((file) => rowOf(file, paths));
  const head = '| file | runs in | on the way | does |\n|---|---|---|---|';
  return page.replace(PLACE, (_all, begin: string, _old: string, end: string) => {
    return `${begin}\n${countsOf(paths)}\n\n${head}\n${rows.join('\n')}\n\n${end}`;
  });
}

/** Returns the files that the page lists for a way. */
export function listedFor(way: Way, page: string): string[] {
  const [, , list = ''] = PLACE.exec(page) ?? [];
  return [...list.matchAll(ROW)].flatMap(([, file, , ways]) => {
    return ways?.trim() === 'all' || ways?.includes(way) ? [file as string] : [];
  });
}

export function filesOf(steps: readonly Step[]): string[] {
  return [...new Set(steps.map(({ file }) => file))];
}

function countsOf(paths: Readonly<Record<Way, readonly Step[]>>): string {
  const counts = WAYS.map((way) => `${filesOf(paths[way]).length} files (${way})`);
  return `A request passes ${counts.slice(0, -1).join(', ')} or ${counts.at(-1)}.`;
}

function rowOf(file: string, paths: Readonly<Record<Way, readonly Step[]>>): string {
  const steps = WAYS.flatMap((way) => paths[way]).filter((step) => step.file === file);
  const ways = WAYS.filter((way) => paths[way].some((step) => step.file === file));
  const processes = [...new Set(steps.map(({ process }) => process))];
  const on = ways.length === WAYS.length ? 'all' : ways.join(', ');
  return `| \`${file}\` | ${processes.join(', ')} | ${on} | ${purposeOf(file)} |`;
}

function purposeOf(file: string): string {
  const [, sentence = ''] = FIRST_SENTENCE.exec(readFileSync(join(repositoryRoot, file), 'utf8')) ?? [];
  return sentence.replaceAll(/(?:^|\s*\n )\*\s+/g, ' ').trim();
}

/** Merges lists of files that have most files in common into one, in which each keeps its order as far as possible. */
function merged(lists: readonly (readonly string[])[]): string[] {
  const all: string[] = [];
  for (const list of lists) {
    let at = 0;
    for (const file of list) {
      const known = all.indexOf(file);
      if (known >= 0) at = known + 1;
      else all.splice(at++, 0, file);
    }
  }
  return all;
}
