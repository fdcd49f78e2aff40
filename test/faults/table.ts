/** The fault table of the docs, made of the rows that are tested. */
import { DEPLOY_FAULTS } from './deploy-faults.ts';
import { ENGINE_FAULTS } from './engine-faults.ts';
import { MACHINE_FAULTS } from './machine-faults.ts';
import { NODE_RED_FAULTS } from './node-red-faults.ts';
import { WORKER_FAULTS } from './worker-faults.ts';

interface Row {
  readonly name: string;
  readonly requests: string;
  readonly recovery: string;
}

const GROUPS: readonly { readonly title: string; readonly faults: readonly Row[] }[] = [
  WORKER_FAULTS,
  ENGINE_FAULTS,
  NODE_RED_FAULTS,
  DEPLOY_FAULTS,
  MACHINE_FAULTS,
];

/** In Markdown. */
export function faultTables(): string {
  return GROUPS.map(({ title, faults }) =>
    [
      `### ${title}`,
      '',
      '| fault | requests | recovery |',
      '|---|---|---|',
      ...faults.map(({ name, requests, recovery }) => `| ${name} | ${requests} | ${recovery} |`),
    ].join('\n'),
  ).join('\n\n');
}

const START = '<!-- fault tables: npm run fault-table -->';
const END = '<!-- end of fault tables -->';

/** The page with its tables made anew. @throws Error where the page has no place for them. */
export function withFaultTables(page: string): string {
  const start = page.indexOf(START);
  const end = page.indexOf(END);
  if (start < 0 || end < start) throw new Error(`the page has no "${START}" ... "${END}"`);
  return `${page.slice(0, start + START.length)}\n\n${faultTables()}\n\n${page.slice(end)}`;
}
