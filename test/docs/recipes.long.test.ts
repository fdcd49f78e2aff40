/**
 * The guide with recipes: its models are trained, its stages deployed and its requests sent as a reader would do it.
 * Only the long form does, because the libraries are large: `npm run recipes` installs them into `.recipes`.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { copyFile, rm, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { endpoint, runtime, stage, TAB } from '../fixtures/flow.ts';
import { NodeRed } from '../fixtures/node-red.ts';
import { repositoryRoot } from '../fixtures/repository.ts';
import { assertPrints, type Place, printed } from './commands.ts';
import { PACKAGES, withoutPackages } from './packages.ts';
import { type CodeBlock, codeBlocks, readPage } from './pages.ts';

const PAGE = 'docs/guides/recipes.md';
/** From here on, the page has recipes whose libraries are too large for a test. */
const TRIED_BY_HAND = '## PyTorch';

interface Recipe {
  readonly url: string;
  readonly settings: { readonly source: string; readonly code?: string };
  /** The blocks since the recipe before: files, and commands that train. */
  readonly before: readonly CodeBlock[];
  readonly curl: CodeBlock;
  readonly answer: CodeBlock | undefined;
}

const page = readPage(PAGE);
const lines = page.split('\n');
const tested = codeBlocks(page).filter(({ line }) => line < lines.indexOf(TRIED_BY_HAND));
const recipes = recipesOf(tested);

function recipesOf(blocks: readonly CodeBlock[]): Recipe[] {
  const found: Recipe[] = [];
  let begin = 0;
  for (const [index, curl] of blocks.entries()) {
    const [, url] = /^curl -s http:\/\/127\.0\.0\.1:1880(\/\w+)/.exec(curl.text) ?? [];
    if (url === undefined) continue;
    const before = blocks.slice(begin, index);
    const settings = before.find(({ label }) => label === 'stage')?.text ?? '';
    found.push({ url, settings: JSON.parse(settings), before, curl, answer: blocks[index + 1] });
    begin = index + 1;
  }
  return found;
}

test('the recipes have a stage, a request and an answer each', () => {
  assert.ok(recipes.length > 5);
  for (const { curl, answer } of recipes) assert.equal(answer?.label, 'output', `${PAGE}:${curl.line}`);
});

if (process.env['TEST_FULL'] === '1') {
  describe('a recipe', { skip: withoutPackages() }, () => {
    let red: NodeRed;
    let place: Place;
    before(async () => {
      red = await NodeRed.start();
      place = { url: red.url, editor: `${red.url}/admin`, folder: red.userDir };
      await symlink(join(PACKAGES, 'venv'), join(red.userDir, '.venv'));
      await rm(join(red.userDir, 'node_modules'), { recursive: true, force: true });
      await symlink(join(PACKAGES, 'node_modules'), join(red.userDir, 'node_modules'));
      // Node-RED installs no module that its package.json has.
      await copyFile(join(PACKAGES, 'package.json'), join(red.userDir, 'package.json'));
      await copyFile(join(repositoryRoot, 'docs', 'quick-start.png'), join(red.userDir, 'photo.png'));
    });
    after(() => red.stop());

    for (const { url, settings, before: blocks, curl, answer } of recipes) {
      const heading = lines.slice(0, curl.line).findLast((line) => line.startsWith('#'));
      test(`${heading?.replace(/^#+ /, '')} (line ${curl.line})`, async () => {
        for (const block of blocks) {
          if (block.label.includes('.')) await writeFile(join(red.userDir, block.label), block.text);
          else if (block.label === 'train') await printed(block, place);
        }
        const { code = '', ...others } = settings;
        // A stage of another name: workers of the recipe before would serve until those of this one are ready.
        const name = `line-${curl.line}`;
        await red.deployReady([TAB, runtime(), ...endpoint(url, name), stage(name, code, `collector ${url}`, others)]);
        await assertPrints(curl, answer, place);
        if (url === '/small') {
          const picture = readFileSync(join(red.userDir, 'small.png'));
          assert.deepEqual([picture.readUInt32BE(16), picture.readUInt32BE(20)], [64, 64]);
        }
      });
    }
  });
}
