/**
 * Known models beside Python: tiny models answer in transformers and in a stage with its worker, each input alone and all of
 * them in a batch. Prints how far the answers are apart. Started by scripts/bench.mjs.
 *
 *   node dist/test/bench/known/main.js [--only speech,detr] [--keep FOLDER]
 *
 * Exits non-zero where a difference is larger than it may be. A folder that is kept has the models and Python's answers for a
 * further run.
 */
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { basename, join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { repositoryRoot } from '../../fixtures/repository.ts';
import { Bed, type BedStage, batchesOf } from '../bed.ts';
import { renderTable } from '../report.ts';
import { COMPARE, type Differences, largestOf } from './differences.ts';
import { makeReference } from './python.ts';
import { allowedFor } from './tolerances.ts';

interface Case {
  readonly name: string;
  readonly task: string;
  readonly folder: string;
  readonly options: Readonly<Record<string, unknown>>;
  readonly inputs: readonly unknown[];
  readonly answers: readonly unknown[];
}

interface Cases {
  readonly versions: Readonly<Record<string, string>>;
  readonly cases: readonly Case[];
}

/** All inputs are there long before. */
const LONGEST_WAIT_MS = 10_000;
const LONGEST_MESSAGE = 200;

const inputOf = (given: unknown): unknown => {
  const { file } = given as { readonly file?: string };
  return file === undefined ? given : readFileSync(file);
};

async function differencesOf({ task, answers }: Case, found: readonly unknown[]): Promise<Differences> {
  const compare = COMPARE[task];
  if (!compare) throw new Error(`nothing compares answers of ${task}`);
  return largestOf(await Promise.all(answers.map((wanted, at) => compare(found[at], wanted))));
}

/** Lets a stage answer: each input when the one before is answered, and all of them as one batch. */
async function measure(one: Case): Promise<Readonly<Record<'alone' | 'together', Differences>>> {
  const stage: BedStage = { modelet: one.folder, task: one.task, init: one.options };
  const given = one.inputs.map(inputOf);
  const batching = batchesOf(given.length, 'oldest', LONGEST_WAIT_MS);
  const bed = await Bed.start({ alone: [stage], together: [{ ...stage, batching }] });
  try {
    const alone: unknown[] = [];
    for (const input of given) alone.push(await bed.request('alone', input));
    const together = await Promise.all(given.map((input) => bed.request('together', input)));
    return { alone: await differencesOf(one, alone), together: await differencesOf(one, together) };
  } finally {
    await bed.close();
  }
}

const said = (value: number): string => (value === 0 ? '0' : Number(value.toPrecision(2)).toString());
const list = (of: Differences): string =>
  Object.entries(of)
    .map(([what, value]) => `${what} ${said(value)}`)
    .join(', ');

const { values: options } = parseArgs({ options: { only: { type: 'string' }, keep: { type: 'string' } } });
const folder = options.keep === undefined ? mkdtempSync(join(tmpdir(), 'modelet-known-')) : resolve(options.keep);
mkdirSync(folder, { recursive: true });
let failed = 0;
try {
  const only = options.only?.split(',') ?? [];
  if (!existsSync(join(folder, 'cases.json'))) makeReference(folder, only);
  const { versions, cases } = JSON.parse(readFileSync(join(folder, 'cases.json'), 'utf8')) as Cases;
  const rows: string[][] = [];
  for (const one of cases.filter(({ folder }) => only.length === 0 || only.includes(basename(folder)))) {
    console.error(`stage: ${one.name} ...`);
    const allowed = allowedFor(one.task);
    const isBeyond = (of: Differences): boolean =>
      Object.entries(of).some(([what, value]) => !(value <= (allowed[what] ?? 0)));
    const found = await measure(one).catch((error: Error) => error);
    if (found instanceof Error) {
      failed += 1;
      rows.push([one.name, `FAILED: ${found.message.slice(0, LONGEST_MESSAGE)}`, '', '']);
      continue;
    }
    const isOver = isBeyond(found.alone) || isBeyond(found.together);
    failed += Number(isOver);
    rows.push([one.name, list(found.alone), list(found.together), `${list(allowed)}${isOver ? ': OVER' : ''}`]);
  }
  const library = createRequire(join(repositoryRoot, 'package.json')).resolve('@huggingface/transformers');
  const { version } = JSON.parse(readFileSync(join(library, '..', '..', 'package.json'), 'utf8')) as {
    version: string;
  };
  console.log(
    renderTable({
      title: 'Known models beside Python',
      columns: ['case', 'each input alone', 'all in a batch', 'allowed'],
      rows,
      notes: [
        `The largest difference of all inputs. @huggingface/transformers ${version}; Python: transformers ${versions['transformers']}, torch ${versions['torch']}.`,
      ],
    }),
  );
} finally {
  if (options.keep === undefined) rmSync(folder, { recursive: true, force: true });
}
if (failed > 0) {
  console.error(`FAILED: ${failed} of the cases differ by more than they may`);
  process.exit(1);
}
process.exit(0);
