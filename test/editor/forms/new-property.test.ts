/** A property is declared once: with a line in the table of its type, and texts, it is in the dialog and in the deploy. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { before, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import type { Page, Route } from 'playwright-core';
import type { NodeSchema } from '../../../src/config/schemas/node-schema.ts';
import { validate } from '../../../src/config/validate.ts';
import { isConfig, NODE_SCHEMAS, type NodeType } from '../../fixtures/node-schemas.ts';
import { repositoryRoot } from '../../fixtures/repository.ts';
import { EditorPage } from '../editor-page.ts';
import { Form } from '../form.ts';
import { sharedSession } from '../session.ts';

type Catalog = { readonly [key: string]: string | Catalog };

interface Sources {
  readonly schemas: Readonly<Record<string, NodeSchema>>;
  readonly scriptOf: unknown;
  readonly catalogOf: (type: string) => Catalog;
}

/** The part of the build that makes the editor halves. */
interface EditorHalves {
  readSources(dist: string, root: string): Promise<Sources>;
  editorHalf(page: string, type: string, sources: Sources): string;
}

const TYPE = 'modelet-feed';
const DIST = join(repositoryRoot, 'dist');
const session = sharedSession();

let halves: EditorHalves;
let sources: Sources;
// Not at the top level of the file, which others load by `require`.
before(async () => {
  halves = await import(pathToFileURL(join(repositoryRoot, 'scripts', 'editor-halves.mjs')).href);
  sources = await halves.readSources(DIST, repositoryRoot);
});

const PROPERTIES: NodeSchema['properties'] = {
  skip: { type: 'integer', default: 3, minimum: 0, maximum: 9, icon: 'forward', unit: 'lines', description: 'Skips' },
  ending: { type: 'string', default: 'lf', enum: ['lf', 'crlf'], icon: 'paragraph', description: 'Ends of lines' },
  mark: {
    type: 'string',
    default: '',
    format: 'path',
    onlyIf: { ending: ['crlf'] },
    icon: 'flag',
    description: 'Mark',
  },
};
const SCHEMA: NodeSchema = {
  type: 'object',
  properties: { ...NODE_SCHEMAS[TYPE].properties, ...PROPERTIES },
};
const TEXTS: Catalog = {
  label: { skip: 'Lines to skip', ending: 'Line ends', mark: 'Marked by' },
  unit: { lines: 'lines at the start' },
  ending: { lf: 'Unix', crlf: 'Windows' },
  tip: { skip: 'The first lines.', ending: { lf: 'A line feed.', crlf: 'Two characters.' } },
  placeholder: { mark: 'for example /mark' },
  error: { path: 'is no path' },
};

function withTexts(catalog: Catalog, texts: Catalog): Catalog {
  const merged = Object.entries(texts).map(([key, text]) => {
    const old = catalog[key];
    return [key, typeof text === 'string' ? text : withTexts(typeof old === 'object' ? old : {}, text)];
  });
  return { ...catalog, ...Object.fromEntries(merged) };
}

/** Returns the page of the type as a build with the new properties makes it. */
function extendedHalf(): string {
  const page = readFileSync(join(repositoryRoot, 'nodes', `${TYPE}.html`), 'utf8');
  const withRows = page.replace('<rows>name from window</rows>', '<rows>name from window skip ending mark</rows>');
  assert.notEqual(withRows, page);
  return halves.editorHalf(withRows, TYPE, {
    ...sources,
    schemas: { ...sources.schemas, [TYPE]: SCHEMA },
    catalogOf: (type) => withTexts(sources.catalogOf(type), TEXTS),
  });
}

/** Gives the browser the page and the texts of the extended type in place of those that Node-RED has. */
async function extend(page: Page): Promise<void> {
  const built = readFileSync(join(DIST, 'nodes', `${TYPE}.html`), 'utf8').trim();
  const change = async (route: Route, edit: (body: string) => string): Promise<void> => {
    const response = await route.fetch();
    const body = await response.text();
    const changed = edit(body);
    await route.fulfill({ response, body: changed });
  };
  const isPages = (headers: Record<string, string>): boolean => /text\/html/.test(headers['accept'] ?? '');
  await page.route(/\/nodes(\?|$)/, (route) =>
    isPages(route.request().headers())
      ? change(route, (body) => body.replace(built, () => extendedHalf()))
      : route.fallback(),
  );
  await page.route(/\/nodes\/messages/, (route) =>
    change(route, (body) => {
      const catalogs = JSON.parse(body) as Record<string, Record<string, Catalog>>;
      const own = catalogs[`@modelet/node-red-pipeline/${TYPE}`];
      if (own) own[TYPE] = withTexts(own[TYPE] ?? {}, TEXTS);
      return JSON.stringify(catalogs);
    }),
  );
}

/** On a page for this test alone. */
async function inExtended(work: (editor: EditorPage) => Promise<void>): Promise<void> {
  await session.inEditor([], async (shown) => {
    const page = await shown.page.context().newPage();
    await extend(page);
    const editor = await EditorPage.open(page, session.nodeRed);
    try {
      await work(editor);
      assert.deepEqual(editor.problems, []);
    } finally {
      await editor.close();
    }
  });
}

test('a property in the table and the texts has a row with its label, unit, tip and default, a validator and a place in the node', async () => {
  await inExtended(async (editor) => {
    const id = await editor.dragFromPalette(TYPE, 400, 100);
    const form = new Form(editor);
    await editor.open(id);
    const row = (property: string) => editor.page.locator(`.form-row[data-row="${property}"]`);
    assert.deepEqual(await form.get(['skip', 'ending', 'mark']), { skip: '3', ending: 'lf', mark: '' });
    const text = async (property: string): Promise<string> =>
      ((await row(property).textContent()) ?? '').replace(/\s+/g, ' ').trim();
    assert.equal(await text('skip'), 'Lines to skip lines at the start The first lines.');
    assert.match(await text('ending'), /^Line ends .*Unix.*Windows.* A line feed\.$/);
    assert.equal(await row('mark').isVisible(), false);
    await form.assertRefuses('skip', '10', /^Lines to skip: must be a whole number from 0 to 9$/);
    await form.assertTakes('skip', '9');
    await form.set({ ending: 'crlf' });
    assert.match(await text('ending'), /Two characters\.$/);
    assert.equal(await form.element('mark').getAttribute('placeholder'), 'for example /mark');
    await form.assertRefuses('mark', '/a b', /^Marked by: is no path$/);
    await form.assertTakes('mark', '/a');
    await editor.ok();
    const { skip, ending, mark } = await editor.saved(id);
    assert.deepEqual([String(skip), ending, mark], ['9', 'crlf', '/a']);
  });
  const { skip, ending } = validate(SCHEMA, {});
  assert.deepEqual([skip, ending], [3, 'lf']);
  assert.throws(() => validate(SCHEMA, { skip: 10 }), { code: 'config_invalid', message: /^skip: must be <= 9/ });
});

test('every property has a field in its dialog, and a text for each reason against it', () => {
  /** Lists with a separate part in the dialog. */
  const lists = new Set(['libs', 'requirements', 'clients', 'versions', 'shares']);
  for (const [type, { properties, credentials = {} }] of Object.entries(NODE_SCHEMAS)) {
    const page = readFileSync(join(DIST, 'nodes', `${type}.html`), 'utf8');
    const prefix = isConfig(type as NodeType) ? 'node-config-input' : 'node-input';
    const errors = sources.catalogOf(type)['error'] as Catalog | undefined;
    for (const name of Object.keys({ ...properties, ...credentials })) {
      assert.equal(page.split(`id="${prefix}-${name}"`).length - 1, lists.has(name) ? 0 : 1, `${type}: ${name}`);
    }
    for (const [name, { type: kind, enum: choices, numeric, needed, refersTo, format }] of Object.entries(properties)) {
      const isWhole = kind === 'integer' || numeric?.isWhole;
      const reasons = [
        choices && 'unknown',
        (kind === 'integer' || kind === 'number' || numeric) && (isWhole ? 'wholeNumber' : 'number'),
        needed && !refersTo && 'missing',
        format?.endsWith('property') && 'property',
        format?.startsWith('json') && 'json',
      ];
      for (const reason of reasons) if (reason) assert.ok(errors?.[reason], `${type}: error.${reason} for ${name}`);
    }
  }
});
