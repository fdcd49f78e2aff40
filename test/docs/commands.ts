/** Runs the shell commands of a page as its reader would, against a Node-RED of the test. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { PATIENCE_MS } from '../fixtures/polling.ts';
import type { CodeBlock } from './pages.ts';

const run = promisify(execFile);
/** The address of Node-RED in the pages, as `npm start` starts it. */
const WRITTEN = { url: 'http://127.0.0.1:1880', editor: 'http://127.0.0.1:1880/editor' };

/** The address of Node-RED in this test. */
export interface Place {
  readonly url: string;
  /** Its admin root, without a slash at the end. */
  readonly editor: string;
  readonly folder: string;
}

/** Returns what the commands print. Fails where one of them fails. */
export async function printed(block: CodeBlock, { url, editor, folder }: Place): Promise<string> {
  const script = block.text.replaceAll(WRITTEN.editor, editor).replaceAll(WRITTEN.url, url);
  const { stdout } = await run('bash', ['-euo', 'pipefail', '-c', script], { cwd: folder, timeout: PATIENCE_MS });
  return stdout;
}

/** Runs commands and compares what they print with the block that the page has below them. */
export async function assertPrints(block: CodeBlock, expected: CodeBlock | undefined, place: Place): Promise<void> {
  assert.equal(expected?.label, 'output', `line ${block.line} is followed by its output`);
  const output = await printed(block, place);
  if (expected?.language === 'json') assert.deepEqual(JSON.parse(output), JSON.parse(expected.text));
  else assert.equal(output.trim(), expected?.text.trim());
}
