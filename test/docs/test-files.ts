/** The subjects of the README that `npm test` shows with the real thing, and the test files that show them. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { stage } from '../../src/config/schemas/stage.ts';
import { NODE_SCHEMAS } from '../fixtures/node-schemas.ts';
import { repositoryRoot } from '../fixtures/repository.ts';
import { readPage } from './pages.ts';

interface TestFile {
  readonly name: string;
  readonly folder: string;
  readonly file: string;
  readonly marks: ReadonlySet<string>;
  readonly inProcess: boolean;
}

const { testFiles } = (await import(join(repositoryRoot, 'scripts', 'testing', 'files.mjs'))) as {
  testFiles(below: string, ending: string): TestFile[];
};

/** The sentence of a test file's first comment that names its subjects, such as `Shows: node modelet-gate, way listener.` */
const SHOWS = /^[ /*]*Shows: ([^.]+)\./m;

const FILES = testFiles('test', 'ts');
const isQuick = ({ inProcess, marks }: TestFile): boolean => inProcess || marks.has('quick');

/** Returns the subjects that need a quick test with real processes, Node-RED or a browser. */
export function subjects(): string[] {
  const [promises = ''] = /^You have a model[\s\S]+?^You write no queue/m.exec(readPage('README.md')) ?? [];
  const types = Object.keys(NODE_SCHEMAS);
  return [
    ...[...promises.matchAll(/^- \*\*(.+?)\.?\*\*/gm)].map(([, promise]) => `promise "${promise}"`),
    ...types.map((type) => `node ${type}`),
    ...['process', 'thread', 'remote', ...(stage.properties['source']?.enum ?? [])].map((kind) => `worker ${kind}`),
    ...['flow', 'compiled', 'listener', 'headless', 'KServe', 'stream', 'WebSocket'].map((way) => `way ${way}`),
    ...types.map((type) => `dialog ${type}`),
    'dialog sidebar',
  ];
}

/** Returns the quick test files by the subjects that they name. */
export function shownBy(): Map<string, string[]> {
  const shown = new Map<string, string[]>();
  for (const file of FILES.filter(isQuick)) {
    const [, list = ''] = SHOWS.exec(readFileSync(join(repositoryRoot, file.file), 'utf8')) ?? [];
    for (const subject of list.split(/,[\s*]+/).filter((text) => text !== '')) {
      shown.set(subject, [...(shown.get(subject) ?? []), file.name]);
    }
  }
  return shown;
}

/** Returns the rows of the table of subjects. */
export function subjectRows(): string[][] {
  const shown = shownBy();
  return subjects().map((subject) => [subject, (shown.get(subject) ?? []).map((name) => `\`${name}\``).join(', ')]);
}
