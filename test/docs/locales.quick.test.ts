/** The texts of the editor: each language says everything, and each help begins with a recipe. */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { NODE_SCHEMAS } from '../fixtures/node-schemas.ts';
import { repositoryRoot } from '../fixtures/repository.ts';
import { pagePaths, readPage } from './pages.ts';

type Catalog = { readonly [key: string]: string | Catalog };

const FOLDER = join(repositoryRoot, 'nodes', 'locales');
const SOURCE = 'en-US';
const LANGUAGES = readdirSync(FOLDER);
const FILES = readdirSync(join(FOLDER, SOURCE));

/** Names and symbols that no language changes. */
const SAME = /^(?:TLS|PromQL|D|B|N|max_SYS|Node-RED|p\d\d|pid __pid__|Softmax|Top p|u?int8|WebSocket|ms|\{.*\})$/;

function read(language: string, file: string): string {
  return readFileSync(join(FOLDER, language, file), 'utf8');
}

function textsOf(catalog: Catalog, path = ''): [string, string][] {
  return Object.entries(catalog).flatMap(([key, value]) =>
    typeof value === 'string' ? [[`${path}${key}`, value] as [string, string]] : textsOf(value, `${path}${key}.`),
  );
}

/** Placeholders and code are the same in every language. */
function fixedParts(text: string): string[] {
  return (text.match(/__\w+__|<code>.*?<\/code>/gs) ?? []).map((part) => part.replaceAll(/\s+/g, ' ')).sort();
}

function tagsOf(html: string): string[] {
  return (html.match(/<[a-z]\w*/g) ?? []).sort();
}

for (const language of LANGUAGES.filter((other) => other !== SOURCE)) {
  describe(`texts: ${language}`, () => {
    test('has the files of the source language', () => {
      assert.deepEqual(readdirSync(join(FOLDER, language)), FILES);
    });

    for (const file of FILES.filter((name) => name.endsWith('.json'))) {
      test(`${file} has every key, with the same placeholders and code`, () => {
        const texts = new Map(textsOf(JSON.parse(read(language, file)) as Catalog));
        const source = textsOf(JSON.parse(read(SOURCE, file)) as Catalog);
        assert.deepEqual([...texts.keys()].sort(), source.map(([key]) => key).sort());
        for (const [key, text] of source) assert.deepEqual(fixedParts(texts.get(key) ?? ''), fixedParts(text), key);
      });
    }

    test('no text is the English one, except names, units and code', () => {
      const english = FILES.filter((name) => name.endsWith('.json')).flatMap((file) => {
        const source = new Map(textsOf(JSON.parse(read(SOURCE, file)) as Catalog));
        return textsOf(JSON.parse(read(language, file)) as Catalog).filter(
          ([key, text]) => source.get(key) === text && !SAME.test(text) && !key.includes('.placeholder.'),
        );
      });
      assert.deepEqual(english, []);
    });

    for (const file of FILES.filter((name) => name.endsWith('.html'))) {
      test(`${file} has every paragraph and all code`, () => {
        const [text, source] = [read(language, file), read(SOURCE, file)];
        assert.deepEqual(tagsOf(text), tagsOf(source));
        assert.deepEqual(fixedParts(text), fixedParts(source));
      });
    }
  });
}

describe('texts: recipes', () => {
  const pages = LANGUAGES.flatMap((language) =>
    FILES.filter((name) => name.endsWith('.html')).map((file) => ({ language, file })),
  );
  for (const { language, file } of pages) {
    test(`the help ${language}/${file} begins with its purpose and three steps`, () => {
      const start = /^<script [^>]+>\s*<p>.+?<\/p>\s*<ol>(.+?)<\/ol>/s.exec(read(language, file));
      assert.ok(start);
      assert.equal(start[1]?.match(/<li>/g)?.length, 3);
    });
  }
});

describe('the words of the dialogs', () => {
  /** Also names that a modelet's own code has. */
  const OF_CODE = new Set(['inputSchema', 'outputSchema']);
  const properties = Object.values(NODE_SCHEMAS).flatMap(({ properties }) => Object.keys(properties));
  const names = new Set(properties.filter((name) => /[A-Z]|^libs$/.test(name) && !OF_CODE.has(name)));
  const guides = pagePaths().filter((path) => /^(README|docs\/(tutorial|faq|guides|operations)\b)/.test(path));

  test('guides name a field by its label, not by its property, which is for reference pages', () => {
    const found = guides.flatMap((path) => {
      const text = readPage(path).replaceAll(/^\s*```[\s\S]*?^\s*```/gm, '');
      return [...text.matchAll(/`(\w+)`/g)]
        .map(([, name = '']) => name)
        .filter((name) => names.has(name))
        .map((name) => `${path}: ${name}`);
    });
    assert.ok(names.size > 40 && guides.length > 25);
    assert.deepEqual(found, []);
  });
});
