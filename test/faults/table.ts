/** The tables of the page about faults, made of the rows that are tested. */
import { MUTATIONS } from '../mutations/edits.ts';
import { CLIENT_FAULTS } from './client-faults.ts';
import { DEPLOY_FAULTS } from './deploy-faults.ts';
import { ELSEWHERE_FAULTS } from './elsewhere-faults.ts';
import { ENGINE_FAULTS } from './engine-faults.ts';
import { MACHINE_FAULTS } from './machine-faults.ts';
import { NODE_RED_FAULTS } from './node-red-faults.ts';
import { THREAD_FAULTS } from './thread-faults.ts';
import { WORKER_FAULTS } from './worker-faults.ts';

interface Row {
  readonly name: string;
  readonly requests: string;
  readonly recovery: string;
}

const GROUPS: readonly { readonly title: string; readonly faults: readonly Row[] }[] = [
  WORKER_FAULTS,
  THREAD_FAULTS,
  ENGINE_FAULTS,
  NODE_RED_FAULTS,
  CLIENT_FAULTS,
  DEPLOY_FAULTS,
  MACHINE_FAULTS,
];

function faultTables(): string {
  const elsewhere = ELSEWHERE_FAULTS.map((row) => ({ ...row, name: `${row.name} (\`test/${row.suite}\`)` }));
  return [...GROUPS, { title: 'In other folders of the tests', faults: elsewhere }]
    .map(({ title, faults }) =>
      [
        `### ${title}`,
        '',
        '| fault | requests | recovery |',
        '|---|---|---|',
        ...faults.map(({ name, requests, recovery }) => `| ${name} | ${requests} | ${recovery} |`),
      ].join('\n'),
    )
    .join('\n\n');
}

/** In Markdown. */
function mutationTable(): string {
  const rows = MUTATIONS.map(({ bug, suite, test }) => `| ${bug} | ${suite}: ${test} |`);
  return ['| bug | turns red |', '|---|---|', ...rows].join('\n');
}

/** The page with its tables made anew. @throws Error where the page has no place for one. */
export function withFaultTables(page: string): string {
  return filled(filled(page, 'fault tables', faultTables()), 'mutation table', mutationTable());
}

function filled(page: string, what: string, text: string): string {
  const head = `<!-- ${what}: npm run fault-table -->`;
  const start = page.indexOf(head);
  const end = page.indexOf(`<!-- end of ${what} -->`);
  if (start < 0 || end < start) throw new Error(`the page has no place for the ${what}`);
  return `${page.slice(0, start + head.length)}\n\n${text}\n\n${page.slice(end)}`;
}
