/** The editor half of each node stands alone: node sets can be disabled one by one. */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { NODE_SCHEMAS } from '../fixtures/node-schemas.ts';
import { repositoryRoot } from '../fixtures/repository.ts';

const RESOURCES = join(repositoryRoot, 'resources');
/** By what is attached to the page: the module that attaches it. The build attaches other things. */
const MODULES: ReadonlyMap<string, string> = new Map(
  readdirSync(RESOURCES)
    .filter((file) => file.endsWith('.js'))
    .flatMap((file) =>
      [...textOf(file).matchAll(/^window\.modelet\.(\w+) = /gm)].map(([, name]) => [name as string, file]),
    ),
);
/** Loaded by every page: the build adds it. */
const DEFINE_NODE = 'define-node.js';
/** The styles that a module needs beside those of all forms. */
const STYLES: Readonly<Record<string, readonly string[]>> = {
  'gate-panel.js': ['sidebar.css', 'sidebar-stage.css', 'gate-live.css'],
  'stage-dialog.js': ['stage-form.css'],
};

function textOf(file: string): string {
  return readFileSync(join(RESOURCES, file), 'utf8');
}

function importedBy(file: string): string[] {
  return [...textOf(file).matchAll(/ from '\.\/([^']+)'/g)].map(([, name]) => name as string);
}

for (const type of Object.keys(NODE_SCHEMAS)) {
  test(`${type} loads each module and style that it uses`, () => {
    const html = readFileSync(join(repositoryRoot, 'nodes', `${type}.html`), 'utf8');
    const loaded = [...html.matchAll(/(?:src|href)="resources\/@modelet\/node-red-pipeline\/([^"]+)"/g)].map(
      ([, name]) => name as string,
    );
    const used = [...html.matchAll(/window\.modelet\.(\w+)/g)].map(
      ([, name]) => MODULES.get(name as string) ?? (name as string),
    );
    // That module attaches itself wherever it is imported.
    const imported = new Set(used.flatMap((file) => importedBy(file)));
    const needed = [...new Set(used)].filter((file) => !imported.has(file));
    const styles = needed.flatMap((file) => STYLES[file] ?? []);
    const own = needed.filter((file) => file !== DEFINE_NODE);
    assert.deepEqual([...styles, ...own].sort(), loaded.sort());
  });
}
