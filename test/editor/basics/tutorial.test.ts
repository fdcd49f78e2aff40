/** The tutorial, step by step: what it says to draw, to type, to save and to ask. */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import type { WorkerStatus } from '../../../src/core/model.ts';
import { assertPrints, type Place } from '../../docs/commands.ts';
import { type CodeBlock, codeBlocks, readPage } from '../../docs/pages.ts';
import type { Snapshot } from '../../fixtures/node-red.ts';
import { until } from '../../fixtures/polling.ts';
import { centreOf, type EditorPage } from '../editor-page.ts';
import { sharedSession } from '../session.ts';

const session = sharedSession();
const page = readPage('docs/tutorial.md');
const blocks = codeBlocks(page);
/** Steps that the tests of packages run: `test/package`. */
const ELSEWHERE: readonly string[] = ['start', 'install'];

interface Drawn {
  readonly httpIn: string;
  readonly stage: string;
}

function block(label: string): CodeBlock {
  const found = blocks.find((candidate) => candidate.label === label);
  assert.ok(found, `the tutorial has a block ${label}`);
  return found;
}

/** The commands of a step, each with its output. */
function commandsOf(step: number): [CodeBlock, CodeBlock | undefined][] {
  const lines = page.split('\n');
  const from = lines.findIndex((line) => line.startsWith(`## ${step}. `)) + 1;
  const next = lines.findIndex((line, index) => index >= from && line.startsWith('## '));
  return blocks.flatMap((candidate, index): [CodeBlock, CodeBlock | undefined][] => {
    const isOurs = candidate.line > from && candidate.line < next + 1 && candidate.language === 'sh';
    return isOurs && !ELSEWHERE.includes(candidate.label) ? [[candidate, blocks[index + 1]]] : [];
  });
}

async function ask(step: number): Promise<void> {
  const { url, editorUrl, userDir } = session.nodeRed;
  const place: Place = { url, editor: editorUrl.replace(/\/$/, ''), folder: userDir };
  const commands = commandsOf(step);
  assert.ok(commands.length > 0, `step ${step} asks something`);
  for (const [command, expected] of commands) await assertPrints(command, expected, place);
}

async function save(name: string): Promise<void> {
  await writeFile(join(session.nodeRed.userDir, name), block(name).text);
}

async function draw(editor: EditorPage): Promise<Drawn> {
  const httpIn = await editor.dragFromPalette('http in', 160, 100);
  const stage = await editor.dragFromPalette('modelet-stage', 640, 100);
  const collector = await editor.dragFromPalette('modelet-collector', 260, 240);
  const response = await editor.dragFromPalette('http response', 520, 240);
  await editor.wire(httpIn, stage);
  await editor.wire(stage, collector);
  await editor.wire(collector, response, 0);
  await editor.wire(collector, response, 1);

  await editor.open(httpIn);
  await editor.field('method').selectOption('post');
  await editor.fill(editor.field('url'), '/words');
  await editor.ok();

  await editor.open(stage);
  await editor.typeCode('code', block('predict').text.trim());
  await editor.page.getByLabel('Input (JSON)').fill('{"text": "a walk in the woods"}');
  await editor.page.getByRole('button', { name: 'Run', exact: true }).click();
  await editor.page.locator('#modelet-stage-test-result').getByText('"words": 5').waitFor();
  await editor.ok();
  return { httpIn, stage };
}

/** Gives the stage a file, and deploys. */
async function useFile(editor: EditorPage, stage: string, source: string, file: string): Promise<void> {
  await editor.open(stage);
  await editor.field('source').selectOption(source);
  await editor.fill(editor.field('path'), file);
  const watch = editor.field('watch');
  // By the keyboard: lines about the file appear above it, and it may move away from a click.
  if (!(await watch.isChecked())) await watch.press('Space');
  assert.ok(await watch.isChecked());
  await editor.ok();
  await deploy(editor, stage);
}

/** Deploys, and waits until the workers of this deploy, and no others, serve. */
async function deploy(editor: EditorPage, stage: string): Promise<void> {
  const before = new Set((await workersOf(stage)).map(({ pid }) => pid));
  await editor.deploy();
  await until('new workers have taken over', async () => {
    const workers = await workersOf(stage);
    return workers.length > 0 && workers.every(({ pid, state }) => !before.has(pid) && state === 'ready');
  });
}

async function workersOf(stage: string): Promise<readonly WorkerStatus[]> {
  const response = await fetch(`${session.nodeRed.editorUrl}modelets/snapshot`);
  const { runtimes } = (await response.json()) as Snapshot;
  return runtimes.flatMap(({ stages }) => stages).find(({ id }) => id === stage)?.workers ?? [];
}

/** Deletes the wire between two nodes that stand in a row. */
async function cut(editor: EditorPage, from: string, to: string): Promise<void> {
  const start = await centreOf(editor.node(from).locator('.red-ui-flow-port-output .red-ui-flow-port'));
  const end = await centreOf(editor.node(to).locator('.red-ui-flow-port-input .red-ui-flow-port'));
  await editor.page.mouse.click((start.x + end.x) / 2, (start.y + end.y) / 2);
  await editor.page.keyboard.press('Delete');
  assert.deepEqual((await editor.saved(from)).wires, [[]]);
}

test('following the tutorial gives what it says', async () => {
  await session.inEditor([], async (editor) => {
    const { httpIn, stage } = await draw(editor);
    await deploy(editor, stage);
    await ask(3);

    await save('words.js');
    await useFile(editor, stage, 'file', 'words.js');
    await ask(4);
    await ask(5);

    await cut(editor, httpIn, stage);
    const batcher = await editor.dragFromPalette('modelet-batcher', 400, 100);
    await editor.wire(httpIn, batcher);
    await editor.wire(batcher, stage);
    assert.deepEqual((await editor.saved(batcher)).wires, [[stage]]);
    await editor.open(stage);
    await editor.fill(editor.field('workers'), '2');
    await editor.ok();
    await deploy(editor, stage);
    await ask(6);

    await save('words.py');
    await useFile(editor, stage, 'python', 'words.py');
    await ask(7);
  });
});
